"""One full-size Mimi with random weights for all speech tests, and real speech that it was not fitted to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
import torch

from inkplex_data.speech.codec import load_codec
from inkplex_data.speech.codec_mimi import MimiCodec

# Tests run side by side; more threads than cores only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def untrained_codec() -> MimiCodec:
    return load_codec("untrained:0")


@pytest.fixture(scope="session")
def caller_speech(real_data: Path) -> np.ndarray:
    """Eight seconds of a real telephone caller, float32 [192000] at 24 kHz."""
    path = real_data / "calls" / "Auto_Repairs_40_UTC_caller.wav"
    samples, rate_hz = soundfile.read(path, start=20 * 8_000, frames=8 * 8_000, dtype="float32")
    return soxr.resample(samples, rate_hz, 24_000).astype(np.float32)
