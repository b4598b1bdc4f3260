"""What every transcript format must do. A reader passes by subclassing `TranscriptConformance` with one sample file,
or `JsonTranscriptConformance` where that is one JSON document.

    class TestMyFormat(TranscriptConformance):
        format = "my-format"
        sample = b"0.5 0.9 agent hello"
        words = (("hello", 0.5, 0.9, "agent", None),)
        agent = "agent"

Broken files are made from the sample. A reader may find fewer words in them, or refuse them with a code; it never
raises anything else, never loses a word without a trace, and never gives a time outside the audio.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
import random
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.transcripts import (
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    detect,
    formats,
    map_speakers,
    read_segments,
    read_transcript,
    timed_words,
)
from inkplex_data.corpus.transcripts.speakers import agent_label
from inkplex_data.corpus.transcripts.transcript import NOT_JSON
from inkplex_data.corpus.word_repair import WORD_DROPS
from inkplex_data.errors import CallRefused, CorpusError
from inkplex_data.problems import CODES, ProblemLog

HOUR_US: Final = 3_600_000_000
NOT_SPOKEN: Final = ("word-empty", "word-punctuation-attached")
"""Codes of entries that are no word of their own; with `WORD_DROPS`, all that a repaired transcript lacks."""

JUNK: Final[tuple[Any, ...]] = (
    None, True, 5, -1, 1e308, 10**400, math.nan, math.inf, "", "word", "sNaNs", "\ud800", [], [None], [5, "x"], {},
    {"words": 3}, {"alternatives": 5},
)  # fmt: skip
"""What may stand in JSON where a format has something else."""

MISSING: Final = object()
NO_ENTRIES: Final[tuple[Any, ...]] = (None, 3, [], ["word"], {}, {"alternatives": 5})
"""What is a word in no format."""

TOKENS: Final = (
    "", "-1", "nan", "1e999", "9" * 5_000, "00:00:01,000", "-->", "<exists>", '"', "<v " * 500, "{\\ " * 500, "\0",
    "SPEAKER", "\u2028",
)  # fmt: skip
"""What may stand in lines of text where a format has something else."""

Word = tuple[str, object, object, str, float | None]


class TranscriptConformance:
    """The suite of one format. Set the attributes below; a format without word times has `refused` and `segments`."""

    format: ClassVar[str]
    """`TranscriptFormat.name`."""
    sample: ClassVar[bytes]
    """A good file of UTF-8 text, the smaller the better."""
    words: ClassVar[Sequence[Word]] = ()
    """(text, start, end, label, confidence) of each word in it, times in seconds."""
    agent: ClassVar[str | None] = "SPEAKER_MAIN"
    """The label that is the agent's by default; None where somebody has to name one."""
    refused: ClassVar[str] = ""
    """The code under which it is refused, where no word of it has times."""
    segments: ClassVar[Sequence[tuple[str, float, float, str]]] = ()
    """(text, start_s, end_s, speaker) of its segments, where the format has such."""
    file_name: ClassVar[str] = "call"
    """Its name, where that decides; without an ending, only the content does."""

    @cached_property
    def form(self) -> TranscriptFormat:
        [found] = [form for form in formats() if form.name == self.format]
        return found

    def content(self, data: bytes) -> Content:
        return Content(Path(self.file_name), data)

    def check_sample(self, content: Content) -> None:
        """`content` says what the sample says."""
        assert detect(content) is self.form
        if self.refused:
            with pytest.raises(CallRefused) as caught:
                self.form.parse(content)
            assert caught.value.code == self.refused
        else:
            transcript = self.form.parse(content)
            assert _rows(transcript) == list(self.words)
            assert not any(word.fault for word in transcript.words)
            assert agent_label(transcript) == self.agent
        if self.form.segments is not None:
            assert [_row(segment) for segment in self.form.segments(content)] == list(self.segments)

    def survives(self, data: bytes) -> Transcript | None:
        """All that the package does with a transcript, done with `data`; None where that is refused."""
        content = self.content(data)
        asked = [form for form in (detect(content), self.form) if form is not None and form.detect(content)]
        found = None
        for form in dict.fromkeys(asked):
            try:
                found = form.parse(content)
            except CorpusError as error:
                assert isinstance(error, CallRefused) and error.code in CODES
            else:
                _check_words(found)
            try:
                segments = form.segments(content) if form.segments is not None else []
            except CorpusError as error:
                assert isinstance(error, CallRefused)
            else:
                assert all(math.isfinite(part.start_s) and not math.isnan(part.end_s) for part in segments)
                # RTTM alone has turns that say nothing.
                assert all(part.text.strip() or self.refused == "words-speakers-only" for part in segments)
        return found

    def test_the_sample_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / self.file_name
        path.write_bytes(self.sample)
        self.check_sample(Content(path, self.sample))
        if not self.refused:
            transcript = read_transcript(path)
            assert (transcript.format, transcript.path, transcript.notes) == (self.format, path, [])
            _check_words(transcript)
        if self.segments:
            assert [_row(segment) for segment in read_segments(path)] == list(self.segments)

    def test_it_is_found_by_its_content(self) -> None:
        any_name = ("call", "call.json", "call.txt", "a.b c/Ünï.dat", ".hidden")
        for name in any_name if self.file_name == "call" else (self.file_name, f"a.b/{self.file_name}"):
            assert detect(Content(Path(name), self.sample)) is self.form

    def test_it_takes_no_file_of_another_format(self) -> None:
        for kind in kinds():
            other = detect(Content(Path(kind.file_name), kind.sample))
            assert other is not None and other.name == kind.format

    def test_it_lies_beside_its_audio(self, tmp_path: Path) -> None:
        for number, suffix in enumerate(self.form.suffixes):
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / "call.wav").touch()
            (folder / f"call{suffix}").write_bytes(self.sample)
            assert read_corpus(folder).entries[0].words == folder / f"call{suffix}"

    def test_reading_twice_gives_the_same(self) -> None:
        if self.form.segments is not None:
            once, twice = (self.form.segments(self.content(self.sample)) for _ in range(2))
            assert once == twice
        if not self.refused:
            first, second = (self.form.parse(self.content(self.sample)) for _ in range(2))
            assert first == second == pickle.loads(pickle.dumps(first))

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
    def test_a_byte_order_mark_changes_nothing(self, encoding: str) -> None:
        content = self.content(self.sample.decode().encode(encoding))
        self.check_sample(content)
        assert content.replaced == 0

    def test_line_ends_change_nothing(self) -> None:
        self.check_sample(self.content(self.sample.replace(b"\n", b"\r\n")))
        self.check_sample(self.content(self.sample.rstrip(b"\n") + b"\n\n\n"))

    def test_a_file_that_breaks_off(self) -> None:
        size = len(self.sample)
        for end in range(0, size, max(1, size // 200)):
            self.survives(self.sample[:end])

    def test_wrong_values_anywhere(self) -> None:
        for data in self.wrong_values():
            self.survives(data)

    def wrong_values(self) -> Iterator[bytes]:
        """Of lines: one is missing, or is there twice, or has something else between two spaces."""
        lines = self.sample.decode().splitlines(keepends=True)
        for number, line in enumerate(lines):
            before, after = lines[:number], lines[number + 1 :]
            changed = ["", line * 2]
            parts = line.split(" ")
            for place, junk in itertools.product(range(len(parts)), TOKENS):
                changed.append(" ".join([*parts[:place], junk, *parts[place + 1 :]]) + "\n")
            yield from ("".join([*before, other, *after]).encode() for other in changed)

    def test_bytes_that_are_anything(self) -> None:
        chance = random.Random(self.format)
        for _ in range(200):
            data = bytearray(self.sample)
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(len(data))] = chance.choice((0, 10, 34, 255, chance.randrange(256)))
            self.survives(bytes(data))

    def test_what_is_too_much(self) -> None:
        """Nesting beyond any stack, and lines and numbers longer than patterns that go back and forth can take."""
        for more in (b"[" * 100_000, b'{"a":' * 100_000, b"<v " * 100_000, b"9" * 100_000, b'"' * 100_001):
            self.survives(self.sample + more)
            self.survives(more + self.sample)
        self.survives(self.sample * 300)


class JsonTranscriptConformance(TranscriptConformance):
    """The suite of a format whose files are one JSON document."""

    entries: ClassVar[Sequence[str | int]] = ()
    """The steps to a list in the sample that holds one word an entry."""

    @cached_property
    def document(self) -> Any:
        found = self.content(self.sample).json
        assert found is not NOT_JSON
        return found

    def test_line_ends_change_nothing(self) -> None:
        lines = json.dumps(self.document, indent=1)
        self.check_sample(self.content(lines.replace("\n", "\r\n").encode()))

    def test_fields_that_it_does_not_know_change_nothing(self) -> None:
        more = copy.deepcopy(self.document)
        for node in [value for _, value in _nodes(more) if isinstance(value, dict)]:
            node["a field of next year"] = {"words": [1]}
        self.check_sample(self.content(json.dumps(more).encode()))

    def wrong_values(self) -> Iterator[bytes]:
        """Each value in turn is something else, numbers that no double holds among it, or is missing."""
        for steps, _ in _nodes(self.document):
            for junk in (*JUNK, MISSING) if steps else JUNK:
                wrong = {"": copy.deepcopy(self.document)}
                holder = _at(wrong, ("", *steps[:-1]) if steps else ())
                if junk is MISSING:
                    del holder[steps[-1]]
                else:
                    holder[steps[-1] if steps else ""] = junk
                yield json.dumps(wrong[""]).encode()

    def test_entries_that_are_no_words_cost_themselves_only(self) -> None:
        if not self.entries:
            pytest.skip("the format has no list of words")
        wrong = copy.deepcopy(self.document)
        # Before the last one, so that none can pass for a mark that follows a word.
        _at(wrong, self.entries)[-1:-1] = NO_ENTRIES
        found = self.survives(json.dumps(wrong).encode())
        assert found is not None
        assert sum(word.fault is not None for word in found.words) == len(NO_ENTRIES)
        # Confidences may lie in a list beside the words.
        assert [row[:4] for row in _rows(found)] == [row[:4] for row in self.words]


def kinds() -> list[type[TranscriptConformance]]:
    """The suites that pytest has collected or will."""
    every = [*TranscriptConformance.__subclasses__(), *JsonTranscriptConformance.__subclasses__()]
    return [kind for kind in every if kind.__name__.startswith("Test")]


def _rows(transcript: Transcript) -> list[Word]:
    sound = (word for word in transcript.words if word.fault is None)
    return [(word.text, word.start, word.end, word.speaker, word.confidence) for word in sound]


def _row(segment: Segment) -> tuple[str, float, float, str]:
    return segment.text, segment.start_s, segment.end_s, segment.speaker


def _check_words(transcript: Transcript) -> None:
    """Every word has a label and a place, and after the repair a time within the audio or a problem that says why not."""
    for word in transcript.words:
        assert isinstance(word.text, str) and word.speaker and isinstance(word.speaker, str) and word.item
        assert word.confidence is None or 0 <= word.confidence <= 1
    log = ProblemLog("call")
    timed = timed_words(map_speakers(transcript), duration_us=HOUR_US, log=log)
    assert len(timed) + log.count(*WORD_DROPS, *NOT_SPOKEN) == len(transcript.words)
    assert all(0 <= word.start_us < word.end_us <= HOUR_US for word in timed)


def _nodes(value: Any, steps: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The steps to every value within `value`, and the value."""
    yield steps, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in inner:
        yield from _nodes(part, (*steps, step))


def _at(value: Any, steps: Sequence[Any]) -> Any:
    for step in steps:
        value = value[step]
    return value
