from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.dmel import HOP_SAMPLES, DmelStream, dmel, mel_filters
from inkplex_data.audio.resample import resample

REAL = ("calls/Auto_Repairs_40_UTC_caller.wav", "mono/dev00.wav", "mono/input_service.wav", "calls/multi.wav")


@pytest.fixture(scope="module")
def reference() -> Any:
    """Bins of one clip at 16 kHz by transformers' feature extractor and processor."""
    torch = pytest.importorskip("torch")
    inkling = pytest.importorskip("transformers.models.inkling.feature_extraction_inkling")
    processing = pytest.importorskip("transformers.models.inkling.processing_inkling")
    torch.set_num_threads(1)
    extractor = inkling.InklingFeatureExtractor()
    # The quantiser reads these three attributes only; a whole processor needs a checkpoint's tokenizer.
    centres = torch.linspace(-7.0, 2.0, 16, dtype=torch.float64).to(torch.float32)
    limits = SimpleNamespace(dmel_min_value=-7.0, dmel_max_value=2.0, bin_centers=centres)

    def bins(samples: np.ndarray) -> np.ndarray:
        features = extractor([samples], sampling_rate=16_000)["input_features"]
        return processing.InklingProcessor._extract_dmel_bins(limits, features)[0].numpy()

    bins.filters = extractor.mel_filters.numpy()
    return bins


def load(path: Path, limit_s: float = 60) -> tuple[np.ndarray, int]:
    samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    return np.ascontiguousarray(samples[: int(limit_s * rate_hz), 0]), rate_hz


def test_the_filters_are_those_of_transformers(reference: Any) -> None:
    assert np.array_equal(mel_filters(), reference.filters)


@pytest.mark.parametrize("name", REAL)
def test_equals_transformers_bin_for_bin(reference: Any, real_data: Path, name: str) -> None:
    samples, rate_hz = load(real_data / name)
    ours = dmel(samples, rate_hz)
    assert len(ours) > 50
    assert len(np.unique(ours)) > 6
    assert np.array_equal(ours, reference(resample(samples, rate_hz, 16_000)))


@pytest.mark.parametrize("name", REAL)
def test_ten_random_splits_equal_one_pass(real_data: Path, name: str) -> None:
    samples, rate_hz = load(real_data / name, limit_s=6)
    whole = dmel(samples, rate_hz)
    rng = np.random.default_rng(0)
    stream = DmelStream(rate_hz)
    for _ in range(10):
        cuts = np.sort(rng.integers(0, len(samples) + 1, rng.integers(1, 200)))
        rows = [stream.push(piece) for piece in np.split(samples, cuts)]
        assert np.array_equal(np.concatenate([*rows, stream.finish()]), whole)


def test_80_ms_pushes_do_not_pad_in_between() -> None:
    # Five frames of 1,280 samples are eight hops; padding each frame would give ten rows.
    samples = np.random.default_rng(0).normal(0, 0.1, 6_400).astype(np.float32)
    stream = DmelStream()
    rows = [len(stream.push(samples[at : at + 1_280])) for at in range(0, 6_400, 1_280)]
    assert rows == [1, 2, 1, 2, 2]
    assert len(stream.finish()) == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 4_000), st.lists(st.integers(0, 4_000), max_size=5))
def test_any_length_and_split(reference: Any, samples: int, cuts: list[int]) -> None:
    noise = np.random.default_rng(samples).normal(0, 0.1, samples).astype(np.float32)
    stream = DmelStream()
    rows = [stream.push(piece) for piece in np.split(noise, sorted(min(cut, samples) for cut in cuts))]
    found = np.concatenate([*rows, stream.finish()])
    assert found.shape == (-(-samples // HOP_SAMPLES), 80)
    assert found.dtype == np.uint8
    if samples:
        assert np.array_equal(found, reference(noise))


def test_a_finished_stream_starts_afresh() -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, 5_000).astype(np.float32)
    stream = DmelStream(24_000)
    first = np.concatenate([stream.push(samples), stream.finish()])
    assert np.array_equal(np.concatenate([stream.push(samples), stream.finish()]), first)


def test_pcm16_is_scaled_and_silence_is_steady() -> None:
    pcm = np.random.default_rng(0).integers(-3_000, 3_000, 4_000).astype(np.int16)
    assert np.array_equal(dmel(pcm), dmel(pcm.astype(np.float32) / 32_768))
    assert np.array_equal(np.unique(dmel(np.zeros(4_000, np.int16)), axis=0), dmel(np.zeros(800, np.int16)))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((2, 800), np.float32), r"shape \(2, 800\)"),
        (np.zeros(800, np.int32), "int32"),
        (np.array([0.0, np.nan]), "NaN"),
    ],
)
def test_what_is_no_audio_is_refused(samples: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dmel(samples)
    with pytest.raises(ValueError, match="0 Hz"):
        DmelStream(0)


def test_the_module_loads_without_torch() -> None:
    code = "import sys, inkplex_data.audio.dmel; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
