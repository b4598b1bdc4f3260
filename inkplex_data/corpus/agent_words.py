"""Why a call would give an agent text stream of nothing but PAD: what its words are, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, RawWord, TimedWord
from inkplex_data.plural import counted
from inkplex_data.problems import Problem, refusal

CODE: Final = "text-all-pad"
LOST: Final = {
    "word-malformed": "without a text, a pair of times or a speaker's label",
    "word-empty": "nothing but white space",
    "word-untimed": "without usable times",
    "word-no-duration": "ending at or before their start",
    "word-outside-audio": "wholly before or after the audio",
}
"""The rules by which an entry of a transcript is lost, in the order in which they are asked."""
_MILLISECONDS_LEAST: Final = 0.05
"""Times in milliseconds reach over more of the audio than this; those of a call that is only longer do not."""


def main_speaker_faults(words: Sequence[TimedWord], main_speaker: str | None = SPEAKER_MAIN) -> list[str]:
    """Why these words would give an agent text stream of nothing but PAD; empty where they would not."""
    if any(word.is_by(main_speaker) for word in words):
        return []
    if not words:
        return ["there are no words"]
    shown = _listed(word.speaker for word in words)
    return [f"no word has the main speaker's label {main_speaker}; labels seen: {shown}"]


def refuse_without_agent(
    words: Sequence[TimedWord],
    raw: Sequence[RawWord],
    problems: Iterable[Problem],
    *,
    duration_us: int,
    main_speaker: str | None = SPEAKER_MAIN,
    where: str | None = None,
) -> None:
    """Raise CallRefused (text-all-pad) where no word is the agent's, saying how many were read and why none is left.

    `raw` are the words of the transcript under their mapped labels, `words` what the repair left of them within the
    audio of `duration_us`, and `problems` what it noted.
    """
    faults = main_speaker_faults(words, main_speaker)
    if not faults:
        return
    dropped = [problem for problem in problems if problem.code in LOST]
    if not dropped:
        labels = "Name the agent's label with the recipe key `words.agent`." if words else None
        raise refusal(CODE, faults[0], where, next_step=labels)
    lost = Counter(problem.code for problem in dropped)
    rules = "; ".join(f"{lost[code]} {why} ({code})" for code, why in LOST.items() if lost[code])
    read = f"{counted(len(raw), 'word')} {'was' if len(raw) == 1 else 'were'} read"
    left = "none is left" if not words else f"{faults[0]}, and {len(dropped)} were dropped"
    what = f"{read} and {left}: {rules}, such as {dropped[0].item}: {dropped[0].message}"
    step = (
        "Correct what the rules name; words need text, a speaker's label, and a start and an end in seconds."
    )
    own_lost = [word for word in raw if main_speaker in (None, word.speaker)]
    if lost["word-outside-audio"] and _fit_in_milliseconds(own_lost or raw, duration_us):
        what += "; taken as milliseconds, all times lie within the audio"
        step = "Are the times in milliseconds? Write them in seconds."
    raise refusal(CODE, what, where, next_step=step)


def _fit_in_milliseconds(raw: Sequence[RawWord], duration_us: int) -> bool:
    """Whether a thousandth of every end lies within the audio, and the last one over a part of it worth the name."""
    ends_us = [us for word in raw if (us := _us(word.end)) is not None]
    return bool(ends_us) and _MILLISECONDS_LEAST * duration_us <= max(ends_us) / 1000 <= duration_us


def _us(value: object) -> int | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        return seconds_to_us(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return None


def _listed(labels: Iterable[str]) -> str:
    known = list(dict.fromkeys(labels))
    return ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
