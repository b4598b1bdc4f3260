"""The words that a corpus gives for a call: those of its transcript, else those of its sidecar."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.sidecars.sidecar import Sidecar
from inkplex_data.corpus.transcripts import SpeakerRule, Transcript, load_words, map_speakers, read_transcript
from inkplex_data.corpus.word_repair import RawWord, TimedWord, repair_words
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog

UNTIMED: Final = frozenset({"words-no-word-times", "words-speakers-only"})
"""Codes of transcripts that can be read and time no word."""


def has_word_times(path: Path) -> bool:
    """False for captions, utterances, plain text and speaker turns. Raises CallRefused for what cannot be read."""
    try:
        read_transcript(path)
    except CallRefused as error:
        if error.code in UNTIMED:
            return False
        raise
    return True


def needs_words(path: Path | None) -> bool:
    """Whether a call has no transcript, or one without word times. One that cannot be read is another matter."""
    try:
        return path is None or not has_word_times(path)
    except CallRefused:
        return False


def given_words(
    entry: CallEntry, sidecar: Sidecar | None, *, duration_us: int, log: ProblemLog, rule: SpeakerRule
) -> tuple[list[TimedWord], dict[str, Any] | None]:
    """The call's repaired words, labelled by `rule`, and the text conditions of its transcript.

    Captions or plain text beside the audio do not displace the word times of a sidecar. No words at all are an
    empty list. Raises CallRefused as `load_words` does.
    """
    known = sidecar.words if sidecar is not None else None
    if entry.words is not None and not (known is not None and known.items and needs_words(entry.words)):
        words, transcript = load_words(entry.words, duration_us=duration_us, log=log, rule=rule)
        return words, transcript.text_conditions
    if known is None:
        return [], None
    raw = [
        RawWord(word.text, word.start_s, word.end_s, word.speaker, word.confidence, f"/words/items/{index}")
        for index, word in enumerate(known.items)
    ]
    raw = map_speakers(Transcript(raw, "sidecar", entry.sidecar or Path()), rule).words
    return repair_words(raw, duration_us=duration_us, log=log, method=known.method or "sidecar"), None
