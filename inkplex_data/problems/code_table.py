"""One kind of problem, and how a table of them is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Severity = Literal["info", "repair", "error"]


@dataclass(frozen=True)
class Code:
    """One kind of problem: the stage that finds it, how bad it is, what it means, what to do."""

    stage: str
    severity: Severity
    meaning: str
    remedy: str


def info(meaning: str, remedy: str = "Nothing to do.") -> Code:
    """Noted; nothing was changed."""
    return Code("", "info", meaning, remedy)


def repair(meaning: str, remedy: str) -> Code:
    """Something was dropped or changed, and counted. `--strict` makes it an error."""
    return Code("", "repair", meaning, remedy)


def error(meaning: str, remedy: str) -> Code:
    """The call is refused, and the others go on."""
    return Code("", "error", meaning, remedy)


def table(stage: str, codes: Mapping[str, Code]) -> dict[str, Code]:
    """The codes of one stage, by name."""
    return {name: replace(code, stage=stage) for name, code in codes.items()}
