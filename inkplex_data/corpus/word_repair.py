"""Words of a transcript on the session clock: what is repaired, what is dropped, and each of it counted.

The faults are those that public transcribers and corpora really have (DESIGN §9). A repair is made only
where the neighbours leave little room for error; a word that would land at an invented place is dropped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inkplex_data.clock import FRAME_US, seconds_to_us
from inkplex_data.problems import ProblemLog

SPEAKER_MAIN = "SPEAKER_MAIN"
"""Label of the agent in the Moshi layout."""

SPEAKER_CALLER = "SPEAKER_CALLER"
"""Label given to the other side's words where a transcript's labels are mapped."""

SPEAKER_UNKNOWN = "SPEAKER_UNKNOWN"
"""Label of a word that has none in a transcript whose other words have one."""

WORD_DROPS = frozenset({"word-malformed", "word-untimed", "word-no-duration", "word-outside-audio"})
"""Codes that mean a lost word; `ProblemLog.count(*WORD_DROPS)` is how many the transcript lost."""

TYPICAL_WORD_US = 300_000
"""Length given to a word of which one end is unknown: about the mean of conversational English."""

GAP_PER_WORD_US = 1_000_000
"""An untimed word is put into the gap between its neighbours when that is at most so long per word."""


@dataclass(frozen=True)
class RawWord:
    """One entry of a transcript, untouched. `item` says where it stands, such as `alignments[3]`.

    `fault` is set by a reader that found no word in the entry; `text` is then what it found instead.
    """

    text: str
    start: object
    end: object
    speaker: str
    confidence: float | None
    item: str
    fault: str | None = None
    uncertainty_s: float | None = None


@dataclass(frozen=True)
class TimedWord:
    """One word with exact times, 0 ≤ start_us < end_us ≤ the audio's length. `speaker` as the transcript says."""

    text: str
    start_us: int
    end_us: int
    speaker: str
    confidence: float | None
    method: str
    uncertainty_us: int | None = None
    """How far its times may be off, where the corpus says so."""
    provenance: str | None = None
    """Where the text comes from, where the corpus says so."""

    def is_by(self, speaker: str | None) -> bool:
        """Whether `speaker` says it; None stands for everybody, whose words a single stream has."""
        return speaker is None or self.speaker == speaker


@dataclass(frozen=True)
class _Word:
    """A word under repair; a time is None while it is unknown."""

    raw: RawWord
    text: str
    start_us: int | None
    end_us: int | None
    method: str

    @property
    def item(self) -> str:
        return f"{self.raw.item} {self.text[:40]!r}"


def repair_words(
    raw: Sequence[RawWord], *, duration_us: int, log: ProblemLog, method: str = "given"
) -> list[TimedWord]:
    """Words sorted by start (stable), each inside the audio of `duration_us` and longer than nothing.

    Every change and loss is added to `log`; under its `strict` the first one raises CallRefused.
    Words whose place had to be found from their neighbours get the method "interpolated".
    """
    words: list[_Word] = []
    for entry in raw:
        word = _read(entry, method, log)
        if word is None:
            continue
        if word.start_us is None and word.end_us is None and _is_punctuation(word.text):
            _attach(word, words, log)
        else:
            words.append(word)
    words = _interpolate(words, log)
    words = [_complete(index, words, log) for index in range(len(words))]
    timed = [kept for word in words if (kept := _inside(word, duration_us, log)) is not None]
    ordered = sorted(timed, key=lambda word: word.start_us)
    moved = sum(a is not b for a, b in zip(timed, ordered, strict=True))
    if moved:
        log.add("words-out-of-order", f"{moved} of {len(timed)} words stood elsewhere")
    return ordered


def _read(raw: RawWord, method: str, log: ProblemLog) -> _Word | None:
    if raw.fault is not None:
        log.add("word-malformed", f"{raw.fault}, got {raw.text}", item=raw.item)
        return None
    text = raw.text
    if any("\ud800" <= character <= "\udfff" for character in text):
        text = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
        log.add("word-text-replaced", f"now {text!r}", item=raw.item)
    # Transcribers mark word starts by a leading space; that belongs to the format, not to the word.
    text = text.strip().strip("\0")
    if not text:
        log.add("word-empty", f"text is {raw.text!r}", item=raw.item)
        return None
    word = _Word(raw, text, None, None, method)
    return replace(
        word, start_us=_time_us(raw.start, "start", word, log), end_us=_time_us(raw.end, "end", word, log)
    )


def _time_us(value: object, name: str, word: _Word, log: ProblemLog) -> int | None:
    """Microseconds, or None for anything that is no finite number of seconds."""
    if value is None or isinstance(value, bool):
        return None
    try:
        time_us = seconds_to_us(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return None
    if isinstance(value, str):
        log.add("word-time-text", f"{name} is {value!r}", item=word.item)
    return time_us


def _is_punctuation(text: str) -> bool:
    return all(unicodedata.category(character)[0] in "PS" for character in text)


def _attach(word: _Word, words: list[_Word], log: ProblemLog) -> None:
    """Put untimed punctuation onto the word before it of the same speaker."""
    if words and words[-1].raw.speaker == word.raw.speaker:
        before = words[-1]
        words[-1] = replace(before, text=before.text + word.text)
        log.add("word-punctuation-attached", f"to {before.item}", item=word.item)
    else:
        log.add("word-untimed", "punctuation without times, and no word before it", item=word.item)


def _interpolate(words: list[_Word], log: ProblemLog) -> list[_Word]:
    """Spread each run of untimed words over the gap it stands in, or drop the run.

    Aligners give no times to what their alphabet lacks, such as "2014." or "£13.60" (whisperX,
    "Limitations"), while the words around are timed well: in a short gap the onset is nearly certain.
    """
    kept: list[_Word] = []
    index = 0
    while index < len(words):
        if words[index].start_us is not None or words[index].end_us is not None:
            kept.append(words[index])
            index += 1
            continue
        stop = index
        while stop < len(words) and words[stop].start_us is None and words[stop].end_us is None:
            stop += 1
        after = words[stop] if stop < len(words) else None
        kept.extend(_spread(words[index:stop], kept[-1] if kept else None, after, log))
        index = stop
    return kept


def _spread(run: list[_Word], before: _Word | None, after: _Word | None, log: ProblemLog) -> list[_Word]:
    start_us = before.end_us if before is not None else None
    end_us = after.start_us if after is not None else None
    gap_us = end_us - start_us if start_us is not None and end_us is not None else 0
    fits = len(run) <= gap_us <= len(run) * GAP_PER_WORD_US
    speakers = {word.raw.speaker for word in (*run, before, after) if word is not None}
    if start_us is None or not fits or len(speakers) > 1:
        for word in run:
            told = f"start {word.raw.start!r}, end {word.raw.end!r}"
            log.add("word-untimed", told, item=word.item, at_us=start_us)
        return []
    edges = [start_us + gap_us * place // len(run) for place in range(len(run) + 1)]
    placed = []
    for word, first, last in zip(run, edges, edges[1:], strict=False):
        log.add("word-times-interpolated", f"now {first} to {last} µs", item=word.item, at_us=first)
        placed.append(replace(word, start_us=first, end_us=last, method="interpolated"))
    return placed


def _complete(index: int, words: list[_Word], log: ProblemLog) -> _Word:
    """Give a word that has one of its two times the other one."""
    word = words[index]
    if word.start_us is not None and word.end_us is None:
        end_us = word.start_us + TYPICAL_WORD_US
        follower = words[index + 1].start_us if index + 1 < len(words) else None
        if follower is not None and follower > word.start_us:
            end_us = min(end_us, follower)
        told = f"end is {word.raw.end!r}, now {end_us} µs"
        log.add("word-end-missing", told, item=word.item, at_us=word.start_us)
        return replace(word, end_us=end_us)
    if word.end_us is not None and word.start_us is None:
        start_us = max(word.end_us - TYPICAL_WORD_US, min(word.end_us - 1, 0))
        previous = words[index - 1].end_us if index > 0 else None
        if previous is not None and previous < word.end_us:
            start_us = max(start_us, previous)
        told = f"start is {word.raw.start!r}, now {start_us} µs"
        log.add("word-start-missing", told, item=word.item, at_us=start_us)
        return replace(word, start_us=start_us, method="interpolated")
    return word


def _inside(word: _Word, duration_us: int, log: ProblemLog) -> TimedWord | None:
    """The word within [0, duration), or None where nothing of it is."""
    start_us, end_us = word.start_us, word.end_us
    assert start_us is not None and end_us is not None
    times = f"{start_us} to {end_us} µs"
    if end_us <= start_us:
        log.add("word-no-duration", times, item=word.item, at_us=start_us)
        return None
    if end_us <= 0 or start_us >= duration_us:
        log.add("word-outside-audio", f"{times}, audio is {duration_us} µs long", item=word.item)
        return None
    if start_us < 0:
        log.add("word-clipped", f"{times}, begins before the audio", item=word.item, at_us=0)
        start_us = 0
    if end_us > duration_us:
        # The last frame is padded to its full length anyway: no information is lost within it.
        within = end_us <= -(-duration_us // FRAME_US) * FRAME_US
        log.add(
            "word-end-rounded" if within else "word-clipped",
            f"{times}, audio is {duration_us} µs long",
            item=word.item,
            at_us=start_us,
        )
        end_us = duration_us
    off_s = word.raw.uncertainty_s
    return TimedWord(
        word.text,
        start_us,
        end_us,
        word.raw.speaker,
        word.raw.confidence,
        word.method,
        None if off_s is None else seconds_to_us(off_s),
    )
