"""Word times for a text that is known: captions, utterances and plain text, each speaker on the side that speaks.

Whose words they are is told by the rule that goes for transcripts with word times, else by which side of the call
speaks in their time. What neither tells is left out and reported: the caller's words never become the agent's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.call_scan import SIDES, Side
from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.transcripts import Segment, SpeakerRule, Transcript, map_speakers, read_segments
from inkplex_data.corpus.word_repair import (
    SPEAKER_CALLER,
    SPEAKER_MAIN,
    SPEAKER_UNKNOWN,
    RawWord,
    TimedWord,
)
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog, refusal
from inkplex_data.speech.align.anchored import time_whole_text
from inkplex_data.speech.align.filters import inside_us
from inkplex_data.speech.align.sides import SideActivity, side_activity
from inkplex_data.speech.align.transcribe import SpeechAligner
from inkplex_data.speech.align.vad import speech_intervals

Samples = npt.NDArray[np.float32]
MAX_STRETCH_US: Final = 300_000_000
_OTHER: Final[dict[Side, Side]] = {"agent": "caller", "caller": "agent"}


@dataclass(frozen=True)
class Voices:
    """Channels of a call, float32 [n] each at 16 kHz. Without `caller`, `agent` is the one channel with all voices."""

    agent: Samples
    caller: Samples | None = None

    def of(self, side: Side) -> Samples:
        return self.agent if side == "agent" or self.caller is None else self.caller


@dataclass(frozen=True)
class Sided:
    """A stretch of text with the side on which it is spoken and the label that its words get."""

    segment: Segment
    side: Side
    speaker: str

    @property
    def is_timed(self) -> bool:
        return math.isfinite(self.segment.end_s)

    @property
    def span_us(self) -> tuple[int, int]:
        return _span_us(self.segment)


def align_known(
    path: Path, voices: Voices, aligner: SpeechAligner, log: ProblemLog, *, rule: SpeakerRule
) -> list[TimedWord]:
    """Words of the text in `path`, sorted: the agent's labelled `rule.main`, the caller's SPEAKER_CALLER; all with
    their own labels where `rule.main` is None, and then `voices` is one channel.

    Raises CallRefused: what reading raises, words-agent-unknown, words-side-contradicts, words-text-differs.
    """
    segments = [part for part in read_segments(path) if part.text.split()]
    activity = side_activity(voices.agent, voices.caller) if voices.caller is not None else None
    sided = assign_sides(segments, activity, log, rule=rule, where=path.name)
    channels = [sided]
    if voices.caller is not None:
        channels = [[part for part in sided if part.side == side] for side in SIDES]
    words: list[TimedWord] = []
    for own in channels:
        samples = voices.of(own[0].side) if own else voices.agent
        try:
            words += _stretches([part for part in own if part.is_timed], samples, aligner, log)
            words += _whole([part for part in own if not part.is_timed], samples, aligner, log)
        except CallRefused as error:
            if error.where is None:
                raise refusal(error.code, error.what, path, next_step=error.next_step) from None
            raise
    return sorted(words, key=lambda word: word.start_us)


def assign_sides(
    segments: Sequence[Segment],
    activity: SideActivity | None,
    log: ProblemLog,
    *,
    rule: SpeakerRule,
    where: str,
) -> list[Sided]:
    """The side and label of each stretch; those that cannot be told are left out and reported.

    Without `activity` there is one channel, and the side means nothing. Text that names nobody is the agent's, as
    in transcripts with word times; where a two-channel call shows that it has words of both, each stretch goes to
    the side that speaks in it. Raises CallRefused (words-agent-unknown, words-side-contradicts).
    """
    labels = list(dict.fromkeys(part.speaker for part in segments if part.speaker))
    by_label = _sides_of_labels(labels, segments, activity, log, rule=rule, where=where)
    nameless = [part for part in segments if not part.speaker]
    by_part = _sides_of_nameless(nameless, bool(labels), activity, log, rule=rule, where=where)
    sided = []
    for part in segments:
        found = by_label.get(part.speaker) if part.speaker else by_part.get(id(part))
        if found is not None:
            sided.append(Sided(part, *found))
    return sided


def _sides_of_labels(
    labels: list[str],
    segments: Sequence[Segment],
    activity: SideActivity | None,
    log: ProblemLog,
    *,
    rule: SpeakerRule,
    where: str,
) -> dict[str, tuple[Side, str]]:
    spans = {
        label: [_span_us(part) for part in segments if part.speaker == label and math.isfinite(part.end_s)]
        for label in labels
    }
    if rule.main is None:
        return {label: ("agent", label) for label in labels}
    final = _mapped(labels, rule)
    if {rule.main, SPEAKER_CALLER} & set(final.values()):
        found: dict[str, tuple[Side, str]] = {
            label: ("agent" if name == rule.main else "caller", name) for label, name in final.items()
        }
        if activity is not None:
            _check_sides({label: side for label, (side, _) in found.items()}, spans, activity, where)
        return found
    if not labels:
        return {}
    told = {label: activity.side_of(spans[label]) if activity is not None else None for label in labels}
    if any(side == "agent" for side in told.values()) or (labels and all(told.values())):
        named = ", ".join(f"{label!r} the {side}'s" for label, side in told.items() if side is not None)
        log.add("words-side-assumed", f"by who speaks in their captions, {named}", item=where)
        for label in (label for label, side in told.items() if side is None):
            log.add("words-side-unclear", f"speaker {label!r}: both sides speak in the captions", item=where)
        return {
            label: (side, rule.main if side == "agent" else SPEAKER_CALLER)
            for label, side in told.items()
            if side is not None
        }
    if len(labels) == 1 and all(part.speaker for part in segments):
        side = _default_side(rule)
        log.add("words-side-assumed", f"{labels[0]!r}, the only speaker, is the {side}", item=where)
        return {labels[0]: (side, rule.main if side == "agent" else SPEAKER_CALLER)}
    what = f"names the speakers {', '.join(map(repr, labels))}, and nothing says which is the agent"
    raise refusal("words-agent-unknown", what, where)


def _sides_of_nameless(
    parts: Sequence[Segment],
    others_named: bool,
    activity: SideActivity | None,
    log: ProblemLog,
    *,
    rule: SpeakerRule,
    where: str,
) -> dict[int, tuple[Side, str]]:
    """By the identity of the stretch."""
    if not parts:
        return {}
    default = _default_side(rule)
    label: dict[Side, str] = {"agent": rule.main or SPEAKER_MAIN, "caller": SPEAKER_CALLER}
    if others_named and activity is None:
        return {id(part): (default, SPEAKER_UNKNOWN) for part in parts}
    told = {
        id(part): activity.side_of([_span_us(part)])
        if activity is not None and math.isfinite(part.end_s)
        else None
        for part in parts
    }
    counts = {side: sum(value == side for value in told.values()) for side in SIDES}
    if not others_named and not counts[_OTHER[default]]:
        return {id(part): (default, label[default]) for part in parts}
    log.add(
        "words-side-assumed",
        f"of {len(parts)} stretches without a speaker, {counts['agent']} are the agent's and {counts['caller']} "
        "the caller's, by who speaks in them",
        item=where,
    )
    for part in parts:
        if told[id(part)] is None:
            log.add(
                "words-side-unclear",
                f"no speaker is named, and not one side alone speaks: {part.text[:200]!r}",
                item=f"{where} {part.item}",
            )
    return {id(part): (side, label[side]) for part in parts if (side := told[id(part)]) is not None}


def _check_sides(
    sides: dict[str, Side], spans: dict[str, list[tuple[int, int]]], activity: SideActivity, where: str
) -> None:
    """Refuse a call in which no label is spoken on its own side and one is on the other."""
    heard = {label: activity.side_of(spans[label]) for label in sides}
    if any(heard[label] == side for label, side in sides.items()):
        return
    for label, side in sides.items():
        if heard[label] == _OTHER[side]:
            alone = activity.alone_us(spans[label])
            raise refusal(
                "words-side-contradicts",
                f"{label!r} is the {side}; in those captions the {_OTHER[side]}'s side speaks alone for "
                f"{alone[_OTHER[side]]} µs, the {side}'s for {alone[side]} µs",
                where,
            )


def _mapped(labels: Sequence[str], rule: SpeakerRule) -> dict[str, str]:
    """What the rule for transcripts makes of labels."""
    raw = [RawWord(label, 0.0, 1.0, label, None, "") for label in labels]
    words = map_speakers(Transcript(raw, "captions", Path()), rule).words
    return {label: word.speaker for label, word in zip(labels, words, strict=True)}


def _default_side(rule: SpeakerRule) -> Side:
    return "caller" if rule.swapped else "agent"


def _span_us(segment: Segment) -> tuple[int, int]:
    return max(seconds_to_us(segment.start_s), 0), seconds_to_us(segment.end_s)


def _stretches(
    parts: Sequence[Sided], samples: Samples, aligner: SpeechAligner, log: ProblemLog
) -> list[TimedWord]:
    """Stretches with times of their own, each aligned within them."""
    speech = speech_intervals(samples) if parts else np.zeros((0, 2), np.int64)
    words: list[TimedWord] = []
    for part in parts:
        start_us, end_us = part.span_us
        timed = None
        if 0 < end_us - start_us <= MAX_STRETCH_US and inside_us(start_us, end_us, speech):
            timed = aligner.time_text(
                samples, part.segment.text.split(), start_us=start_us, end_us=end_us, speaker=part.speaker
            )
        if timed is None:
            where = f"{start_us} to {end_us} µs, {part.side}"
            log.add("words-not-aligned", f"{where}: {part.segment.text[:200]!r}", item=part.segment.item)
            continue
        words += timed
    return words


def _whole(
    parts: Sequence[Sided], samples: Samples, aligner: SpeechAligner, log: ProblemLog
) -> list[TimedWord]:
    """Text without times, somewhere in the call and in order."""
    words = [(word, part) for part in parts for word in part.segment.text.split()]
    if not words:
        return []
    texts, speakers = [word for word, _ in words], [part.speaker for _, part in words]
    found = time_whole_text(samples, texts, speakers, aligner)
    for run in found.lost:
        item = words[run.start][1].segment.item
        log.add(
            "words-not-aligned", f"{len(run)} words: {' '.join(texts[i] for i in run)[:200]!r}", item=item
        )
    return found.words
