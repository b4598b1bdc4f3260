"""One prefix, from its plan to codes: cut the voice sample, set its loudness, encode, compose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.audio.loudness import normalise_lufs
from inkplex_data.audio.resample import resample
from inkplex_data.clock import FRAME_SAMPLES, SAMPLE_RATE_HZ, us_to_samples
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.part_files import load_streams, save_streams
from inkplex_data.pipeline.calls.prepare import ready_call
from inkplex_data.pipeline.ledger import Ledger, stamp
from inkplex_data.pipeline.planning.sharding import PrefixPlan
from inkplex_data.speech.prefix import Prefix, build_prefix, codec_is_released, wrap_role
from inkplex_data.store.frame_streams import stored_in

VERSION = 1
KIND = "prefixes"


@dataclass(frozen=True)
class PrefixJob:
    """One prefix to encode. `source` is the call that lends its voice, if the plan names one."""

    plan: PrefixPlan
    source: CallEntry | None
    recipe: Recipe
    store_root: Path

    def stamp(self) -> str:
        return stamp(VERSION, self.plan.prefix_id, self.recipe.digest())


def encode_prefix(job: PrefixJob) -> tuple[int, int]:
    """Encode one prefix into the ledger; returns its voice frames and role pieces.

    Raises CallRefused for a prefix that fills the model's context, UsageError for a voice without sound.
    """
    ledger = Ledger(job.store_root)
    if ledger.done(KIND, job.plan.prefix_id, job.stamp()) is None:
        prefix = make_prefix(job)
        with ledger.result(KIND, job.plan.prefix_id, job.stamp()) as folder:
            save_streams(folder, {s.name: getattr(prefix, s.name) for s in stored_in("prefixes")})
            np.save(
                folder / "layout.npy",
                np.array([prefix.layout.voice_frames, len(prefix.layout.role_pieces)]),
                allow_pickle=False,
            )
    layout = np.load(ledger.folder(KIND, job.plan.prefix_id) / "layout.npy", allow_pickle=False)
    return int(layout[0]), int(layout[1])


def read_encoded(job: PrefixJob) -> dict[str, np.ndarray]:
    """The streams of a prefix of P frames, [P] or [P, width], as `encode_prefix` left them."""
    return load_streams(Ledger(job.store_root).folder(KIND, job.plan.prefix_id), "prefixes")


def make_prefix(job: PrefixJob) -> Prefix:
    """The prefix of one plan."""
    mimi = tools.codec(job.recipe.codec.id)
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


def _voice_samples(job: PrefixJob) -> np.ndarray:
    voice = job.plan.voice
    assert voice is not None
    if voice.path is not None:
        given = open_audio(Path(voice.path))
        mono = np.concatenate([block.mean(axis=0) for block in given.blocks()])
        return resample(mono, given.sample_rate_hz)[: _limit_samples(job.recipe)]
    assert job.source is not None
    first, last = us_to_samples(voice.start_us), us_to_samples(voice.end_us)
    kept, at = [], 0
    source = ready_call(job.source, job.recipe, job.store_root).entry
    for chunk in resolve_channels(source.audio, source.channels).stream("agent"):
        kept.append(chunk[max(first - at, 0) : max(last - at, 0)])
        at += len(chunk)
        if at >= last:
            break
    return np.concatenate(kept)


def _limit_samples(recipe: Recipe) -> int:
    assert recipe.prefix is not None
    return int(recipe.prefix.voice_max_s * SAMPLE_RATE_HZ) // FRAME_SAMPLES * FRAME_SAMPLES
