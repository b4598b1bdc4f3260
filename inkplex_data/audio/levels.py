"""How loud a channel is, frame by frame, for timelines and for finding who speaks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.blocks import rechunk
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.clock import FRAME_SAMPLES

FLOOR_DB = -120.0
_BATCH_FRAMES = 500


def to_db(mean_square: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """dBFS of mean squares, 0 dB being a mean square of 1; nothing lies below FLOOR_DB."""
    return 10.0 * np.log10(np.maximum(np.asarray(mean_square, np.float64), 10.0 ** (FLOOR_DB / 10.0)))


def frame_energy_db(chunks: Iterable[Samples]) -> npt.NDArray[np.float32]:
    """RMS level in dBFS of every 80 ms frame of one 24 kHz channel: float32 [F], F = ceil(samples / 1,920).

    `chunks` are float32 [n] of any sizes; their borders do not matter. A last frame that is not full counts
    its own samples only. Digital silence is FLOOR_DB.
    """
    levels = [np.zeros(0, np.float32)]
    for batch in rechunk(chunks, _BATCH_FRAMES * FRAME_SAMPLES):
        squares = np.square(batch, dtype=np.float64)
        whole = len(squares) - len(squares) % FRAME_SAMPLES
        levels.append(to_db(squares[:whole].reshape(-1, FRAME_SAMPLES).mean(axis=1)).astype(np.float32))
        if whole < len(squares):
            levels.append(to_db([squares[whole:].mean()]).astype(np.float32))
    return np.concatenate(levels)
