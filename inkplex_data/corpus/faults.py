"""One fault of a file: where it is, the value got, and the rule that the value breaks."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError


@dataclass(frozen=True)
class Fault:
    """`line` is one-based, None for files that are one JSON document. `pointer` is a JSON pointer (RFC 6901)."""

    file: str
    line: int | None
    pointer: str
    value: str
    rule: str
    code: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {describe(self.pointer, self.value, self.rule)}"


@dataclass(frozen=True)
class Breach:
    """A fault before it is known in which file or line it stands."""

    pointer: str
    value: str
    rule: str

    def __str__(self) -> str:
        return describe(self.pointer, self.value, self.rule)

    def at(self, file: str, line: int | None = None, *, code: str = "") -> Fault:
        return Fault(file, line, self.pointer, self.value, self.rule, code)


def describe(pointer: str, value: str, rule: str) -> str:
    got = f" (got {value})" if value else ""
    return f"{pointer} {rule}{got}" if pointer else f"{rule}{got}"


def short(value: object, limit: int = 80) -> str:
    """`repr` cut to `limit` characters, for messages."""
    text = repr(value) if not isinstance(value, (list, dict)) or len(value) < limit else _summary(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _summary(value: list[Any] | dict[str, Any]) -> str:
    # A long document would be spelled out in full only to be cut again.
    return f"{type(value).__name__} of {len(value)} entries"


def json_pointer(parts: Iterable[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def breaches_of(error: ValidationError, data: object, model: type[BaseModel] | None = None) -> list[Breach]:
    """Pydantic's errors about `data`, each with a JSON pointer into it.

    `model` supplies the known field names, so that an unknown one can be told what it may have meant.
    """
    known = _field_names(model) if model else []
    return [
        Breach(
            json_pointer(_steps(fault["loc"], data)),
            "" if fault["type"] == "missing" else short(fault["input"]),
            _rule(fault["type"], fault["msg"], fault["loc"], known),
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
        return f"is no field that is known here{f'; did you mean {near[0]!r}?' if near else ''}"
    text = message.removeprefix("Value error, ")
    return text[0].lower() + text[1:] if text else kind


def _field_names(model: type[BaseModel]) -> list[str]:
    """Names and aliases of all fields of `model` and of the models it holds."""
    names: list[str] = []
    schema = model.model_json_schema()
    for part in [schema, *schema.get("$defs", {}).values()]:
        names.extend(part.get("properties", {}))
    return names
