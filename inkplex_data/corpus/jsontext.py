"""JSON from files nobody vouches for: bounded reads, numbered lines, no NaN, no key given twice."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.text_lines import text_lines
from inkplex_data.errors import CorpusError
from inkplex_data.faults import Fault, FaultError, short

DOCUMENT_BYTES = 256 * 2**20
"""Largest single JSON document that is read: days of word timings."""
LINE_BYTES = 512 * 2**20
"""Longest line: a request of some five million tokens."""


KEY_TWICE: Final = "key-twice"
"""Code of the fault of an object that gives one key twice; text that is no JSON at all has none."""


def given_twice(key: str) -> str:
    """The rule that an object breaks which gives one key twice."""
    return f"gives the key {key!r} twice"


def _fault(rule: str, value: str = "", *, code: str = "") -> FaultError:
    return FaultError(Fault(rule, value, code=code))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _fault("is a number too large to hold", text)
    return value


def parse_json(data: bytes) -> Any:
    """Strict JSON. Python keeps the last of two equal keys and reads NaN; both would hide a fault here.

    Raises FaultError.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _fault(f"is not UTF-8 at byte {error.start}", short(data[error.start : error.end])) from error
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except FaultError:
        raise
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 15) : error.pos + 15]
        raise _fault(f"is not JSON: {error.msg.lower()} at character {error.pos + 1}", short(near)) from error
    except (ValueError, RecursionError) as error:
        raise _fault(f"cannot be read as JSON ({error})") from error


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


def read_bounded(path: Path, limit: int = DOCUMENT_BYTES) -> bytes:
    """The whole file, if it has at most `limit` bytes. Raises CorpusError for a larger one, OSError as usual."""
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise CorpusError(f"the file is larger than {limit:,} bytes", where=str(path))
    return data


def read_document(path: Path) -> Any:
    """One strict JSON document. Raises FaultError, CorpusError, OSError."""
    return parse_json(read_bounded(path).removeprefix(b"\xef\xbb\xbf"))
