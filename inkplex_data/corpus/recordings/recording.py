"""Reader of `recording.jsonl`: a header, then one model request a line.

Lines are read one at a time; what requests say about each other is checked by `check_requests`, for a build and for
`validate` alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from inkplex_data.corpus.jsontext import Line, numbered_lines
from inkplex_data.corpus.paths import Paths
from inkplex_data.corpus.recordings.prefix_chains import Ownership, Request
from inkplex_data.corpus.recordings.recording_lines import (
    RecordedRequest,
    parse_header,
    parse_request,
)
from inkplex_data.corpus.recordings.recording_models import RecordingHeader
from inkplex_data.errors import CorpusError, RecordingError
from inkplex_data.faults import Fault, FaultError
from inkplex_data.problems import recording_refusal

__all__ = ["RecordedRequest", "Recording", "RecordingHeader", "check_requests", "read_recording"]


class StatedRequest(Request, Protocol):
    """A request that may name the file of its states."""

    @property
    def states_path(self) -> Path | None: ...


class Recording:
    """An opened recording. Iterating reads the requests one at a time, as often as one likes.

    Raises RecordingError, which names file, line and JSON pointer, when the faulty line is reached.
    """

    def __init__(self, path: Path, paths: Paths) -> None:
        self.path = path
        self._paths = paths
        self.header = self._read_header()

    def __iter__(self) -> Iterator[RecordedRequest]:
        lines = self._lines()
        next(lines, None)
        seen: dict[int, int] = {}
        for line in lines:
            try:
                request = parse_request(line, self._paths)
                check_repeated(request, seen)
            except FaultError as error:
                raise _refused(error, self.path, line.number) from error
            yield request

    def _read_header(self) -> RecordingHeader:
        line = next(self._lines(), None)
        if line is None:
            raise _refused(FaultError(Fault("is empty", code="recording-header")), self.path, 1)
        try:
            return parse_header(line)
        except FaultError as error:
            raise _refused(error, self.path, line.number) from error

    def _lines(self) -> Iterator[Line]:
        try:
            yield from numbered_lines(self.path)
        except OSError as error:
            what = f"cannot be read ({error.strerror or error})"
            raise recording_refusal("file-missing", what, self.path) from error
        except CorpusError as error:
            raise recording_refusal("recording-line", error.what, error.where) from error


def read_recording(path: Path, *, root: Path | None = None, allow_outside: bool = False) -> Recording:
    """Open a recording and read its header. `states` paths are relative to its folder.

    They must stay inside `root` (default: that folder) unless `allow_outside`. Raises RecordingError.
    """
    folder = path.absolute().parent
    return Recording(path, Paths(folder, (root or folder).resolve(), allow_outside))


def _refused(error: FaultError, path: Path, line: int) -> RecordingError:
    return recording_refusal(error.code, error.what, f"{path.name}:{line}")


def check_repeated(request: RecordedRequest, seen: dict[int, int]) -> None:
    """Raise FaultError where `seen` (request → line) has the request already; its tokens would have two times."""
    first = seen.setdefault(request.call, request.line)
    if first != request.line:
        rule = f"is already described on line {first}, so its tokens would have two arrival times"
        raise FaultError(Fault(rule, str(request.call), "/call", code="recording-call-twice"))


def check_requests(
    header: RecordingHeader,
    requests: Sequence[StatedRequest],
    *,
    source: str,
    accept_unidentified: bool = False,
) -> None:
    """Raise RecordingError where the requests of a recording contradict each other or its header.

    That is every contradiction of `Ownership`, states that only some requests name, and states of which the header
    does not say whose they are, unless these are accepted. `source` is the recording's name in messages.
    """
    Ownership(requests, source=source)
    if (
        stated_requests(requests, source=source)
        and header.states_identity is None
        and not accept_unidentified
    ):
        what = "its requests name states, and its header does not say which model computed them"
        raise recording_refusal("recording-states-unidentified", what, f"{source}:1")


def stated_requests(requests: Sequence[StatedRequest], *, source: str) -> list[StatedRequest]:
    """The requests that computed tokens and name their states, by number: all that computed tokens, or none.

    Raises RecordingError with code recording-states-mixed where it is some of them.
    """
    computed = [request for request in sorted(requests, key=lambda one: one.call) if len(request.ids)]
    named = [request for request in computed if request.states_path is not None]
    if named and len(named) < len(computed):
        without = next(request for request in computed if request.states_path is None)
        what = (
            f"request {without.call} names no states; request {named[0].call} (line {named[0].line}) names "
            f"{named[0].states_path.name if named[0].states_path else ''}"
        )
        raise recording_refusal("recording-states-mixed", what, f"{source}:{without.line}")
    return named
