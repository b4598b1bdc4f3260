"""How a stored call sounds: decoded from its codes, or read from the corpus, as one small file for a browser."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from inkplex_data.audio.call_audio import CHUNK_SAMPLES, open_files
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.clock import SAMPLE_RATE_HZ, us_to_samples
from inkplex_data.corpus.clips import with_clips
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.errors import UsageError
from inkplex_data.grid import AUDIO_CARD

if TYPE_CHECKING:
    from inkplex_data.speech.codec_stream import Codec
    from inkplex_data.store.call import Call

Voices = NDArray[np.float32]


@dataclass(frozen=True)
class CallSound:
    """An Ogg Opus file of agent (left) and caller (right), and in words where it comes from."""

    ogg: bytes
    source: str


SoundOf = Callable[["Call"], CallSound]
"""Makes a call's sound."""


def sound_of_codes(codec: Codec) -> SoundOf:
    """Decodes the stored codes, so that one hears what a model trained on them hears."""
    told = f"decoded from the stored codes by {codec.identity.id}"
    if codec.identity.untrained:
        told += ", which is untrained: this is noise"

    def sound(call: Call) -> CallSound:
        sides = call.codes.reshape(-1, codec.identity.codebooks, call.frames)
        voices = [codec.decode(np.where(side < AUDIO_CARD, side, 0)) for side in sides]
        return CallSound(ogg_opus(np.stack(voices)), told)

    return sound


def sound_of_sources(corpus: Path, *, is_single: bool = False) -> SoundOf:
    """Reads the corpus that the store was built from. What has one channel is heard on the left.

    Raises CorpusError where it cannot be read; the function that is returned raises UsageError for a call that the
    corpus lacks, and CallRefused where its audio cannot be read.
    """
    entries = {entry.call_id: entry for entry in with_clips(read_corpus(corpus).entries)[0]}

    def sound(call: Call) -> CallSound:
        entry, row = entries.get(call.call_id), call.row
        if entry is None:
            what = f"the corpus has no call {call.call_id!r}"
            raise UsageError(
                what, where=str(corpus), next_step="Give the corpus that the store was built from."
            )
        named = (row["agent_channel"], row["caller_channel"])
        indices = None if None in named else named
        files = open_files(entry.audio)
        is_mixture = is_single or (files.is_one_file and files.agent.channels == 1)
        audio = files.single(indices) if is_mixture else files.channels(indices)
        start = us_to_samples(row["clip_start_us"] or 0)
        voices = _part(audio.streams(CHUNK_SAMPLES), start, start + row["samples"])
        return CallSound(ogg_opus(voices), f"from {entry.source}")

    return sound


def _part(chunks: Iterable[tuple[Samples, Samples]], start: int, stop: int) -> Voices:
    """float32 [2, stop − start] of chunks in step, zeros where they end before."""
    voices = np.zeros((2, stop - start), np.float32)
    at = 0
    for pair in chunks:
        first, last = max(at, start), min(at + len(pair[0]), stop)
        for voice, chunk in zip(voices, pair, strict=True):
            voice[max(first - start, 0) : max(last - start, 0)] = chunk[first - at : max(last - at, 0)]
        at += len(pair[0])
        if at >= stop:
            break
    return voices


def ogg_opus(voices: Voices) -> bytes:
    """float32 [channels, samples] at 24 kHz as an Ogg Opus file, about 9 kB a second, which every browser plays to the sample."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, np.clip(voices.T, -1, 1), SAMPLE_RATE_HZ, format="OGG", subtype="OPUS")
    return file.getvalue()
