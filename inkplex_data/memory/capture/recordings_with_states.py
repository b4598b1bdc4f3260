"""Recordings that bring their states: one safetensors file for each request, named by its line.

Written from a model's capture, or put together from the files that a serving engine left. Nothing is held
but the block in hand; every file appears whole or not at all, and the recording when all its states are there.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inkplex_data.atomic import only_writer, replacing
from inkplex_data.corpus.assemble import RECORDING_SUFFIX
from inkplex_data.corpus.jsontext import numbered_lines, parse_json
from inkplex_data.corpus.recordings.recording import RecordedRequest, read_recording
from inkplex_data.corpus.recordings.states_identity import StatesIdentity, to_metadata
from inkplex_data.errors import RecordingError, UsageError
from inkplex_data.faults import FaultError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.capture.imported_states import IDS, TENSOR, open_states_file
from inkplex_data.memory.capture.inkling import Inkling
from inkplex_data.memory.capture.state_source import CapturedStates, imported_states
from inkplex_data.memory.ownership import Ownership
from inkplex_data.plural import counted

Progress = Callable[[int, int], None]
"""Called with the tokens done and to do."""

_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True)
class StatedRecording:
    """A recording that was written with its states. `dropped` tokens are not in it: they were sampled last, and no model
    computed them."""

    path: Path
    recording: str
    requests: int
    tokens: int
    identity: StatesIdentity
    dropped: int = 0

    def text(self) -> str:
        """One line for people: what was written, and whose the states are."""
        marks = " (untrained)" if self.identity.untrained else ""
        by = "unidentified" if self.identity.unidentified else f"by {self.identity.model}{marks}"
        without = (
            f"; {counted(self.dropped, 'last token')} that no model computed left out" if self.dropped else ""
        )
        return (
            f"{self.path}: states of {self.tokens:,} tokens in {self.requests} requests, width "
            f"{self.identity.width}, {by}{without}"
        )


def capture_recording(
    path: Path,
    out: Path,
    model: Inkling,
    *,
    chunk_tokens: int | None = None,
    progress: Progress | None = None,
) -> StatedRecording:
    """Write `OUT/NAME.recording.jsonl` with the states that `model` computes for the recording `path`.

    The header and every file name the model, its chunks (`chunk_tokens`, or as its devices have room) and the input.
    Where several processes share the model, all of them compute and the first one writes. Requests whose files an earlier
    run left there, of the same model, chunks and input, are not written again, and computed only as far as others go on
    from them. Raises RecordingError as `CapturedStates` and `capture_states` do, OutputError as `only_writer` does.
    """
    recording = read_recording(path)
    requests = list(recording)
    sizes = {request.call: len(request) for request in requests}
    meter = _Meter(sum(sizes.values()), progress)
    source = CapturedStates(recording.header, requests, model, chunk_tokens, path.name)
    ids = {request.call: request.ids for request in requests}
    files = {
        request.call: target
        for request in requests
        if len(request) and _is_done(target := states_target(path, out, request.call), request, source)
    }
    meter.skip(sum(sizes[number] for number in files))
    done = frozenset(files)
    if model.rank:
        deque(source.blocks(done), maxlen=0)
        return StatedRecording(
            _recording(path, out), recording.header.recording, len(requests), meter.total, source.identity
        )
    with only_writer(_states_folder(path, out)):
        for number, group in groupby(source.blocks(done), key=lambda block: block[0]):
            if files.keys() == done:
                _withdraw(path, out)
            files[number] = states_target(path, out, number)
            identity = source.identity.of_input(source.inputs[number])
            blocks = meter.passing(states for _, states in group)
            write_states_file(files[number], blocks, ids=ids[number], identity=identity, request=number)
        target = write_recording(path, out, files, requests, identity=source.identity)
    return _stated(target, requests, source.identity)


def _is_done(target: Path, request: RecordedRequest, source: CapturedStates) -> bool:
    """Whether `target` has the states of the request that `source` would compute; files appear whole or not at all."""
    try:
        file = open_states_file(target, tokens=len(request), where=target.name)
        token_ids = file.token_ids()
        identity = source.identity.of_input(source.inputs[request.call])
        return file.identity == identity and token_ids is not None and np.array_equal(token_ids, request.ids)
    except (RecordingError, FaultError):
        return False


def attach_states(
    path: Path,
    folder: Path,
    out: Path,
    *,
    accept_unidentified: bool = False,
    progress: Progress | None = None,
) -> StatedRecording:
    """Write `OUT/NAME.recording.jsonl` with the states that lie in `folder`, one safetensors file a request.

    A file names its request in its metadata, else by the only number in its name; requests without computed tokens
    need none. Before anything is written every header is checked: whose states they are, the token ids, and a row
    triple for each computed token, all of one width. Every value is read and must be finite, and no states may be
    zero or those of another token. Files that lie under `out` are named where they are; others are copied, float32
    rounded to bfloat16. States that the recording named before are replaced.

    Raises UsageError where files and requests do not match, RecordingError for the recording's own faults
    and for a file that does not fit or does not say whose it is, OutputError as `only_writer` does.
    """
    recording = read_recording(path, allow_outside=True)
    requests = sorted(recording, key=lambda one: one.call)
    Ownership(requests, source=path.name)
    found = _files(folder, requests)
    every = {
        one.call: open_states_file(found[one.call], tokens=len(one), where=f"{path.name}:{one.line}")
        for one in requests
        if one.call in found
    }
    named = [one for one in requests if len(one)]
    opened = [every[one.call] for one in named]
    source = imported_states(
        recording.header,
        requests,
        opened,
        source=path.name,
        accept_unidentified=accept_unidentified,
        is_new=True,
    )
    meter = _Meter(sum(map(len, requests)), progress)
    files: dict[int, Path] = {}
    copied = False
    with only_writer(_states_folder(path, out)):
        groups = groupby(source.blocks(), key=lambda block: block[0])
        for request, states, (_, group) in zip(named, opened, groups, strict=True):
            blocks = meter.passing(states for _, states in group)
            if states.path.resolve().is_relative_to(out.resolve()):
                files[request.call] = out / states.path.resolve().relative_to(out.resolve())
                deque(blocks, maxlen=0)
            else:
                if not copied:
                    _withdraw(path, out)
                    copied = True
                files[request.call] = states_target(path, out, request.call)
                own = source.identity if source.identity.unidentified else states.identity
                assert own is not None
                write_states_file(
                    files[request.call], blocks, ids=request.ids, identity=own, request=request.call
                )
        target = write_recording(
            path,
            out,
            files,
            requests,
            identity=source.identity,
            provenance={"states_from": folder.name},
        )
    return _stated(target, requests, source.identity)


def write_states_file(
    path: Path,
    blocks: Iterable[NDArray[np.uint16]],
    *,
    ids: NDArray[np.int32],
    identity: StatesIdentity,
    request: int,
) -> None:
    """Write the states of a request as one safetensors file: bfloat16 bits, uint16 [k, 3, D] in each block, one row
    triple for each of the token `ids` [n], which stand behind them, and whose states they are."""
    shape = [len(ids), len(STATE_ROWS), identity.width]
    states_bytes, ids_bytes = 2 * prod(shape), 4 * len(ids)
    header: dict[str, Any] = {
        "__metadata__": to_metadata(identity, request),
        TENSOR: {"dtype": "BF16", "shape": shape, "data_offsets": [0, states_bytes]},
        IDS: {
            "dtype": "I32",
            "shape": [len(ids)],
            "data_offsets": [states_bytes, states_bytes + ids_bytes],
        },
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = 0
    with replacing(path, size_bytes=8 + len(text) + states_bytes + ids_bytes) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for block in blocks:
            if block.shape[1:] != (len(STATE_ROWS), identity.width):
                raise ValueError(
                    f"a block of shape {block.shape} in a file of [n, {len(STATE_ROWS)}, {identity.width}]"
                )
            file.write(np.ascontiguousarray(block, "<u2").data)
            rows += len(block)
        if rows != len(ids):
            raise ValueError(f"{rows} rows of states for {len(ids)} tokens")
        file.write(np.ascontiguousarray(ids, "<i4").data)


def _files(folder: Path, requests: Sequence[RecordedRequest]) -> dict[int, Path]:
    """Request → its file in `folder`. Every request that computed tokens has one, every file a request."""
    found: dict[int, Path] = {}
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=str(folder))
    if not any(map(len, requests)):
        raise UsageError("no request of the recording computed a token", where=str(folder))
    for path in sorted(folder.glob("*.safetensors")):
        number = _request_of(path)
        other = found.setdefault(number, path)
        if other is not path:
            raise UsageError(f"{other.name} and {path.name} are both of request {number}", where=str(folder))
    missing = [request.call for request in requests if len(request) and request.call not in found]
    if missing:
        have = ", ".join(path.name for path in list(found.values())[:3]) or "no safetensors file"
        raise UsageError(
            f"there are no states of request {', '.join(map(str, missing[:5]))}{' …' * (len(missing) > 5)}",
            where=str(folder),
            next_step=f"Export the states of every request that computed tokens; there is {have}.",
        )
    strangers = sorted(found.keys() - {request.call for request in requests})
    if strangers:
        raise UsageError(
            f"{found[strangers[0]].name} belongs to no request: the recording has no request {strangers[0]}",
            where=str(folder),
            next_step="Check that the files belong to this recording, and move the others out of the folder.",
        )
    return found


def _request_of(path: Path) -> int:
    """The request that a file of states is of: as its metadata say, else the only number in its name."""
    number = open_states_file(path, where=path.parent.name).request
    numbers = _NUMBER.findall(path.stem)
    if number is None and len(numbers) == 1:
        number = int(numbers[0])
    if number is None:
        many = f"{len(numbers)} numbers" if numbers else "no number"
        raise UsageError(
            f"{path.name} does not say which request its states are of: its metadata have no `request`, its name {many}",
            where=str(path.parent),
            next_step="Write the request's number into the metadata, or name the file request-NUMBER.safetensors.",
        )
    return number


def _name(path: Path) -> str:
    return path.name.removesuffix(".jsonl").removesuffix(".recording")


def _states_folder(path: Path, out: Path) -> Path:
    return out / f"{_name(path)}.states"


def states_target(path: Path, out: Path, number: int) -> Path:
    """Where the states of a request of the recording `path` lie below `out`."""
    return _states_folder(path, out) / f"{number:06d}.safetensors"


def _recording(path: Path, out: Path) -> Path:
    return out / f"{_name(path)}{RECORDING_SUFFIX}"


def _withdraw(path: Path, out: Path) -> None:
    """Take away the recording of an earlier run, or its states where it is the source itself: states that are about to
    be replaced one by one must not be read as its own."""
    target = _recording(path, out)
    if target.exists() and target.samefile(path):
        write_recording(path, out, {}, list(read_recording(path, allow_outside=True)), identity=None)
    else:
        target.unlink(missing_ok=True)


def write_recording(
    path: Path,
    out: Path,
    files: Mapping[int, Path],
    requests: Sequence[RecordedRequest],
    *,
    identity: StatesIdentity | None,
    provenance: Mapping[str, Any] | None = None,
    sizes: Mapping[int, int] | None = None,
) -> Path:
    """Copy the recording line by line, each request with the file of its states; the audio that it names goes with it.

    `sizes`: per request how many of its tokens are kept, all where it is None.
    """
    target = _recording(path, out)
    audio = {request.call: _audio_beside(request, path, out) for request in requests if request.audio}
    with replacing(target) as file:
        for number, line in enumerate(numbered_lines(path)):
            data = parse_json(line.data)
            if number == 0:
                if provenance:
                    data |= {"provenance": {**(data.get("provenance") or {}), **provenance}}
                if identity is None:
                    data.pop("states_identity", None)
                else:
                    data["states_identity"] = identity.as_dict()
                    data |= {} if identity.model is None else {"model": identity.model}
            else:
                data.pop("states", None)
                if sizes is not None:
                    del data["tokens"][sizes[data["call"]] :]
                if data["call"] in files:
                    data["states"] = files[data["call"]].relative_to(out).as_posix()
                for span, spelled in zip(data.get("audio") or (), audio.get(data["call"], ()), strict=True):
                    span["path"] = spelled
            file.write(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return target


def _audio_beside(request: RecordedRequest, path: Path, out: Path) -> list[str]:
    """The audio of a request's spans as the recording in `out` names it; what does not lie there is copied."""
    spelled = []
    for span in request.audio:
        real = span.path.resolve()
        if not real.is_relative_to(out.resolve()):
            digest = hashlib.sha256(str(real.parent).encode()).hexdigest()[:8]
            copy = out / f"{_name(path)}.audio" / f"{digest}-{real.name}"
            copy.parent.mkdir(parents=True, exist_ok=True)
            with replacing(copy) as file, real.open("rb") as original:
                shutil.copyfileobj(original, file)
            real = copy.resolve()
        spelled.append(real.relative_to(out.resolve()).as_posix())
    return spelled


def _stated(target: Path, requests: Sequence[RecordedRequest], identity: StatesIdentity) -> StatedRecording:
    name = read_recording(target).header.recording
    return StatedRecording(target, name, len(requests), sum(map(len, requests)), identity)


class _Meter:
    """Counts rows of states as they pass."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total, self._progress = total, progress
        self._done = 0

    def skip(self, tokens: int) -> None:
        self._done += tokens

    def passing(self, blocks: Iterable[NDArray[np.uint16]]) -> Iterator[NDArray[np.uint16]]:
        for block in blocks:
            yield block
            self._done += len(block)
            if self._progress is not None:
                self._progress(self._done, self.total)
