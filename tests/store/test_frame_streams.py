"""The table of streams: everything about a stream follows from its line, shown by adding one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import inkplex_data as ink
from inkplex_data.errors import StoreCorruptError, UsageError
from inkplex_data.grid import CODEBOOKS, MASK_AGENT, MASK_CALLER, MASK_TEXT
from inkplex_data.loader import make_loader
from inkplex_data.pipeline.planning.sharding import call_bytes
from inkplex_data.pipeline.result_files import load_result, save_result
from inkplex_data.store import frame_streams
from inkplex_data.store.call import StoredPrefix
from inkplex_data.store.describe import write_description
from inkplex_data.store.frame_streams import STREAMS, Column, FrameStream, batch_tensors
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.shard import CallPart, CallShardWriter, PrefixShardWriter
from inkplex_data.store.verify import verify_store
from tests.store.made import call_part

FRAMES, PREFIX_FRAMES = 30, 5
FILL = 7


def added(width: int | None, *, dtype: str = "int16", in_prefix: bool = False) -> FrameStream:
    """The one line."""
    return FrameStream(
        "pitch",
        dtype,
        width,
        FILL,
        in_prefix=in_prefix,
        columns=(Column("pitch"),),
        tensor=("pitch", dtype),
    )


def values(stream: FrameStream, frames: int) -> np.ndarray:
    shape = (frames, *stream.frame_shape)
    return np.random.default_rng(frames).integers(-100, 100, shape).astype(stream.dtype)


def part_with(stream: FrameStream) -> CallPart:
    part = call_part("a", FRAMES, prefix_id="p")
    return replace(part, streams={**part.streams, stream.name: values(stream, FRAMES)})


def prefix_streams(stream: FrameStream) -> dict[str, np.ndarray]:
    part = call_part("p", PREFIX_FRAMES)
    every = {**part.streams, stream.name: values(stream, PREFIX_FRAMES)}
    return {of_prefix.name: every[of_prefix.name] for of_prefix in frame_streams.stored_in("prefixes")}


def write_store(root: Path, part: CallPart, prefix: dict[str, np.ndarray]) -> None:
    write_description(root, {})
    with PrefixShardWriter(root, 0) as prefixes:
        prefixes.add({"prefix_id": "p"}, prefix)
        prefixes.publish()
    with CallShardWriter(root, 0) as calls:
        calls.add(part)
        calls.publish()
    publish_snapshot(root)


@pytest.mark.parametrize("in_prefix", [False, True])
@pytest.mark.parametrize(
    ("dtype", "width"), [("int16", None), ("int16", 3), ("float32", 80), ("float16", None)]
)
def test_a_stream_is_added_by_one_line_and_a_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, width: int | None, in_prefix: bool
) -> None:
    before_bytes = call_bytes(frames=FRAMES, words=0, tokens=0)
    stream = added(width, dtype=dtype, in_prefix=in_prefix)
    monkeypatch.setattr(frame_streams, "STREAMS", (*STREAMS, stream))

    # Its values, which the producer gives, go through the files between workers and into a shard.
    part = part_with(stream)
    stored = part.streams["pitch"]
    (tmp_path / "part").mkdir()
    save_result(tmp_path / "part", part)
    write_store(tmp_path / "store", load_result(tmp_path / "part", CallPart), prefix_streams(stream))
    assert call_bytes(frames=FRAMES, words=0, tokens=0) == before_bytes + stored.nbytes

    array = zarr.open_array(tmp_path / "store/calls/000000/arrays.zarr/pitch", mode="r")
    assert array.dtype == dtype and np.array_equal(array[:], stored)
    assert (tmp_path / "store/prefixes/000000/arrays.zarr/pitch").exists() == in_prefix
    assert verify_store(tmp_path / "store") == []

    store = ink.open_store(tmp_path / "store")
    shown = store.frames().collect()
    assert shown.columns[-1] == "pitch" and np.array_equal(shown["pitch"].to_numpy(), stored)
    of_value = pl.Series(np.empty(0, dtype)).dtype
    assert shown.schema["pitch"] == (of_value if width is None else pl.Array(of_value, width))

    call = store.call("a")
    assert np.array_equal(call.stream("pitch"), stored.T)
    composed = call.with_prefix()
    front = values(stream, PREFIX_FRAMES) if in_prefix else stream.unknown(PREFIX_FRAMES)
    expected = np.concatenate([front, stored]).T
    assert expected.shape[-1] == PREFIX_FRAMES + FRAMES
    assert np.array_equal(composed.stream("pitch"), expected)

    loader = make_loader(store, "train", seed=0, shuffle=False, workers=0, window_frames=20)
    windows = list(loader)
    assert [window.window for window in windows] == [(0, 20), (20, 30)]
    for window in windows:
        first, stop = window.window
        frames = [*range(PREFIX_FRAMES), *range(PREFIX_FRAMES + first, PREFIX_FRAMES + stop)]
        assert np.array_equal(window.streams["pitch"].numpy(), expected[..., frames])
        assert "pitch" in dict(window.tensors())
        copy = window.on(window.block().clone())
        assert copy.streams["pitch"].equal(window.streams["pitch"])
    # The objective asks for none of it.
    assert set(loader.targets(0).streams) == {"codes", "roles", "mask"}

    (tmp_path / "store/calls/000000/arrays.zarr/pitch/zarr.json").unlink()
    assert {fault.code for fault in verify_store(tmp_path / "store")} == {"missing-file", "damaged"}


def test_a_builder_gives_every_stream_that_is_not_optional(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = added(3)
    part = call_part("a", FRAMES, prefix_id="p")
    monkeypatch.setattr(frame_streams, "STREAMS", (*STREAMS, stream))
    with CallShardWriter(tmp_path / "refused", 0) as writer, pytest.raises(UsageError, match="pitch"):
        writer.add(part)
    monkeypatch.setattr(frame_streams, "STREAMS", (*STREAMS, replace(stream, optional=True)))
    write_store(tmp_path / "store", part, prefix_streams(stream))
    assert (ink.open_store(tmp_path / "store").call("a").stream("pitch") == FILL).all()


def test_a_store_from_before_a_stream_says_that_it_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = added(None)
    write_store(tmp_path, call_part("a", FRAMES, prefix_id="p"), prefix_streams(stream))
    monkeypatch.setattr(frame_streams, "STREAMS", (*STREAMS, stream))
    call = ink.open_store(tmp_path).call("a")
    assert call.text.shape == (FRAMES,)
    with pytest.raises(StoreCorruptError, match="metadata is missing"):
        call.stream("pitch")


def test_a_stream_of_numbers_that_no_array_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_streams, "STREAMS", (*STREAMS, added(None, dtype="complex64")))
    with pytest.raises(UsageError, match="'pitch' cannot hold complex64"):
        CallShardWriter(tmp_path, 0)


def test_the_names_of_streams_are_listed_for_a_wrong_one() -> None:
    with pytest.raises(UsageError, match="The streams are role, text, codes, mask, level"):
        StoredPrefix.none().stream("tempo")


def test_what_is_derived_of_the_streams_there_are() -> None:
    assert frame_streams.frame_bytes() == 1 + 4 + 16 * 2 + 1 + 2
    assert {tensor.name: (tensor.dtype, tensor.shape(9)) for tensor in batch_tensors()} == {
        "roles": ("uint8", (9,)),
        "codes": ("int64", (1 + 2 * CODEBOOKS, 9)),
        "mask": ("uint8", (9,)),
    }
    assert sum(tensor.frame_bytes for tensor in batch_tensors()) == 17 * 8 + 2
    bits = [MASK_TEXT, *[MASK_AGENT] * CODEBOOKS, *[MASK_CALLER] * CODEBOOKS]
    assert frame_streams.mask_bits("codes") == bits
    assert frame_streams.mask_bits("roles") == []


@settings(max_examples=30, deadline=None)
@given(
    widths=st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=1, max_size=4),
    prefix_frames=st.integers(0, 4),
    frames=st.integers(0, 5),
)
def test_a_batch_tensor_holds_its_streams_one_below_the_other(
    widths: list[int | None], prefix_frames: int, frames: int
) -> None:
    """Against stacking the rows of each stream, prefix and window, in plain lists."""
    streams = [
        FrameStream(f"s{i}", "int16", width, i, tensor=("t", "int32")) for i, width in enumerate(widths)
    ]
    stored = {stream.name: values(stream, frames) for stream in streams}
    # The first stream is stored in the prefix, the others are filled.
    front = {"s0": values(streams[0], prefix_frames)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_streams, "STREAMS", tuple(streams))
        [tensor] = batch_tensors()
        out = np.full(tensor.shape(prefix_frames + frames), -1, tensor.dtype)
        tensor.fill(out, StoredPrefix({}, front), stored.__getitem__)
    rows = []
    for stream in streams:
        whole = [
            *front.get(stream.name, stream.unknown(prefix_frames)).tolist(),
            *stored[stream.name].tolist(),
        ]
        rows += (
            [whole]
            if stream.width is None
            else [[frame[row] for frame in whole] for row in range(stream.width)]
        )
    assert out.tolist() == (rows[0] if widths == [None] else rows)
