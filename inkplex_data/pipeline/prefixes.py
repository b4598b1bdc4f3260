"""One prefix, from its plan to codes: cut the voice sample, set its loudness, encode, compose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.audio.loudness import normalise_lufs
from inkplex_data.audio.resample import resample
from inkplex_data.clock import FRAME_SAMPLES, SAMPLE_RATE_HZ, us_to_samples
from inkplex_data.config.recipe import Recipe
from inkplex_data.errors import CallRefused, ConfigError
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.prepare import PREPARE_KEYS, PREPARING, CallInput, prepare_call
from inkplex_data.pipeline.planning.prefix_voices import PrefixPlan
from inkplex_data.pipeline.stage import Job, Stage
from inkplex_data.speech.prefix import Prefix, build_prefix, codec_is_released, wrap_role
from inkplex_data.store.frame_streams import stored_in


@dataclass(frozen=True, kw_only=True)
class PrefixJob(Job):
    """One prefix to encode. Its voice is cut from the call `source`, or is the file `voice_file`."""

    plan: PrefixPlan
    source: CallInput | None
    voice_file: Path | None

    @property
    def key(self) -> str:
        return self.plan.prefix_id


@dataclass(frozen=True)
class EncodedPrefix:
    """The streams of one prefix of P frames, [P] or [P, width], and how many of them hold voice and role pieces."""

    streams: dict[str, np.ndarray]
    voice_frames: int
    role_pieces: int


def encode_prefix(job: PrefixJob, folder: Path) -> EncodedPrefix:
    """Encode one prefix.

    Raises CallRefused for a prefix that fills the model's context, UsageError for a voice without sound.
    """
    prefix = make_prefix(job)
    return EncodedPrefix(
        {stream.name: getattr(prefix, stream.name) for stream in stored_in("prefixes")},
        prefix.layout.voice_frames,
        len(prefix.layout.role_pieces),
    )


def make_prefix(job: PrefixJob) -> Prefix:
    """The prefix of one plan."""
    mimi = tools.codec(job.recipe.codec, job.device)
    pieces = (
        tools.tokenizer(job.recipe.text.tokenizer).encode(wrap_role(job.plan.role)) if job.plan.role else []
    )
    voice = None
    if job.plan.voice is not None:
        sample = normalise_lufs(_voice_samples(job), SAMPLE_RATE_HZ)
        voice = mimi.encode([sample])
    # The released weights have fixed codes for silence and tone; any other weights encode them.
    encode = None if not mimi.identity.untrained and codec_is_released(mimi.encode) else mimi.encode
    return build_prefix(voice, pieces, encode)


def check_voices(recipe: Recipe) -> None:
    """Open every voice file that the recipe names. Raises ConfigError for what is no audio file."""
    for name, path in (recipe.prefix.voices if recipe.prefix is not None else {}).items():
        try:
            open_audio(Path(path))
        except CallRefused as error:
            raise ConfigError(
                error.what, where=f"prefix.voices.{name}: {path}", next_step=error.next_step
            ) from error


def _voice_samples(job: PrefixJob) -> np.ndarray:
    voice = job.plan.voice
    assert voice is not None
    if job.voice_file is not None:
        given = open_audio(job.voice_file)
        mono = np.concatenate([block.mean(axis=0) for block in given.blocks()])
        return resample(mono, given.sample_rate_hz)[: _limit_samples(job.recipe)]
    assert job.source is not None
    first, last = us_to_samples(voice.start_us), us_to_samples(voice.end_us)
    kept, at = [], 0
    for chunk in prepare_call(job.source, job.build).audio.stream("agent"):
        kept.append(chunk[max(first - at, 0) : max(last - at, 0)])
        at += len(chunk)
        if at >= last:
            break
    return np.concatenate(kept)


def _limit_samples(recipe: Recipe) -> int:
    assert recipe.prefix is not None
    return int(recipe.prefix.voice_max_s * SAMPLE_RATE_HZ) // FRAME_SAMPLES * FRAME_SAMPLES


PREFIX: Final = Stage(
    name="prefixes",
    version=2,
    result=EncodedPrefix,
    run=encode_prefix,
    recipe=(*PREPARE_KEYS, "codec", "device", "prefix.voice_max_s", "text.tokenizer"),
    after=PREPARING,
    unit="prefixes",
    needs_device=True,
)
