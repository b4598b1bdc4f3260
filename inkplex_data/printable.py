"""Text that others wrote: whether it is text, and how a terminal may show it, so that nothing in it steers the terminal."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_HALVES: Final = re.compile("[\ud800-\udfff]")
_ASCII: Final = {
    **dict(zip("→←↑↓…–—−·×µ≤≥’‘“”▼▾✓⠿", ["->", "<-", "^", "v", "...", *"---", *".xu", "<=", ">=", *"''\"\"vv+*"], strict=True)),
    **dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)),
}  # fmt: skip
"""What our own marks and bars become where a stream cannot hold them."""


def plain(text: str) -> str:
    """`text` on one line; what is not printable is spelled as in Python: `\\x1b`, `\\n`, `\\u202e`, `\\udce9`."""
    return text if text.isprintable() else "".join(map(_spelled, text))


def is_unicode(text: str) -> bool:
    """False for half a surrogate pair, which no file holds: JSON can spell it, and a file's name that is not UTF-8 has it."""
    return text.isascii() or not _HALVES.search(text)


def in_unicode(text: str) -> str:
    """`text` with every half of a surrogate pair spelled, `\\udce9`, so that any file can hold it."""
    return text if is_unicode(text) else _HALVES.sub(lambda half: _spelled(half[0]), text)


def plain_lines(text: str) -> str:
    """`text` as `plain` has it, line by line."""
    return "\n".join(map(plain, text.split("\n")))


def _spelled(letter: str) -> str:
    # Other spaces than the usual one count as not printable, but do no harm.
    if letter.isprintable() or unicodedata.category(letter) == "Zs":
        return letter
    return letter.encode("unicode_escape").decode("ascii")


def in_ascii(letter: str) -> str:
    """One character in ASCII: our own marks as signs like them, lines of a frame as `-`, `|` and `+`, others spelled."""
    if letter in _ASCII:
        return _ASCII[letter]
    name = unicodedata.name(letter, "")
    if name.startswith("BOX DRAWINGS"):
        return "+" if " AND " in name else "-" if name.endswith("HORIZONTAL") else "|"
    if name.endswith("BLOCK") or " SHADE" in name:
        return "#"
    return letter.encode("unicode_escape").decode("ascii")
