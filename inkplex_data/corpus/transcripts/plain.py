"""Plain text, `.txt`: what was said in a call, and no times at all. A line may begin with "Name: ".

Anything is plain text, so the name's ending decides, after every other format has been asked.
"""

from __future__ import annotations

import math
import re
from typing import Final

from inkplex_data.corpus.transcripts.transcript import (
    NOT_JSON,
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    untimed,
)

NAME: Final = "plain"
SUFFIX: Final = ".txt"
NAMED: Final = re.compile(r"(?:>>\s*)?([A-Z][\w .'-]{0,30}):\s+(.*)", re.DOTALL)
"""A speaker's name before what is said, in captions and in plain text."""


def _detect(content: Content) -> bool:
    text = content.text.lstrip("\ufeff \t\r\n")
    return (
        content.path.suffix.lower() == SUFFIX
        and content.json is NOT_JSON
        and not text.startswith(("{", "["))
        and "\0" not in text
        and any(character.isalpha() for character in text)
    )


def lines(content: Content) -> list[Segment]:
    """Every line that says something, from 0 to infinity: somewhere in the call, in order.

    A line without a name goes on with the speaker of the one before.
    """
    found: list[Segment] = []
    speaker = ""
    for number, line in enumerate(content.text.lstrip("\ufeff").splitlines(), start=1):
        match = NAMED.match(line.strip())
        if match is not None:
            speaker = match.group(1).strip()
        text = " ".join((match.group(2) if match else line).split())
        if text:
            found.append(Segment(text, 0.0, math.inf, speaker, f"line {number}"))
    return found


def _parse(content: Content) -> Transcript:
    raise untimed(content, f"has {len(lines(content))} lines of plain text, but no word of them has a time")


FORMAT = TranscriptFormat(NAME, "plain text", (SUFFIX,), _detect, _parse, priority=-100, segments=lines)
