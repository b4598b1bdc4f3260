"""One problem of one call, the log that collects them, and the refusal that ends a call."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from inkplex_data.errors import CallRefused, RecordingError
from inkplex_data.printable import in_unicode
from inkplex_data.problems.all_codes import CODES
from inkplex_data.problems.code_table import Severity

Place = os.PathLike[str] | str


@dataclass(frozen=True)
class Problem:
    """One row of `problems.parquet`. `at_us`: where in the call, in microseconds from its first sample, None where that is
    no place or not known."""

    call_id: str
    stage: str
    code: str
    severity: Severity
    item: str
    message: str
    at_us: int | None = None

    @classmethod
    def of(
        cls, code: str, call_id: str, message: str, *, item: str = "", at_us: int | None = None
    ) -> Problem:
        """Stage and severity are those of the code. `item` says which word, channel or token.

        Names of files that are not UTF-8 are spelled, so that a table can hold the row.
        """
        kind = CODES[code]
        call_id, item, message = map(in_unicode, (call_id, item, message))
        return cls(call_id, kind.stage, code, kind.severity, item, message, at_us)

    def __str__(self) -> str:
        """As one line of a list: whose it is, its code, what is wrong."""
        whose = self.call_id or self.item
        return f"{whose}: [{self.code}] {self.message}" if whose else f"[{self.code}] {self.message}"

    @classmethod
    def of_refusal(cls, call_id: str, error: CallRefused) -> Problem:
        """The row that reports a refusal, whatever the code's own severity is."""
        return replace(cls.of(error.code, call_id, str(error), item=error.where or ""), severity="error")


def refusal(code: str, what: str, where: Place | None = None, *, next_step: str | None = None) -> CallRefused:
    """The refusal of one call, with the code's remedy where there is no better `next_step`."""
    place = None if where is None else str(where)
    return CallRefused(code, what, where=place, next_step=next_step or CODES[code].remedy)


def recording_refusal(code: str, what: str, where: Place | None = None) -> RecordingError:
    """The refusal of one task recording, with the code's remedy."""
    place = None if where is None else str(where)
    return RecordingError(code, what, where=place, next_step=CODES[code].remedy)


def without_root(problem: Problem, root: Path) -> Problem:
    """`problem` on one line, with paths inside `root` relative to it: a store tells nothing of its machine."""
    item, message = problem.item, " ".join(problem.message.split())
    for spelling in sorted({str(root.absolute()), str(root.resolve())}, key=len, reverse=True):
        item, message = (_relative(text, in_unicode(spelling)) for text in (item, message))
    return replace(problem, item=item, message=message)


def _relative(text: str, root: str) -> str:
    """`text` without the path `root`, where that stands as a whole and is not the beginning of another name."""
    if root == os.sep or root not in text:
        return text
    others = _longer_names(root)

    def shorter(found: re.Match[str]) -> str:
        if found["inside"]:
            return ""
        rest = text[found.end() :]
        return found[0] if any(rest.startswith(other) for other in others) else "the corpus folder"

    return re.sub(rf"(?<![\w./-]){re.escape(root)}(?:(?P<inside>/+)|(?![\w-]|\.\w))", shorter, text)


@lru_cache(maxsize=16)
def _longer_names(root: str) -> tuple[str, ...]:
    """How the names beside `root` go on that begin with its own: ` (copy)` where `calls (copy)` lies beside `calls`."""
    folder = Path(root)
    try:
        beside = [path.name for path in folder.parent.iterdir()]
    except OSError:
        return ()
    longer = [name for name in beside if name.startswith(folder.name) and name != folder.name]
    return tuple(name.removeprefix(folder.name) for name in longer)


@dataclass
class ProblemLog:
    """Collects the problems of one call. `strict` turns every repair into a refusal (`--strict`)."""

    call_id: str
    strict: bool = False
    problems: list[Problem] = field(default_factory=list)

    def add(self, code: str, message: str, *, item: str = "", at_us: int | None = None) -> None:
        """Note one problem. `item` says which word, channel or token, `at_us` where in the call; `message` gives the value got.

        Raises CallRefused when the code's severity is `error`, or `repair` under `strict`.
        """
        problem = Problem.of(code, self.call_id, message, item=item, at_us=at_us)
        if problem.severity == "error" or (self.strict and problem.severity == "repair"):
            raise refusal(code, message, item or None)
        self.problems.append(problem)

    def refuse(self, error: CallRefused) -> Problem:
        """Turn a refusal into the problem row that reports it, and keep it."""
        problem = Problem.of_refusal(self.call_id, error)
        self.problems.append(problem)
        return problem

    def count(self, *codes: str) -> int:
        return sum(problem.code in codes for problem in self.problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def extend(self, problems: Iterable[Problem]) -> None:
        self.problems.extend(problems)
