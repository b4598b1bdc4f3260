"""One fault of what somebody wrote: where it is, the value got, and the rule that the value breaks."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from inkplex_data.errors import CorpusError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


@dataclass(frozen=True)
class Fault:
    """`pointer` is a JSON pointer (RFC 6901) to the `value` that breaks the `rule`.

    `where` is a file, a part of a store or a call; who finds the fault may not know it yet, and `at` fills it in.
    `line` is one-based, None for files that are one JSON document. `code` names the kind of fault, where kinds have
    names: in a corpus a key of `problems.CODES`.
    """

    rule: str
    value: str = ""
    pointer: str = ""
    where: str = ""
    line: int | None = None
    code: str = ""
    next_step: str = ""

    def __str__(self) -> str:
        got = f" (got {self.value})" if self.value else ""
        text = f"{self.pointer} {self.rule}{got}" if self.pointer else f"{self.rule}{got}"
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        text = f"{place}: {text}" if self.where else text
        return f"{text}\n  → {self.next_step}" if self.next_step else text

    def at(self, where: str, line: int | None = None) -> Fault:
        return replace(self, where=where, line=line)

    def as_json(self) -> dict[str, Any]:
        """What is known of the fault, for machines."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}


class FaultError(CorpusError):
    """Carries faults, all of one code, up to where their file is known."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))

    @property
    def code(self) -> str:
        return self.faults[0].code


def short(value: object, limit: int = 80) -> str:
    """`repr` cut to `limit` characters, for messages."""
    text = repr(value) if not isinstance(value, (list, dict)) or len(value) < limit else _summary(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _summary(value: list[Any] | dict[str, Any]) -> str:
    # A long document would be spelled out in full only to be cut again.
    return f"{type(value).__name__} of {len(value)} entries"


def json_pointer(parts: Iterable[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def faults_of(
    error: ValidationError, data: object, model: type[BaseModel] | None = None, *, code: str = ""
) -> list[Fault]:
    """Pydantic's errors about `data`, each with a JSON pointer into it.

    `model` supplies the known field names, so that an unknown one can be told what it may have meant.
    """
    known = _field_names(model) if model else []
    return [
        Fault(
            _rule(fault["type"], fault["msg"], fault["loc"], known),
            "" if fault["type"] == "missing" else short(fault["input"]),
            json_pointer(_steps(fault["loc"], data)),
            code=code,
        )
        for fault in error.errors(include_url=False)
    ]


def _steps(location: Sequence[str | int], data: object) -> list[str | int]:
    """`location` without the names of union branches, which are not in the data."""
    steps: list[str | int] = []
    current: Any = data
    for index, part in enumerate(location):
        if _holds(current, part):
            current = current[part]
        elif index < len(location) - 1 or not isinstance(current, (dict, list)):
            continue
        steps.append(part)
    return steps


def _holds(current: object, part: str | int) -> bool:
    if isinstance(current, list):
        return isinstance(part, int) and 0 <= part < len(current)
    return isinstance(current, dict) and part in current


def _rule(kind: str, message: str, location: Sequence[str | int], known: Sequence[str]) -> str:
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), known, n=1) if location else []
        return f"is not a known field{f'; did you mean {near[0]!r}?' if near else ''}"
    text = message.removeprefix("Value error, ")
    return text[0].lower() + text[1:] if text else kind


def _field_names(model: type[BaseModel]) -> list[str]:
    """Names and aliases of all fields of `model` and of the models it holds."""
    names: list[str] = []
    schema = model.model_json_schema()
    for part in [schema, *schema.get("$defs", {}).values()]:
        names.extend(part.get("properties", {}))
    return names
