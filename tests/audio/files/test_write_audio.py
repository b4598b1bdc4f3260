"""Written files are read back by libsndfile, are whole or absent, and depend on the samples alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.files.declared_length import LengthClaim, read_claim
from inkplex_data.audio.files.write_audio import write_flac, write_wav
from inkplex_data.errors import UsageError
from tests.audio.made import noise


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("kind", ["wav16", "wav32", "flac16", "flac24"])
def test_what_was_written_reads_back(tmp_path: Path, kind: str, channels: int) -> None:
    samples = noise(5_001, channels)
    path = tmp_path / "name with, spaces: and ünicode"
    if kind.startswith("wav"):
        written = write_wav(path, samples, 24_000, subtype="PCM_16" if kind == "wav16" else "FLOAT")
        assert read_claim(path) == LengthClaim(5_001)
    else:
        written = write_flac(path, samples, 24_000, bits=16 if kind == "flac16" else 24)
    back, rate = soundfile.read(path, dtype="float32", always_2d=True)
    assert (written, rate) == (5_001, 24_000)
    assert np.array_equal(back.T, samples)  # the samples lie on the 16-bit grid


@pytest.mark.parametrize("write", [write_wav, write_flac])
def test_sixteen_bits_round_to_the_nearest_and_clip(tmp_path: Path, write: object) -> None:
    values = np.float32([0.4 / 32768, 0.6 / 32768, 1.0, -1.0, 7.0, -7.0])
    write(tmp_path / "a", values, 8_000)  # type: ignore[operator]
    back, _ = soundfile.read(tmp_path / "a", dtype="int16")
    assert back.tolist() == [0, 1, 32767, -32768, 32767, -32768]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 6_000), max_size=5))
def test_bytes_do_not_depend_on_chunks(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    folder = tmp_path_factory.mktemp("chunks")
    samples = noise(9_000, 2)
    ends = np.cumsum(sizes)
    parts = np.split(samples, ends[ends < 9_000], axis=1)
    for suffix, write, options in (
        ("wav", write_wav, {}),
        ("wav", write_wav, {"subtype": "FLOAT"}),
        ("flac", write_flac, {}),
    ):
        write(folder / f"whole.{suffix}", samples, 24_000, **options)
        write(folder / f"parts.{suffix}", iter(parts), 24_000, **options)
        assert (folder / f"whole.{suffix}").read_bytes() == (folder / f"parts.{suffix}").read_bytes()


@pytest.mark.parametrize("write", [write_wav, write_flac])
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, write: object) -> None:
    def failing() -> Iterator[np.ndarray]:
        yield noise(10_000, 1)[0]
        raise RuntimeError("power cut")

    path = tmp_path / "a.x"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="power cut"):
        write(path, failing(), 24_000)  # type: ignore[operator]
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
    for write in (write_wav, write_flac):
        with pytest.raises(UsageError, match=said):
            write(tmp_path / "a", samples, 24_000)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_no_samples_make_an_empty_file(tmp_path: Path) -> None:
    assert write_wav(tmp_path / "a.wav", [], 24_000) == 0
    assert soundfile.info(tmp_path / "a.wav").frames == 0
