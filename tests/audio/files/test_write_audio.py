"""Written files are read back by libsndfile, are whole or absent, and depend on the samples alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.files.declared_length import LengthClaim, read_claim
from inkplex_data.audio.files.write_audio import write_wav
from inkplex_data.errors import UsageError
from tests.audio.made import noise


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("subtype", ["PCM_16", "FLOAT"])
def test_what_was_written_reads_back(
    tmp_path: Path, subtype: Literal["PCM_16", "FLOAT"], channels: int
) -> None:
    samples = noise(5_001, channels)
    path = tmp_path / "name with, spaces: and ünicode"
    written = write_wav(path, samples, 24_000, subtype=subtype)
    assert read_claim(path) == LengthClaim(5_001)
    back, rate = soundfile.read(path, dtype="float32", always_2d=True)
    assert (written, rate) == (5_001, 24_000)
    assert np.array_equal(back.T, samples)  # the samples lie on the 16-bit grid


def test_sixteen_bits_round_to_the_nearest_and_clip(tmp_path: Path) -> None:
    values = np.float32([0.4 / 32768, 0.6 / 32768, 1.0, -1.0, 7.0, -7.0])
    write_wav(tmp_path / "a", values, 8_000)
    back, _ = soundfile.read(tmp_path / "a", dtype="int16")
    assert back.tolist() == [0, 1, 32767, -32768, 32767, -32768]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 6_000), max_size=5))
def test_bytes_do_not_depend_on_chunks(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    folder = tmp_path_factory.mktemp("chunks")
    samples = noise(9_000, 2)
    ends = np.cumsum(sizes)
    parts = np.split(samples, ends[ends < 9_000], axis=1)
    subtypes: tuple[Literal["PCM_16", "FLOAT"], ...] = ("PCM_16", "FLOAT")
    for subtype in subtypes:
        write_wav(folder / "whole.wav", samples, 24_000, subtype=subtype)
        write_wav(folder / "parts.wav", iter(parts), 24_000, subtype=subtype)
        assert (folder / "whole.wav").read_bytes() == (folder / "parts.wav").read_bytes()


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def failing() -> Iterator[np.ndarray]:
        yield noise(10_000, 1)[0]
        raise RuntimeError("power cut")

    path = tmp_path / "a.x"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="power cut"):
        write_wav(path, failing(), 24_000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (np.float32([0.0, np.nan]), "NaN"),
        (np.int16([1, 2]), "floats"),
        (np.zeros((1, 1, 1), np.float32), "shape"),
        ([np.zeros(3, np.float32), np.zeros((2, 3), np.float32)], "shape"),
    ],
)
def test_samples_that_make_no_sense_are_refused(tmp_path: Path, samples: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        write_wav(tmp_path / "a", samples, 24_000)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_no_samples_make_an_empty_file(tmp_path: Path) -> None:
    assert write_wav(tmp_path / "a.wav", [], 24_000) == 0
    assert soundfile.info(tmp_path / "a.wav").frames == 0
