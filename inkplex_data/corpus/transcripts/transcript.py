"""What a transcript reader gets and gives. Each format is one module beside this one that sets `FORMAT`."""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Final, TypeGuard

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, SPEAKER_UNKNOWN, RawWord
from inkplex_data.errors import CallRefused
from inkplex_data.faults import Fault, FaultError, short
from inkplex_data.problems import refusal

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
    def json_fault(self) -> Fault | None:
        """Why the file is no JSON. One with a code is JSON, but not fit to be read: a key twice, too deep."""
        return self._parsed[1]

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """The JSON objects of the file: one, those of a list, or one a line, as streaming services log them.

        Empty where the file holds anything else.
        """
        found = self.json
        if found is NOT_JSON:
            found = self._parsed_lines[0]
        if isinstance(found, dict):
            return [found]
        if isinstance(found, list) and all(isinstance(part, dict) for part in found):
            return found
        return []

    @property
    def fields(self) -> list[tuple[int, list[str]]]:
        """Number and fields of every line of NIST's formats; empty lines and comments (`;;`) are left out."""
        numbered = enumerate(self.text.splitlines(), start=1)
        return [
            (number, line.split()) for number, line in numbered if line.strip() and not line.startswith(";;")
        ]

    @property
    def refused(self) -> Fault | None:
        """The fault of a file that is JSON, or JSON by lines, and must not be read as such or as anything else."""
        faults = (self.json_fault, self._parsed_lines[1]) if self.json is NOT_JSON else ()
        return next((fault for fault in faults if fault is not None and fault.code), None)

    @cached_property
    def _parsed(self) -> tuple[Any, Fault | None]:
        try:
            return parse_json(self.text, words=True), None
        except FaultError as error:
            return NOT_JSON, error.faults[0]

    @cached_property
    def _parsed_lines(self) -> tuple[list[Any], Fault | None]:
        """The values of a file with one a line, and the fault of its first line that has one."""
        values: list[Any] = []
        if not self.text.lstrip().startswith("{"):
            return values, None
        for number, line in enumerate(self.text.splitlines(), start=1):
            try:
                if line.strip():
                    values.append(parse_json(line, words=True))
            except FaultError as error:
                return [], replace(error.faults[0], rule=f"line {number} {error.faults[0].rule}")
        return values, None


@dataclass(frozen=True)
class Transcript:
    """Words of one call as a file gives them, untouched.

    `method` goes into the words table: how the times were made, where the file says so, else its format.
    `channels` are the speaker labels that stand for audio channels, by channel index, in formats that
    have such; `agent` is the label that the file itself calls the agent. `clock_offsets_us` says by how
    much each label's own audio began after the clock that the words are on, where that is known;
    the words have been put on the common clock. `notes` are (code, message) pairs about the whole file,
    for the call's problem log.
    """

    words: list[RawWord]
    format: str
    path: Path
    method: str = ""
    text_conditions: dict[str, Any] | None = None
    channels: dict[int, str] = field(default_factory=dict)
    agent: str | None = None
    clock_offsets_us: dict[str, int] = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def speakers(self) -> list[str]:
        """Labels in the order of their first word."""
        return list(dict.fromkeys(word.speaker for word in self.words if word.fault is None))


@dataclass(frozen=True)
class Segment:
    """A stretch of speech with one pair of times: a caption, an utterance, or a turn without text.

    Times are seconds as the file gives them; plain text, which has none, lies in [0, ∞). `speaker` is empty
    where the file names none.
    """

    text: str
    start_s: float
    end_s: float
    speaker: str
    item: str


@dataclass(frozen=True)
class TranscriptFormat:
    """One format. `detect` looks at content only; higher `priority` is asked first.

    `suffixes` are file name endings under which a word file of this format may lie beside its audio.
    `segments` reads what has times in a file without word times; `parse` refuses such a file.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    detect: Callable[[Content], bool]
    parse: Callable[[Content], Transcript]
    priority: int = 0
    segments: Callable[[Content], list[Segment]] | None = None


def unreadable(content: Content, what: str) -> CallRefused:
    return refusal("words-unreadable", what, content.path)


def untimed(content: Content, what: str) -> CallRefused:
    """The refusal of a transcript that has text, and times for stretches of it only."""
    return refusal("words-no-word-times", what, content.path)


def inside(value: object, *path: str | int) -> Any:
    """What lies at a path of keys and indices in a JSON value; None where it is missing or leads elsewhere."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def entries(value: object, *path: str | int) -> list[Any]:
    """The list at a path in a JSON value, empty where there is none."""
    found = inside(value, *path)
    return found if isinstance(found, list) else []


def objects(value: object, *path: str | int) -> Iterator[dict[str, Any]]:
    """The objects of the list at a path in a JSON value."""
    return (part for part in entries(value, *path) if isinstance(part, dict))


def own_audio(content: Content, names: list[str]) -> str:
    """The one audio file of a file in NIST's formats, or the one named like it. Raises CallRefused (words-unreadable)."""
    own = names if len(names) == 1 else [name for name in names if PurePath(name).stem == content.path.stem]
    if len(own) != 1:
        shown = ", ".join(names[:5])
        raise unreadable(content, f"holds {len(names)} audio files, none with its name: {shown}")
    return own[0]


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
    """A finite confidence within [0, 1], else None. Services that write numbers as text are understood."""
    value = as_number(value)
    return float(value) if is_finite(value) and 0 <= value <= 1 else None


def as_number(value: object) -> object:
    """The number that a text spells, where a format writes its numbers as text; anything else unchanged."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def scaled(value: object, per_second: int) -> object:
    """Seconds of a count of milliseconds or ticks; what is no number is left for the repair to report."""
    if not is_finite(value):
        return value
    # Exact: 4_839 ms are 4.839 s, which value / 1000 gives too, but sums of floats would not.
    return float(Decimal(repr(value)) / per_second)


def span(start: object, length: object, per_second: int = 1) -> tuple[object, object]:
    """Start and end in seconds of (start, length) in units of 1/`per_second` s, without binary rounding."""
    start, length = as_number(start), as_number(length)
    if not is_finite(start) or not is_finite(length):
        return scaled(start, per_second), None
    first = Decimal(repr(start))
    return float(first / per_second), float((first + Decimal(repr(length))) / per_second)


def is_finite(value: object) -> TypeGuard[int | float]:
    """Whether `value` is a number that a double can hold: integers of JSON may be longer than any."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def with_punctuation(word: RawWord, mark: str) -> RawWord:
    """The word with an untimed mark that follows it, in formats that write marks as items of their own."""
    return replace(word, text=word.text + mark)


def label_speakers(words: list[RawWord]) -> list[RawWord]:
    """Give words without a label SPEAKER_MAIN where no word of the file has one, else SPEAKER_UNKNOWN.

    A transcriber that knows no speakers was given the agent's channel; one that knows some and not this
    one may have heard the caller, whose words must never become the agent's text.
    """
    labelled = any(word.speaker for word in words if word.fault is None)
    label = SPEAKER_UNKNOWN if labelled else SPEAKER_MAIN
    return [word if word.speaker else replace(word, speaker=label) for word in words]
