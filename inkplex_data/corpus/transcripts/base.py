"""What a transcript reader gets and gives. Each format is one module beside this one that sets `FORMAT`."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.faults import short
from inkplex_data.corpus.words import SPEAKER_MAIN, SPEAKER_UNKNOWN, RawWord
from inkplex_data.errors import CallRefused

NOT_JSON: Final = object()
"""Value of `Content.json` for a file that is no JSON."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


@dataclass(frozen=True)
class Content:
    """A transcript file that was read but not yet understood."""

    path: Path
    data: bytes

    @cached_property
    def encoding(self) -> str:
        return next((name for mark, name in _MARKS if self.data.startswith(mark)), "utf-8")

    @cached_property
    def text(self) -> str:
        """The file as text; bytes that its encoding does not know become U+FFFD."""
        return self.data.decode(self.encoding, errors="replace")

    @cached_property
    def replaced(self) -> int:
        """How many characters stand for bytes that could not be decoded."""
        try:
            self.data.decode(self.encoding)
        except UnicodeDecodeError:
            meant = self.data.count(b"\xef\xbf\xbd") if self.encoding.startswith("utf-8") else 0
            return max(self.text.count("\ufffd") - meant, 1)
        return 0

    @cached_property
    def json(self) -> Any:
        """The JSON value, NaN included (its words are repaired or dropped later), or NOT_JSON."""
        return self._parsed[0]

    @property
    def json_error(self) -> str:
        return self._parsed[1]

    @cached_property
    def _parsed(self) -> tuple[Any, str]:
        try:
            return json.loads(self.text), ""
        except (ValueError, RecursionError) as error:
            return NOT_JSON, str(error)


@dataclass(frozen=True)
class Transcript:
    """Words of one call as a file gives them, untouched.

    `method` goes into the words table: how the times were made, where the file says so, else its format.
    `channels` are the speaker labels that stand for audio channels, by channel index, in formats that
    have such. `notes` are (code, message) pairs about the whole file, for the call's problem log.
    """

    words: list[RawWord]
    format: str
    path: Path
    method: str = ""
    text_conditions: dict[str, Any] | None = None
    channels: dict[int, str] = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def speakers(self) -> list[str]:
        """Labels in the order of their first word."""
        return list(dict.fromkeys(word.speaker for word in self.words if word.fault is None))


@dataclass(frozen=True)
class TranscriptFormat:
    """One format. `detect` looks at content only; higher `priority` is asked first.

    `suffixes` are file name endings under which a word file of this format may lie beside its audio.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    detect: Callable[[Content], bool]
    parse: Callable[[Content], Transcript]
    priority: int = 0


def unreadable(content: Content, what: str) -> CallRefused:
    return CallRefused("words-unreadable", what, where=str(content.path))


def malformed(entry: object, item: str, fault: str) -> RawWord:
    """Stands for an entry in which no word can be found, so that it is counted as a loss."""
    return RawWord(short(entry), None, None, SPEAKER_UNKNOWN, None, item, fault)


def word_from_object(
    entry: object,
    item: str,
    *,
    text: str,
    confidence: str = "confidence",
    speaker: str | None = None,
) -> RawWord:
    """A word from `{<text>: …, "start": …, "end": …, <confidence>: …, "speaker": …}`.

    `speaker` is the label of what holds the word. Where neither has one it is empty until
    `label_speakers` has seen the whole file.
    """
    if not isinstance(entry, dict):
        return malformed(entry, item, "is not an object")
    word = entry.get(text)
    if not isinstance(word, str):
        return malformed(entry, item, f"has no text in {text!r}")
    label = entry.get("speaker", speaker)
    return RawWord(
        word,
        entry.get("start"),
        entry.get("end"),
        "" if label is None else str(label),
        as_confidence(entry.get(confidence)),
        item,
    )


def as_confidence(value: object) -> float | None:
    """A finite confidence within [0, 1], else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= 1 else None


def label_speakers(words: list[RawWord]) -> list[RawWord]:
    """Give words without a label SPEAKER_MAIN where no word of the file has one, else SPEAKER_UNKNOWN.

    A transcriber that knows no speakers was given the agent's channel; one that knows some and not this
    one may have heard the caller, whose words must never become the agent's text.
    """
    labelled = any(word.speaker for word in words if word.fault is None)
    label = SPEAKER_UNKNOWN if labelled else SPEAKER_MAIN
    return [
        word if word.speaker else RawWord(word.text, word.start, word.end, label, word.confidence, word.item)
        for word in words
    ]
