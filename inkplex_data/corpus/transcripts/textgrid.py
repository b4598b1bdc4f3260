"""Praat TextGrid, long and short form. Praat reads only free-standing numbers, flags and quoted texts, so both
forms are one sequence of those, whatever stands between them.

A tier named `words`, or `NAME - words` for several speakers (the Montreal Forced Aligner's way), holds words.
In a file without such a tier the interval tiers that are not of phones hold what they hold: where most of
their intervals are single words, words, else utterances, which `align` can time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    unreadable,
    untimed,
)
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, RawWord

NAME = "textgrid"
SILENCES: Final = frozenset({"", "sil", "sp", "<eps>", "<sil>", "#"})
"""Labels that aligners give to intervals in which nothing is said."""

_TOKEN = re.compile(
    r'"((?:[^"]|"")*)"|(?<!\S)(<[a-z]+>)(?!\S)|(?<!\S)([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?!\S)'
)
_PHONES = re.compile(r"phone", re.IGNORECASE)
_WORDS = re.compile(r"(?:(.+?)\s+-\s+)?words?", re.IGNORECASE)


@dataclass(frozen=True)
class _Tier:
    name: str
    intervals: list[tuple[float, float, str]]

    @property
    def spoken(self) -> list[tuple[int, float, float, str]]:
        """Number from 1, start, end and text of each interval in which something is said."""
        return [
            (number, start, end, text.strip())
            for number, (start, end, text) in enumerate(self.intervals, start=1)
            if text.strip().lower() not in SILENCES
        ]

    @property
    def is_of_words(self) -> bool:
        single = sum(len(text.split()) == 1 for _, _, _, text in self.spoken)
        return 2 * single > len(self.spoken)


def _detect(content: Content) -> bool:
    head = content.text[:200]
    return "ooTextFile" in head and "TextGrid" in head


def _tokens(text: str) -> Iterator[str | float]:
    for quoted, flag, number in _TOKEN.findall(text):
        if number:
            yield float(number)
        else:
            yield flag or quoted.replace('""', '"')


def _tiers(content: Content) -> list[_Tier]:
    tokens = list(_tokens(content.text))
    try:
        return _read(tokens)
    except (IndexError, OverflowError, TypeError, ValueError) as error:
        raise unreadable(content, "is a TextGrid that breaks off or is out of order") from error


def _read(tokens: list[str | float]) -> list[_Tier]:
    # "ooTextFile", "TextGrid", xmin, xmax, <exists>, number of tiers
    if tokens[4] != "<exists>":
        return []
    count, at = int(tokens[5]), 6
    tiers = []
    for _ in range(count):
        kind, name, size = tokens[at], str(tokens[at + 1]), int(tokens[at + 4])
        at += 5
        width = 3 if kind == "IntervalTier" else 2
        if kind not in ("IntervalTier", "TextTier") or at + width * size > len(tokens):
            raise ValueError(kind)
        if kind == "IntervalTier":
            rows = [tokens[at + 3 * index : at + 3 * index + 3] for index in range(size)]
            tiers.append(_Tier(name, [(_time(a), _time(b), _text(c)) for a, b, c in rows]))
        at += width * size
    return tiers


def _time(token: str | float) -> float:
    if not math.isfinite(float(token)):
        raise ValueError(token)
    return float(token)


def _text(token: str | float) -> str:
    if not isinstance(token, str):
        raise TypeError(token)
    return token


def _chosen(tiers: list[_Tier]) -> list[tuple[str, _Tier]]:
    """Speaker name ("" where there is none) and tier."""
    named = [
        (match.group(1) or "", tier)
        for tier in tiers
        if (match := _WORDS.fullmatch(tier.name.strip())) is not None
    ]
    if named:
        return named
    others = [tier for tier in tiers if not _PHONES.search(tier.name) and tier.spoken]
    return [("" if len(others) == 1 else tier.name.strip(), tier) for tier in others]


def _parse(content: Content) -> Transcript:
    chosen = _chosen(_tiers(content))
    if any(not tier.is_of_words for _, tier in chosen if tier.spoken):
        raise untimed(content, "has tiers of utterances, but no tier of words")
    words = [
        RawWord(text, start, end, name or SPEAKER_MAIN, None, f"tier {tier.name!r}, interval {number}")
        for name, tier in chosen
        for number, start, end, text in tier.spoken
    ]
    return Transcript(words, NAME, content.path)


def _segments(content: Content) -> list[Segment]:
    return [
        Segment(" ".join(text.split()), start, end, name, f"tier {tier.name!r}, interval {number}")
        for name, tier in _chosen(_tiers(content))
        for number, start, end, text in tier.spoken
    ]


FORMAT = TranscriptFormat(
    NAME, "Praat TextGrid", (".TextGrid", ".textgrid"), _detect, _parse, priority=5, segments=_segments
)
