"""What generated speech sounds like: heard words, level, silence, clipping, repetition, and whose voice it is."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.audio.loudness import BLOCK_S, loudness_lufs
from inkplex_data.audio.resample import resample
from inkplex_data.clock import FRAME_SAMPLES, SAMPLE_RATE_HZ
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, TimedWord
from inkplex_data.speech.align.packing import RATE_HZ
from inkplex_data.speech.check.agreement import measure
from inkplex_data.speech.check.scorer import WhisperScorer
from inkplex_data.trainer.evaluate.said_words import repeated_phrases

CLIPPED = 0.999
QUIET_DB = -50.0
VOICE_STEPS = 160
"""Windows of 1.6 s for voice embeddings, as the encoder was trained with."""

HEARD: dict[str, pl.DataType] = {
    "call_id": pl.String(),
    "system": pl.String(),
    "branch": pl.String(),
    "origin": pl.String(),
    "words": pl.Int64(),
    "wer": pl.Float64(),
    "loudness_lufs": pl.Float64(),
    "silent": pl.Float64(),
    "clipped": pl.Float64(),
    "repeated_phrases": pl.Int64(),
    "voice": pl.Float64(),
}
"""One row for each run that was decoded. wer: word errors against its own text stream, null without words. silent, clipped:
shares of frames below −50 dBFS, and of samples at full scale. voice: cosine of its embedding with that of the prefix, null where either
is too short. origin: of the agent's sound in the call, as its sidecar says."""

HEARD_SUMMARY: dict[str, pl.DataType] = {
    "system": pl.String(),
    "origin": pl.String(),
    "runs": pl.Int64(),
    **{name: pl.Float64() for name in HEARD if name not in ("call_id", "system", "branch", "origin")},
}
"""Means over the runs of a system and origin, words and repeats too."""


def heard(
    samples: NDArray[np.float32],
    said: list[tuple[int, str]],
    voice: NDArray[np.float32] | None,
    scorer: WhisperScorer,
) -> dict[str, float | int | None]:
    """The measures of `HEARD` of one run. samples: float32 [n] at 24 kHz, the agent from the first free frame on; said: its
    words, µs from there; voice: the prefix's sample at 24 kHz."""
    duration_us = len(samples) * 1_000_000 // SAMPLE_RATE_HZ
    words = [
        TimedWord(text, at, min(end, duration_us), SPEAKER_MAIN, None, "generated")
        for (at, text), end in zip(said, [*(at for at, _ in said[1:]), duration_us], strict=True)
        if at < min(end, duration_us)
    ]
    measured = measure(resample(samples, SAMPLE_RATE_HZ, RATE_HZ), words, scorer) if words else None
    long_enough = len(samples) >= BLOCK_S * SAMPLE_RATE_HZ
    frames = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    rms_db = 20 * np.log10(np.sqrt(np.square(frames, dtype=np.float64).mean(axis=1)) + 1e-9)
    loudness = loudness_lufs(samples, SAMPLE_RATE_HZ) if long_enough else None
    return {
        "words": len(said),
        "wer": None if measured is None else measured.wer,
        "loudness_lufs": loudness if loudness is not None and np.isfinite(loudness) else None,
        "silent": float((rms_db < QUIET_DB).mean()) if len(rms_db) else None,
        "clipped": float((abs(samples) >= CLIPPED).mean()) if len(samples) else None,
        "repeated_phrases": repeated_phrases([text for _, text in said]),
        "voice": None if voice is None else voice_similarity(samples, voice),
    }


def voice_similarity(samples: NDArray[np.float32], voice: NDArray[np.float32]) -> float | None:
    """Cosine of the mean voice embeddings of two sounds at 24 kHz; None where either is shorter than a window."""
    from inkplex_data.speech.diarize.embedding import voice_embeddings

    means = []
    for sound in (samples, voice):
        narrow = resample(sound, SAMPLE_RATE_HZ, RATE_HZ)
        steps = len(narrow) // 160
        if steps < VOICE_STEPS:
            return None
        vectors = voice_embeddings(
            narrow, np.arange(0, steps - VOICE_STEPS + 1, VOICE_STEPS // 2), VOICE_STEPS
        )
        mean = vectors.mean(axis=0)
        means.append(mean / (np.linalg.norm(mean) + 1e-9))
    return float(means[0] @ means[1])


def summarise_heard(rows: Iterable[dict[str, object]]) -> pl.DataFrame:
    """`HEARD_SUMMARY` of rows of `HEARD`: recorded and synthetic origins apart."""
    table = pl.DataFrame(list(rows), schema=HEARD)
    measures = [name for name in HEARD_SUMMARY if name not in ("system", "origin", "runs")]
    grouped = table.group_by("system", "origin", maintain_order=True).agg(
        pl.len().alias("runs"), *(pl.col(name).mean() for name in measures)
    )
    return grouped.select(pl.col(name).cast(dtype) for name, dtype in HEARD_SUMMARY.items())
