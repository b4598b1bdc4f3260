"""Where there is speech, by silero-vad. Times are int64 microseconds."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.turns import Intervals
from inkplex_data.clock import US_PER_S
from inkplex_data.libraries import require

RATE_HZ: Final = 16_000
THRESHOLD: Final = 0.5
"""Probability from which a window is speech: the value silero-vad is published with."""


def speech_intervals(samples: npt.NDArray[np.float32]) -> Intervals:
    """Stretches of speech in float32 [n] at 16 kHz: int64 [k, 2] µs, sorted, disjoint, inside the audio.

    Each is widened by 60 ms on both sides, because the detector wakes up within the first sound.
    Raises MissingLibraryError.
    """
    import torch

    silero = require("silero_vad", extra="align", needed_for="finding speech")
    if not len(samples):
        return np.zeros((0, 2), np.int64)
    with torch.no_grad():
        found = silero.get_speech_timestamps(
            torch.from_numpy(np.ascontiguousarray(samples, np.float32)),
            _model(),
            sampling_rate=RATE_HZ,
            threshold=THRESHOLD,
            min_speech_duration_ms=150,
            min_silence_duration_ms=200,
            speech_pad_ms=60,
        )
    edges = np.array([[part["start"], part["end"]] for part in found], np.int64).reshape(-1, 2)
    return np.minimum(edges, len(samples)) * US_PER_S // RATE_HZ


def speech_probability(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The detector's probability for each 32 ms (512 samples at 16 kHz): float32 [ceil(n / 512)]."""
    import torch

    model = _model()
    model.reset_states()
    padded = np.pad(np.asarray(samples, np.float32), (0, -len(samples) % 512))
    with torch.no_grad():
        found = [float(model(torch.from_numpy(window.copy()), RATE_HZ)) for window in padded.reshape(-1, 512)]
    return np.array(found, np.float32)


@cache
def _model() -> Any:
    import torch

    threads = torch.get_num_threads()
    with warnings.catch_warnings():
        # The detector is a TorchScript file, which newer torch versions announce to retire.
        warnings.simplefilter("ignore")
        model = require("silero_vad", extra="align", needed_for="finding speech").load_silero_vad(onnx=False)
    # silero-vad sets the whole process to one thread when it is imported and loaded.
    torch.set_num_threads(threads)
    return model
