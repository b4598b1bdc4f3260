"""Which channel of a call is the agent's: what the corpus says, a rule for all calls, or a guess from the call itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.activity import LevelMeter
from inkplex_data.audio.call_audio import CallAudio, CallFiles, open_files
from inkplex_data.audio.resample import resample
from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import CallEntry, ChannelSpec
from inkplex_data.corpus.transcripts import (
    SpeakerRule,
    Transcript,
    read_segments,
)
from inkplex_data.corpus.transcripts.speakers import agent_label
from inkplex_data.corpus.word_repair import RawWord, repair_words
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.problems import ProblemLog, refusal
from inkplex_data.speech.agent.place import Channels, Said, channels_of_levels, texts_of
from inkplex_data.speech.agent.score import (
    CHANNELS,
    THRESHOLD,
    Evidence,
    SideGuess,
    channel_evidence,
    combine,
    order_evidence,
    phrase_evidence,
    place_evidence,
)

Rule = Literal["left", "right", "auto"]
RULES: Final[dict[str, Rule]] = {"left": "left", "right": "right", "auto": "auto"}
Samples = npt.NDArray[np.float32]
Hear = Callable[[Samples], str]
"""What is said in float32 [n] at 16 kHz."""

HEARD_S: Final = 60
"""A greeting and its answer are over after a minute; no more is transcribed for a guess."""
HEARD_HZ: Final = 16_000
_SAYS_WHOSE: Final = frozenset({"moshi", "sidecar"})
"""Formats in which the main speaker's label stands in the file; others get it where they name nobody."""


@dataclass(frozen=True)
class Decision:
    """The call with its channels named, and by what: the corpus, the rule, a guess, or nothing ("open").

    "open" is a file without exactly two channels: what resolves channels refuses it, or diarization divides it.
    """

    entry: CallEntry
    by: Literal["corpus", "rule", "guess", "open"]
    guess: SideGuess | None = None


@dataclass(frozen=True)
class _Text:
    """A transcript as evidence: its stretches, the agent's label, and channels of labels where it names them."""

    said: tuple[Said, ...] = ()
    agent: str | None = None
    says_whose: bool = True
    channels: tuple[tuple[str, int], ...] = ()


def agent_rule(text: str) -> Rule:
    """The rule that an option names. Raises UsageError."""
    if text not in RULES:
        raise UsageError(f"--agent takes {', '.join(RULES)}, got {text!r}")
    return RULES[text]


def decide(
    entry: CallEntry,
    agent: Rule,
    *,
    files: CallFiles | None = None,
    text: CallText | None = None,
    threshold: float = THRESHOLD,
    hear: Hear | None = None,
) -> Decision:
    """Name the channels of a call where the corpus does not.

    `files` and `text` are the call's, where they are open and read already. `hear` transcribes the beginning of a
    channel; it is asked where the rest does not decide. A guess is acted on from the confidence `threshold`.
    Raises CallRefused: agent-undecided, and what opening and decoding the file raise.
    """
    if not isinstance(entry.audio, Path) or (entry.channels is not None and not entry.channels_assumed):
        return Decision(entry, "corpus")
    files = files or open_files(entry.audio)
    if files.agent.channels != 2:
        return Decision(entry, "open")
    if agent != "auto":
        return Decision(_with_agent(entry, CHANNELS.index(agent)), "rule")
    audio = files.channels((0, 1))
    guess = guess_agent(entry, audio, text=text, threshold=threshold, hear=hear)
    if not guess.decided(threshold):
        # Where the sound itself is at fault (one sound twice, no sound at all), that is what to say.
        audio.scan(ProblemLog(entry.call_id))
        raise refusal("agent-undecided", f"{guess.text()}; {threshold:.2f} is needed", entry.source)
    return Decision(_with_agent(entry, guess.agent_channel), "guess", guess)


def _with_agent(entry: CallEntry, channel: int) -> CallEntry:
    """`channel` is that of the call as it was recorded; an exchanged entry has the other one for its agent."""
    own = 1 - channel if entry.swapped else channel
    return replace(entry, channels=ChannelSpec(own, 1 - own), channels_assumed=False)


def guess_agent(
    entry: CallEntry,
    audio: CallAudio,
    *,
    text: CallText | None = None,
    threshold: float = THRESHOLD,
    hear: Hear | None = None,
) -> SideGuess:
    """Score both channels of a two-channel file, `audio` with left as the agent and right as the caller.

    Reads the sound once, and for `hear` its beginning once more, in flat memory.

    Raises CallRefused for sound that cannot be decoded. A transcript that cannot be read is no evidence.
    """
    channels = channels_of_levels(_levels(audio))
    said = _text(text if text is not None else CallText.of(entry))
    known = dict(said.channels)
    evidence = order_evidence(channels.first_us())
    evidence += phrase_evidence(texts_of(said.said, channels, known))
    words, doubt_side = _words_evidence(said, channels, known)
    guess = combine([*evidence, *words])
    if hear is not None and not guess.decided(threshold):
        beginnings = [hear(samples) for samples in _beginnings(audio)]
        given = texts_of(said.said, channels, known)
        evidence = order_evidence(channels.first_us())
        evidence += phrase_evidence([f"{a} | {b}" for a, b in zip(given, beginnings, strict=True)])
        guess = combine([*evidence, *words])
    if doubt_side is not None and doubt_side != guess.agent_channel:
        return replace(guess, doubt=f"the transcript's words are those of {CHANNELS[doubt_side]}")
    return guess


def _levels(audio: CallAudio) -> list[npt.NDArray[np.float32]]:
    meters = LevelMeter(), LevelMeter()
    for pair in audio.streams():
        for meter, chunk in zip(meters, pair, strict=True):
            meter.push(chunk)
    return [meter.levels_db() for meter in meters]


def _beginnings(audio: CallAudio) -> list[Samples]:
    """The first minute of both channels: float32 [n] each at 16 kHz."""
    source = audio.agent.source
    parts = [np.zeros((2, 0), np.float32)]
    left = HEARD_S * source.sample_rate_hz
    for block in source.blocks():
        parts.append(block[:, :left].copy())
        left -= parts[-1].shape[1]
        if left <= 0:
            break
    return list(resample(np.concatenate(parts, axis=1), source.sample_rate_hz, HEARD_HZ))


def _words_evidence(
    text: _Text, channels: Channels, known: dict[str, int]
) -> tuple[list[Evidence], int | None]:
    """What the agent's words tell, and the channel on which the words of a transcript without names lie.

    Those words become the agent's text, so a guess for the other channel must not be acted on.
    """
    if text.agent is None:
        return [], None
    if text.agent in known:
        return channel_evidence(known[text.agent]), None
    own = [one for one in text.said if one.label == text.agent]
    evidence = place_evidence(channels.alone_us(own), labelled=text.says_whose)
    return evidence, None if text.says_whose else channels.side_of(own)


def _text(text: CallText) -> _Text:
    # The rule's own channel is what is looked for here, and labels are those of the call before any exchange.
    rule = replace(text.rule, agent_channel=-1, swapped=False)
    path = text.entry.words
    try:
        if path is None or not text.lacks_word_times:
            given = text.best_transcript
            return _of_transcript(given, rule) if given is not None else _Text()
        found = [one for one in read_segments(path) if isfinite(one.start_s) and isfinite(one.end_s)]
        said = [
            Said(one.speaker, seconds_to_us(one.start_s), seconds_to_us(one.end_s), one.text) for one in found
        ]
        raw = [RawWord(one.text, one.start_s, one.end_s, one.speaker, None, one.item) for one in found]
        label = agent_label(Transcript(raw, "segments", path), rule)
        return _Text(tuple(said), label)
    except CallRefused:
        return _Text()


def _of_transcript(transcript: Transcript, rule: SpeakerRule) -> _Text:
    label = agent_label(transcript, rule)
    return _Text(
        tuple(_said(transcript.words)),
        label,
        label != rule.main or transcript.format in _SAYS_WHOSE or len(transcript.speakers) > 1,
        tuple((name, channel) for channel, name in transcript.channels.items() if channel in (0, 1)),
    )


def _said(raw: Sequence[RawWord]) -> list[Said]:
    words = repair_words(raw, duration_us=2**62, log=ProblemLog(""))
    return [Said(word.speaker, word.start_us, word.end_us, word.text) for word in words]
