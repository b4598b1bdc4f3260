"""Streaming reader of `recording.jsonl`: a header, then one model request a line.

What requests say about each other (prefix chains, order of arrival) is checked in `memory`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from inkplex_data.corpus.faults import Breach
from inkplex_data.corpus.jsontext import Line, numbered_lines
from inkplex_data.corpus.paths import Paths
from inkplex_data.corpus.recordings.recording_lines import (
    LineFault,
    RecordingCall,
    RecordingHeader,
    parse_call,
    parse_header,
)
from inkplex_data.errors import CorpusError, RecordingError
from inkplex_data.problems import CODES

__all__ = ["Recording", "RecordingCall", "RecordingHeader", "read_recording"]


class Recording:
    """An opened recording. Iterating reads the requests one at a time, as often as one likes.

    Raises RecordingError, which names file, line and JSON pointer, when the faulty line is reached.
    """

    def __init__(self, path: Path, paths: Paths) -> None:
        self.path = path
        self._paths = paths
        self.header = self._read_header()

    def __iter__(self) -> Iterator[RecordingCall]:
        lines = self._lines()
        next(lines, None)
        seen: dict[int, int] = {}
        for line in lines:
            try:
                call = parse_call(line, self._paths)
                check_repeated(call, seen)
            except LineFault as fault:
                raise recording_error(fault, self.path, line.number) from fault
            yield call

    def _read_header(self) -> RecordingHeader:
        line = next(self._lines(), None)
        if line is None:
            raise recording_error(LineFault("recording-header", Breach("", "", "is empty")), self.path, 1)
        try:
            return parse_header(line)
        except LineFault as fault:
            raise recording_error(fault, self.path, line.number) from fault

    def _lines(self) -> Iterator[Line]:
        try:
            yield from numbered_lines(self.path)
        except OSError as error:
            raise RecordingError(
                "file-missing", f"cannot be read ({error.strerror or error})", where=str(self.path)
            ) from error
        except CorpusError as error:
            raise RecordingError("recording-line", error.what, where=error.where) from error


def read_recording(path: Path, *, root: Path | None = None, allow_outside: bool = False) -> Recording:
    """Open a recording and read its header. `states` paths are relative to its folder.

    They must stay inside `root` (default: that folder) unless `allow_outside`. Raises RecordingError.
    """
    folder = path.absolute().parent
    return Recording(path, Paths(folder, (root or folder).resolve(), allow_outside))


def recording_error(fault: LineFault, path: Path, line: int) -> RecordingError:
    return RecordingError(
        fault.code, str(fault), where=f"{path.name}:{line}", next_step=CODES[fault.code].remedy
    )


def check_repeated(call: RecordingCall, seen: dict[int, int]) -> None:
    """Raise LineFault where `seen` (request → line) has the request already; its tokens would have two times."""
    first = seen.setdefault(call.call, call.line)
    if first != call.line:
        rule = f"was described on line {first} already, so its tokens would have two times"
        raise LineFault("recording-call-twice", Breach("/call", str(call.call), rule))
