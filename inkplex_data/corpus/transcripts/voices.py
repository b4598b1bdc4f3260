"""One label a word where a format tells channels, voices, both or neither apart."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from inkplex_data.corpus.word_repair import SPEAKER_MAIN, SPEAKER_UNKNOWN, RawWord


@dataclass(frozen=True)
class Voice:
    """What a format says of a word: its channel's number, its speaker's name, or nothing."""

    channel: int | None = None
    speaker: str | None = None

    @property
    def label(self) -> str:
        if self.speaker is not None:
            return f"speaker {self.speaker}"
        return "" if self.channel is None else f"channel {self.channel}"


def label_voices(
    words: Sequence[RawWord],
    voices: Sequence[Voice],
    *,
    first_channel: int = 0,
    declared: Set[int] = frozenset(),
) -> tuple[list[RawWord], dict[int, str]]:
    """Words with their labels, and the labels that stand for channels, by index from 0.

    With several channels (`declared` are those that the file names beside its words) the label is the
    channel: whatever a diarizer heard on one of them is bleed or noise. All words on a channel that is not
    the first are those of a call in which the other side was not heard. With one channel the label is the
    voice, where there are several. With neither, the file is a transcript of what was given to the
    transcriber, and that is the agent's side.
    """
    heard = [voice for word, voice in zip(words, voices, strict=True) if word.fault is None]
    channels = sorted({voice.channel for voice in heard if voice.channel is not None} | declared)
    if channels and channels != [first_channel]:
        channels = sorted({first_channel, *channels})
    speakers = {voice.speaker for voice in heard if voice.speaker is not None}
    if len(channels) > 1:
        labels = {channel: f"channel {channel}" for channel in channels}
        named = [
            labels.get(-1 if voice.channel is None else voice.channel, SPEAKER_UNKNOWN) for voice in voices
        ]
        indices = {channel - first_channel: label for channel, label in labels.items()}
    elif len(speakers) > 1:
        named = [SPEAKER_UNKNOWN if voice.speaker is None else voice.label for voice in voices]
        indices = {}
    else:
        named, indices = [SPEAKER_MAIN] * len(voices), {}
    labelled = [replace(word, speaker=label) for word, label in zip(words, named, strict=True)]
    return labelled, indices
