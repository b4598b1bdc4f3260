"""Recordings that bring their states: one safetensors file for each request, named by its line.

Written from a model's capture, or put together from the files that a serving engine left. Nothing is held
but the block in hand; every file appears whole or not at all, and the recording when all its states are there.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inkplex_data.atomic import only_writer, replacing
from inkplex_data.corpus.assemble import RECORDING_SUFFIX
from inkplex_data.corpus.jsontext import numbered_lines, parse_json
from inkplex_data.corpus.recordings.recording import RecordedRequest, read_recording
from inkplex_data.errors import UsageError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.capture.capture_plan import ChunkRule
from inkplex_data.memory.capture.capture_states import capture_states
from inkplex_data.memory.capture.imported_states import TENSOR, open_states_file
from inkplex_data.memory.capture.inkling import Inkling
from inkplex_data.memory.capture.state_source import ImportedStates
from inkplex_data.memory.ownership import Ownership

Progress = Callable[[int, int], None]
"""Called with the tokens done and to do."""

_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True)
class StatedRecording:
    """A recording that was written with its states."""

    path: Path
    recording: str
    requests: int
    tokens: int
    width: int


def capture_recording(
    path: Path,
    out: Path,
    model: Inkling,
    *,
    chunk_tokens: int = 512,
    progress: Progress | None = None,
) -> StatedRecording:
    """Write `OUT/NAME.recording.jsonl` with the states that `model` computes for the recording `path`.

    The header names the model; its provenance has the model's identity and the chunk rule, on which states
    can depend. Raises RecordingError as `capture_states` does, OutputError as `only_writer` does.
    """
    requests = list(read_recording(path))
    sizes = {request.call: len(request) for request in requests}
    meter = _Meter(sum(sizes.values()), progress)
    files: dict[int, Path] = {}
    chunks = capture_states(requests, model, chunk_tokens=chunk_tokens, source=path.name)
    with only_writer(_states_folder(path, out)):
        for number, group in groupby(chunks, key=lambda chunk: chunk[0]):
            if not files:
                _withdraw(path, out)
            files[number] = _target(path, out, number)
            blocks = meter.passing(states for _, _, states in group)
            write_states_file(files[number], blocks, tokens=sizes[number], width=model.width)
        provenance = {"capture": {**model.identity.as_dict(), "chunks": ChunkRule(chunk_tokens).as_dict()}}
        target = _write(path, out, files, model=model.identity.id, provenance=provenance)
    return _stated(target, requests, model.width)


def attach_states(
    path: Path, folder: Path, out: Path, *, progress: Progress | None = None
) -> StatedRecording:
    """Write `OUT/NAME.recording.jsonl` with the states that lie in `folder`, one safetensors file a request.

    The last number in a file's name is that of its request; requests without computed tokens need none.
    Before anything is written every header is checked: a row triple for each computed token, all of one
    width. Every value is read and must be finite, and no states may be zero or those of another token. Files that lie under `out` are named where they are;
    others are copied, float32 rounded to bfloat16. States that the recording named before are replaced.

    Raises UsageError where files and requests do not match, RecordingError for the recording's own faults
    and for a file that does not fit, OutputError as `only_writer` does.
    """
    requests = sorted(read_recording(path, allow_outside=True), key=lambda one: one.call)
    Ownership(requests, source=path.name)
    found = _files(folder, requests)
    named = [one for one in requests if one.call in found]
    source = ImportedStates(
        tuple(
            open_states_file(found[one.call], tokens=len(one), where=f"{path.name}:{one.line}")
            for one in named
        ),
        named,
    )
    meter = _Meter(sum(map(len, requests)), progress)
    files: dict[int, Path] = {}
    copied = False
    with only_writer(_states_folder(path, out)):
        for request, states, checked in zip(named, source.files, source.checked(), strict=True):
            blocks = meter.passing(checked)
            if states.path.resolve().is_relative_to(out.resolve()):
                files[request.call] = out / states.path.resolve().relative_to(out.resolve())
                deque(blocks, maxlen=0)
            else:
                if not copied:
                    _withdraw(path, out)
                    copied = True
                files[request.call] = _target(path, out, request.call)
                write_states_file(files[request.call], blocks, tokens=states.tokens, width=source.width)
        target = _write(path, out, files, model=None, provenance={"states_from": folder.name})
    return _stated(target, requests, source.width)


def write_states_file(path: Path, blocks: Iterable[NDArray[np.uint16]], *, tokens: int, width: int) -> None:
    """Write bfloat16 bits, uint16 [k, 3, D] in each block and `tokens` rows in all, as one safetensors file."""
    shape = [tokens, len(STATE_ROWS), width]
    header: dict[str, Any] = {
        TENSOR: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 2 * int(np.prod(shape))]}
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = 0
    size_bytes = 8 + len(text) + 2 * int(np.prod(shape))
    with replacing(path, size_bytes=size_bytes) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for block in blocks:
            if block.shape[1:] != (len(STATE_ROWS), width):
                raise ValueError(
                    f"a block of shape {block.shape} in a file of [n, {len(STATE_ROWS)}, {width}]"
                )
            file.write(np.ascontiguousarray(block, "<u2").data)
            rows += len(block)
        if rows != tokens:
            raise ValueError(f"{rows} rows of states for {tokens} tokens")


def _files(folder: Path, requests: Sequence[RecordedRequest]) -> dict[int, Path]:
    """Request → its file in `folder`. Every request that computed tokens has one, every file a request."""
    found: dict[int, Path] = {}
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=str(folder))
    if not any(map(len, requests)):
        raise UsageError("no request of the recording computed a token", where=str(folder))
    for path in sorted(folder.glob("*.safetensors")):
        numbers = _NUMBER.findall(path.stem)
        if not numbers:
            continue
        other = found.setdefault(int(numbers[-1]), path)
        if other is not path:
            raise UsageError(
                f"{other.name} and {path.name} are both of request {int(numbers[-1])}", where=str(folder)
            )
    missing = [request.call for request in requests if len(request) and request.call not in found]
    if missing:
        have = (
            ", ".join(path.name for path in list(found.values())[:3]) or "no safetensors file with a number"
        )
        raise UsageError(
            f"there are no states of request {', '.join(map(str, missing[:5]))}{' …' * (len(missing) > 5)}",
            where=str(folder),
            next_step=f"Name each file after its request, like request-{missing[0]}.safetensors; there is {have}.",
        )
    strangers = sorted(found.keys() - {request.call for request in requests})
    if strangers:
        raise UsageError(
            f"{found[strangers[0]].name} belongs to no request: the recording has no request {strangers[0]}",
            where=str(folder),
            next_step="Check that the files belong to this recording, and move the others out of the folder.",
        )
    return found


def _name(path: Path) -> str:
    return path.name.removesuffix(".jsonl").removesuffix(".recording")


def _states_folder(path: Path, out: Path) -> Path:
    return out / f"{_name(path)}.states"


def _target(path: Path, out: Path, number: int) -> Path:
    return _states_folder(path, out) / f"{number:06d}.safetensors"


def _recording(path: Path, out: Path) -> Path:
    return out / f"{_name(path)}{RECORDING_SUFFIX}"


def _withdraw(path: Path, out: Path) -> None:
    """Take away the recording of an earlier run, or its states where it is the source itself: states that are about to
    be replaced one by one must not be read as its own."""
    target = _recording(path, out)
    if target.exists() and target.samefile(path):
        _write(path, out, {}, model=None, provenance={})
    else:
        target.unlink(missing_ok=True)


def _write(
    path: Path, out: Path, files: Mapping[int, Path], *, model: str | None, provenance: Mapping[str, Any]
) -> Path:
    """Copy the recording line by line, each request with the file of its states."""
    target = _recording(path, out)
    with replacing(target) as file:
        for number, line in enumerate(numbered_lines(path)):
            data = parse_json(line.data)
            if number == 0:
                data |= {"provenance": {**(data.get("provenance") or {}), **provenance}}
                data |= {} if model is None else {"model": model}
            else:
                data.pop("states", None)
                if data["call"] in files:
                    data["states"] = files[data["call"]].relative_to(out).as_posix()
            file.write(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return target


def _stated(target: Path, requests: Sequence[RecordedRequest], width: int) -> StatedRecording:
    name = read_recording(target).header.recording
    return StatedRecording(target, name, len(requests), sum(map(len, requests)), width)


class _Meter:
    """Counts rows of states as they pass."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self._done = 0

    def passing(self, blocks: Iterable[NDArray[np.uint16]]) -> Iterator[NDArray[np.uint16]]:
        for block in blocks:
            yield block
            self._done += len(block)
            if self._progress is not None:
                self._progress(self._done, self._total)
