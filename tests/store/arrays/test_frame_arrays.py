"""Frame arrays against plain slices and zarr-python, and what damage gets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.errors import StoreCorruptError, UsageError
from inkplex_data.store.arrays import frame_arrays
from inkplex_data.store.arrays.frame_arrays import FRAME_CHUNK, FrameArrayReader, FrameArraysWriter
from inkplex_data.store.files import LocalFiles
from inkplex_data.store.frame_streams import array_layout


def values(frames: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(frames)
    return {
        "codes": rng.integers(0, 2048, (frames, 16)).astype(np.uint16),
        "text": rng.integers(-2, 32_000, frames).astype(np.int32),
        "role": np.zeros(frames, np.uint8),  # chunks of zeros are written like any other
        "mask": rng.integers(0, 8, frames).astype(np.uint8),
        "level": rng.integers(-120, 1, (frames, 2)).astype(np.int8),
    }


def write(folder: Path, made: dict[str, np.ndarray], pieces: list[int]) -> None:
    writer = FrameArraysWriter(folder, array_layout("calls"))
    start = 0
    for rows in [*pieces, len(made["role"])]:
        writer.append(**{name: value[start : start + rows] for name, value in made.items()})
        start = min(start + rows, len(made["role"]))
    writer.close()


@settings(max_examples=25, deadline=None)
@given(
    frames=st.integers(0, 60),
    pieces=st.lists(st.integers(0, 30), max_size=5),
    cuts=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_any_pieces_and_any_range(
    tmp_path_factory: pytest.TempPathFactory, frames: int, pieces: list[int], cuts: tuple[int, int]
) -> None:
    made, folder = values(frames), tmp_path_factory.mktemp("arrays")
    start, stop = sorted(min(cut, frames) for cut in cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_arrays, "FRAME_CHUNK", 16)
        write(folder, made, pieces)
        for name, value in made.items():
            array = FrameArrayReader(LocalFiles(folder), name)
            assert array.shape == value.shape and array.dtype == value.dtype
            assert np.array_equal(array.read(start, stop), value[start:stop])
            assert np.array_equal(array.read(0, frames), value)


def test_zarr_python_reads_ours_and_we_read_theirs(tmp_path: Path) -> None:
    frames = FRAME_CHUNK + 100
    made = values(frames)
    write(tmp_path / "own", made, [70, 4096])
    group = zarr.open_group(tmp_path / "own", mode="r")
    assert sorted(group.array_keys()) == sorted(made)
    theirs = zarr.create_group(tmp_path / "theirs")
    for name, value in made.items():
        assert np.array_equal(group[name][:], value)
        array = theirs.create_array(
            name,
            shape=value.shape,
            chunks=(FRAME_CHUNK, *value.shape[1:]),
            dtype=value.dtype,
            compressors=[zarr.codecs.ZstdCodec(level=3), zarr.codecs.Crc32cCodec()],
            config={"write_empty_chunks": True},
        )
        array[:] = value
        own, other = (
            json.loads((tmp_path / who / name / "zarr.json").read_text()) for who in ("own", "theirs")
        )
        assert own == other
        read = FrameArrayReader(LocalFiles(tmp_path / "theirs"), name)
        assert np.array_equal(read.read(0, frames), value)
    assert (tmp_path / "own/role/c/1").is_file()


def test_every_kind_of_damage_has_its_own_message(tmp_path: Path) -> None:
    frames = FRAME_CHUNK + 100
    write(tmp_path, values(frames), [])
    array = FrameArrayReader(LocalFiles(tmp_path), "codes")
    chunk = tmp_path / "codes/c/1/0"
    whole = chunk.read_bytes()
    seen = []

    def message(start: int = 0) -> str:
        with pytest.raises(StoreCorruptError) as caught:
            array.read(start, frames)
        assert caught.value.where == str(chunk)
        return caught.value.what

    for position in (0, len(whole) // 2, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        chunk.write_bytes(damaged)
        assert "frames 4,096 to 4,195 has a wrong checksum" in message()
    seen.append(message())
    for keep in (0, 3, 5, len(whole) - 1):
        chunk.write_bytes(whole[:keep])
        assert "wrong checksum" in message()
    chunk.unlink()
    seen.append(message())
    assert "frames 4,096 to 4,195 is missing" in seen[-1]
    # A chunk of another size with a right checksum: its content is bounded by the format, not by itself.
    other = FrameArraysWriter(tmp_path / "bomb", {"codes": ("uint16", (512,))})
    other.append(codes=np.zeros((FRAME_CHUNK, 512), np.uint16))
    chunk.write_bytes((tmp_path / "bomb/codes/c/0/0").read_bytes())
    seen.append(message())
    assert "does not decompress" in seen[-1]
    assert len(set(seen)) == 3
    # The chunk before it is still there.
    assert array.read(0, FRAME_CHUNK).shape == (FRAME_CHUNK, 16)


def test_missing_or_foreign_metadata(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    with pytest.raises(StoreCorruptError, match="metadata is missing"):
        FrameArrayReader(files, "codes")
    write(tmp_path, values(10), [])
    document = json.loads((tmp_path / "codes/zarr.json").read_text())
    document["chunk_grid"]["configuration"]["chunk_shape"][0] = 2**40
    (tmp_path / "codes/zarr.json").write_text(json.dumps(document))
    with pytest.raises(StoreCorruptError, match="not those of a frame array"):
        FrameArrayReader(files, "codes")
    with pytest.raises(StoreCorruptError, match="has 10 frames, not 5 to 11"):
        FrameArrayReader(files, "text").read(5, 11)


@pytest.mark.parametrize(
    "change",
    [
        {"text": np.zeros(4, np.int64)},
        {"codes": np.zeros((4, 8), np.uint16)},
        {"role": np.zeros(5, np.uint8)},
        {"other": np.zeros(4, np.uint8)},
    ],
)
def test_refuses_what_does_not_fit_and_writes_nothing(tmp_path: Path, change: dict[str, np.ndarray]) -> None:
    writer = FrameArraysWriter(tmp_path, array_layout("calls"))
    with pytest.raises(UsageError):
        writer.append(**(values(4) | change))
    assert writer.frames == 0
