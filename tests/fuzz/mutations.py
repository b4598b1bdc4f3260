"""Small injuries to files: of bytes, of lines, of JSON. Each is drawn from a generator, so that it can be made again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

JUNK: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 2**31, 2**63, -(2**64), 10**400, 1e308, -0.0, "", " ", "word", "nan", "1e999", "\ud800", "\0",
    "\x1b[31m", "\u202e", "../../x", "/dev/zero", "s3://x/y", "a" * 5_000, [], [None], [[]], {}, {"": None},
    [[[[[[[[]]]]]]]],
)  # fmt: skip
"""What may stand in a document where something else belongs."""

WORDS: Final = (
    b"", b"-1", b"NaN", b"Infinity", b"1e999", b"9" * 5_000, b"null", b"[" * 3_000, b'{"a":' * 3_000, b"\\ud800",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\0", b"\r", b"\n\n", b"\xed\xa0\x80", b"&a [*a,*a]", b"!!python/object:os.system",
    b"'", b'"', b"\x1b]0;x\x07",
)  # fmt: skip
"""Bytes that mean something to one parser or another."""

SIZES: Final = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**40, 2**61, 2**63 - 1, 2**64 - 1)
"""Numbers that lengths and offsets are set to."""


def mutated(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """`data` with one to four injuries; `other` is a file of the same kind, from which pieces may be taken."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_MUTATIONS)(data, other, rng)
    return data


def _flip(data: bytes, _: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _near_an_end(data: bytes, _: bytes, rng: random.Random) -> bytes:
    """A byte of a head or a footer, where formats keep what they claim of themselves."""
    if not data:
        return data
    within = min(len(data), 64)
    at = rng.randrange(within) if rng.random() < 0.5 else len(data) - 1 - rng.randrange(within)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _number(data: bytes, _: bytes, rng: random.Random) -> bytes:
    width = rng.choice((2, 4, 8))
    if len(data) < width:
        return data
    at = rng.randrange(len(data) - width + 1)
    value = rng.choice(SIZES) % (1 << (8 * width))
    return data[:at] + value.to_bytes(width, rng.choice(("little", "big"))) + data[at + width :]


def _cut(data: bytes, _: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _remove(data: bytes, _: bytes, rng: random.Random) -> bytes:
    start, stop = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return data[:start] + data[min(stop, start + rng.choice((1, 8, 512))) :]


def _repeat(data: bytes, _: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.choice((1, 16, 700))]
    return data[:start] + piece * rng.choice((2, 3, 50)) + data[start + len(piece) :]


def _put_word(data: bytes, _: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(WORDS) + data[at + rng.choice((0, 0, 1, 5)) :]


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _zeros(data: bytes, _: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    length = min(rng.choice((4, 64, 4096)), len(data) - at)
    return data[:at] + bytes(length) + data[at + length :]


def _lines(data: bytes, _: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(3)
    if kind == 0:
        lines[one], lines[two] = lines[two], lines[one]
    elif kind == 1:
        lines.insert(one, lines[two])
    else:
        del lines[one]
    return b"".join(lines)


def _spelled_otherwise(data: bytes, _: bytes, rng: random.Random) -> bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-16-le")))


def _json(data: bytes, _: bytes, rng: random.Random) -> bytes:
    """A node of a document, or of one line of it, becomes something else."""
    lines = data.splitlines(keepends=True)
    whole = _parsed(data)
    if whole is None and lines:
        at = rng.randrange(len(lines))
        document = _parsed(lines[at])
        if document is None:
            return data
        lines[at] = _node_changed(document, rng) + b"\n"
        return b"".join(lines)
    return data if whole is None else _node_changed(whole, rng)


def _parsed(data: bytes) -> dict[str, Any] | list[Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _node_changed(document: dict[str, Any] | list[Any], rng: random.Random) -> bytes:
    holder, key = rng.choice(list(_places(document)) or [([document], 0)])
    value = holder[key]
    kind = rng.randrange(6)
    if kind <= 2:
        holder[key] = rng.choice(JUNK)
    elif kind == 3 and isinstance(holder, dict):
        holder[rng.choice(("id", "path", "", "\ud800", "extra", "words"))] = holder.pop(key)
    elif kind == 4 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = rng.choice((-value, value * 1000, value + 0.5, str(value), 1e300))
    elif isinstance(value, list) and value:
        holder[key] = value * rng.choice((2, 40))
    else:
        holder[key] = [value]
    text = json.dumps(document)
    if rng.random() < 0.1 and text.startswith("{") and len(text) > 2:
        text = text[:-1] + ", " + text[1:]  # every key twice
    return text.encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield value, key
        yield from _places(value[key])


_MUTATIONS: Final[tuple[Callable[[bytes, bytes, random.Random], bytes], ...]] = (
    _flip, _flip, _near_an_end, _number, _cut, _remove, _repeat, _put_word, _splice, _zeros, _lines,
    _spelled_otherwise, _json, _json, _json,
)  # fmt: skip
