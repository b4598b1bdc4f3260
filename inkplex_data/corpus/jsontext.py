"""JSON from files nobody vouches for: bounded reads, numbered lines, no NaN, no key given twice."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.text_lines import text_lines
from inkplex_data.errors import CorpusError
from inkplex_data.faults import Fault, FaultError, json_pointer, short
from inkplex_data.reading import read_bounded

LINE_BYTES = 512 * 2**20
"""Longest line: a request of some five million tokens."""


MOST_DEPTH: Final = 100
"""Deepest nesting of lists and objects: whatever walks a value later calls itself once a level."""
MOST_DIGITS: Final = 40
"""Longest whole number: those of 128 bits have 39 digits, and long ones take time that grows with their square."""
MOST_KEYS: Final = 4_000_000
"""Most keys of one object: a splits file has one for each family."""

KEY_TWICE: Final = "key-twice"
"""Code of the fault of an object that gives one key twice."""
LIMIT: Final = "json-limit"
"""Code of the fault of a value beyond one of the limits. Text that is no JSON at all has no code."""

_HALF_PAIR: Final = re.compile(r"\\u[dD][89abABcdefCDEF]")
_HALF: Final = re.compile("[\ud800-\udfff]")


def given_twice(key: str) -> str:
    """The rule that an object breaks which gives one key twice."""
    return f"gives the key {key!r} twice"


def _fault(rule: str, value: str = "", *, code: str = "") -> FaultError:
    return FaultError(Fault(rule, value, code=code))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_KEYS:
        raise _fault(f"is an object of more than {MOST_KEYS:,} keys", f"{len(pairs):,}", code=LIMIT)
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                raise _fault(given_twice(key), f"{short(seen[key])} and {short(value)}", code=KEY_TWICE)
            seen[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise _fault("is not JSON, which has no NaN and no infinities", name)


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise _fault(f"is a number of more than {MOST_DIGITS} digits", short(text), code=LIMIT)
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _fault("is a number too large to hold", short(text))
    return value


def parse_json(data: bytes | str, *, words: bool = False, half_pairs: bool = False) -> Any:
    """Strict JSON within bounds. Python keeps the last of two equal keys and reads NaN; both would hide a fault here.

    `words`: as transcripts are read, whose words are repaired or dropped one by one: NaN, infinities and numbers
    too large to hold come through as floats. `half_pairs`: so do escapes of half a surrogate pair, where who reads
    the text looks for them.

    Raises FaultError.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise _fault(
            f"is not UTF-8 at byte {error.start}", short(error.object[error.start : error.end])
        ) from error
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=_lenient_whole if words else _whole,
            parse_constant=float if words else _no_constant,
            parse_float=float if words else _finite,
        )
    except FaultError:
        raise
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 15) : error.pos + 15]
        raise _fault(f"is not JSON: {error.msg.lower()} at character {error.pos + 1}", short(near)) from error
    except RecursionError as error:
        raise _too_deep() from error
    if _is_too_deep(text, value):
        raise _too_deep()
    if not (words or half_pairs) and _HALF_PAIR.search(text):
        for pointer, found in _texts(value, ""):
            if _HALF.search(found):
                raise FaultError(Fault("holds half a surrogate pair", short(found), pointer))
    return value


def _lenient_whole(text: str) -> int | float:
    return int(text) if len(text) <= MOST_DIGITS else float(text)


def _too_deep() -> FaultError:
    return _fault(f"is nested more than {MOST_DEPTH} levels deep", code=LIMIT)


def _texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Every text of a value, keys among them, with its JSON pointer."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield pointer, key
            yield from _texts(part, pointer + json_pointer([key]))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _texts(part, f"{pointer}/{index}")


def _is_too_deep(text: str, value: Any) -> bool:
    """By breadth, a level at a time, so that this does not call itself either."""
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return False
    level = [value] if isinstance(value, (list, dict)) else []
    for _ in range(MOST_DEPTH):
        level = [
            part
            for holder in level
            for part in (holder.values() if type(holder) is dict else holder)
            if type(part) is dict or type(part) is list
        ]
    return bool(level)


@dataclass(frozen=True)
class Line:
    """One line of a JSONL file. `complete` is false for a last line that no newline ends."""

    number: int
    data: bytes
    complete: bool


def numbered_lines(path: Path) -> Iterator[Line]:
    """Lines that are not blank, counted from 1, read one at a time; packed and in UTF-16 as well as plain.

    Raises CorpusError for an endless line and as `text_lines` does, OSError as usual.
    """
    for number, line in enumerate(text_lines(path, LINE_BYTES), start=1):
        complete = line.endswith(b"\n")
        if not complete and len(line) >= LINE_BYTES:
            raise CorpusError(
                f"the line is longer than {LINE_BYTES:,} bytes",
                where=f"{path}:{number}",
                next_step="Check the file: it is probably not JSONL.",
            )
        data = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if data.strip():
            yield Line(number, data.rstrip(b"\r\n"), complete)


def read_document(path: Path) -> Any:
    """One strict JSON document. Raises FaultError, CorpusError, OSError."""
    return parse_json(read_bounded(path).removeprefix(b"\xef\xbb\xbf"))
