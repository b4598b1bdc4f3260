"""What happened to a call that its owner should know: every repair, loss and refusal has a code here.

Severities: `info` (noted, nothing changed), `repair` (something was dropped or changed, and counted;
`--strict` makes it an error), `error` (the call is refused and the others go on).
The table below is the only list of codes; docs/reference/problems.md is generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from inkplex_data.errors import CallRefused

Severity = Literal["info", "repair", "error"]


@dataclass(frozen=True)
class Code:
    """One kind of problem: the stage that finds it, how bad it is, what it means, what to do."""

    stage: str
    severity: Severity
    meaning: str
    remedy: str


CODES: dict[str, Code] = {
    # corpus
    "duplicate-id": Code(
        "corpus", "error", "Two calls of the corpus have the same id.", "Give every call its own `id`."
    ),
    "path-outside-corpus": Code(
        "corpus",
        "error",
        "A path leaves the corpus folder.",
        "Keep files inside the corpus, or start the build from a folder above them.",
    ),
    "file-missing": Code(
        "corpus", "error", "A file that the corpus names does not exist.", "Correct the path or add the file."
    ),
    # store
    "audio-in-two-families": Code(
        "store",
        "error",
        "The same audio appears in two families, so it could land in two splits.",
        "Give both calls the same `family`, or remove one.",
    ),
    # build
    "unexpected": Code(
        "build",
        "error",
        "An unforeseen fault stopped this call; the others went on.",
        "Read the message; if it is not about your data, report it with the log file.",
    ),
}


@dataclass(frozen=True)
class Problem:
    """One row of `problems.parquet`."""

    call_id: str
    stage: str
    code: str
    severity: Severity
    item: str
    message: str


@dataclass
class ProblemLog:
    """Collects the problems of one call. `strict` turns every repair into a refusal (`--strict`)."""

    call_id: str
    strict: bool = False
    problems: list[Problem] = field(default_factory=list)

    def add(self, code: str, message: str, *, item: str = "") -> None:
        """Note one problem. `item` says which word, channel or token; `message` gives the value got.

        Raises CallRefused when the code's severity is `error`, or `repair` under `strict`.
        """
        kind = CODES[code]
        if kind.severity == "error" or (self.strict and kind.severity == "repair"):
            raise CallRefused(code, message, where=item or None, next_step=kind.remedy)
        self.problems.append(Problem(self.call_id, kind.stage, code, kind.severity, item, message))

    def refuse(self, error: CallRefused) -> Problem:
        """Turn a refusal into the problem row that reports it, and keep it."""
        kind = CODES[error.code]
        problem = Problem(self.call_id, kind.stage, error.code, "error", error.where or "", str(error))
        self.problems.append(problem)
        return problem

    def count(self, *codes: str) -> int:
        return sum(problem.code in codes for problem in self.problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def extend(self, problems: Iterable[Problem]) -> None:
        self.problems.extend(problems)
