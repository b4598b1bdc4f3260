"""`import states`: captures of a serving engine, one safetensors file for each request, joined to a recording."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inkplex_data.atomic import replacing
from inkplex_data.corpus.jsontext import numbered_lines
from inkplex_data.corpus.recordings.recording import RecordedRequest, read_recording
from inkplex_data.errors import UsageError
from inkplex_data.memory.capture.imported_states import StatesFile, open_states_file, states_error
from inkplex_data.memory.capture.state_source import ImportedStates

NAME: Final = re.compile(r"call_(\d{1,10})\.safetensors")


@dataclass(frozen=True)
class ImportedRecording:
    """What `import_states` wrote. `requests` bring states, `tokens` state rows in all; `copied` files were copied."""

    recording: Path
    requests: int
    tokens: int
    width: int
    copied: int


def import_states(recording: Path, states: Path, out: Path) -> ImportedRecording:
    """Write `out`, the recording with the files of folder `states` named in it.

    The files are `call_N.safetensors` for the requests that computed tokens; N may have leading zeros. Files
    that lie under the folder of `out` are named where they are; others are copied to `STEM.states/` beside
    it. Every value is read and checked first, and `out` appears last, so it never names half a copy.

    Raises RecordingError for the recording's faults and for states that do not fit it, UsageError where
    files are missing or belong to no request.
    """
    calls = [call for call in read_recording(recording, allow_outside=True) if len(call)]
    files = _match(calls, _listed(states), recording, states)
    if not files:
        raise UsageError("no request of the recording computed a token", where=str(recording))
    source = ImportedStates(tuple(files.values()))
    for _ in source.chunks():
        pass
    out.parent.mkdir(parents=True, exist_ok=True)
    spelled, copied = {}, 0
    for call, file in files.items():
        spelled[call], made = _place(file.path, call, out)
        copied += made
    with replacing(out) as target:
        for line in _lines(recording, spelled):
            target.write(line)
    return ImportedRecording(
        out, len(files), sum(file.tokens for file in files.values()), source.width, copied
    )


def _listed(folder: Path) -> dict[int, Path]:
    found: dict[int, Path] = {}
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=str(folder))
    for path in sorted(folder.iterdir()):
        match = NAME.fullmatch(path.name)
        if match is None:
            continue
        other = found.setdefault(int(match[1]), path)
        if other != path:
            raise UsageError(f"{other.name} and {path.name} are of the same request", where=str(folder))
    return found


def _match(
    calls: list[RecordedRequest], listed: dict[int, Path], recording: Path, folder: Path
) -> dict[int, StatesFile]:
    known = {call.call for call in calls}
    strangers = [path.name for number, path in listed.items() if number not in known]
    missing = [call.call for call in calls if call.call not in listed]
    if missing or strangers:
        what = []
        if missing:
            what.append(f"no states for {len(missing)} requests, among them call {missing[0]}")
        if strangers:
            what.append(
                f"{len(strangers)} files of no request that computed tokens, among them {strangers[0]}"
            )
        raise UsageError(
            "; ".join(what),
            where=str(folder),
            next_step="name the files call_N.safetensors after the `call` of each request",
        )
    return {
        call.call: open_states_file(
            listed[call.call], tokens=len(call), where=f"{recording.name}:{call.line}"
        )
        for call in sorted(calls, key=lambda call: call.call)
    }


def _place(path: Path, call: int, out: Path) -> tuple[str, int]:
    """How the recording spells the file, and whether it had to be copied there."""
    root = out.parent.resolve()
    real = path.resolve()
    if real.is_relative_to(root):
        return real.relative_to(root).as_posix(), 0
    folder = out.with_name(f"{out.stem}.states")
    folder.mkdir(exist_ok=True)
    copy = folder / f"call_{call:06d}.safetensors"
    with path.open("rb") as file, replacing(copy) as target:
        shutil.copyfileobj(file, target, 1 << 20)
        if target.tell() != os.fstat(file.fileno()).st_size:
            raise states_error("the file changed while it was copied", path.name)
    return copy.relative_to(out.parent).as_posix(), 1


def _lines(recording: Path, spelled: dict[int, str]) -> Iterator[bytes]:
    for index, line in enumerate(numbered_lines(recording)):
        if index == 0:
            yield line.data + b"\n"
            continue
        request: dict[str, Any] = json.loads(line.data)
        request.pop("states", None)
        if request["call"] in spelled:
            request["states"] = spelled[request["call"]]
        yield json.dumps(request, ensure_ascii=False).encode() + b"\n"
