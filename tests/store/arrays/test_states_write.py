"""The states array against zarr-python in both directions, and what damage gets: an error, never zeros."""

from __future__ import annotations

import json
import os
import pickle
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.errors import StoreCorruptError, UsageError
from inkplex_data.store.arrays.states_write import StatesReader, StatesWriter, as_bits
from inkplex_data.store.files import open_files
from inkplex_data.store.format import STATES_INNER_ROWS, STATES_SHARD_ROWS

INNER, SHARD, WIDTH = 4, 16, 5


def made(rows: int, width: int = WIDTH) -> np.ndarray:
    states = np.random.default_rng(rows).integers(0, 2**16, (rows, 3, width), dtype=np.uint16)
    states[3:11] = 0  # a whole inner chunk of zeros, which must be stored like any other
    return states


def write(path: Path, states: np.ndarray, pieces: list[int] | None = None) -> None:
    with StatesWriter(path, states.shape[2], inner_rows=INNER, shard_rows=SHARD) as writer:
        start = 0
        for rows in pieces or [len(states)]:
            writer.append(states[start : start + rows])
            start += rows
        writer.append(states[start:])


def zarr_array(path: Path | object, rows: int, width: int, inner: int, shard: int) -> zarr.Array:
    return zarr.create_array(
        path,
        shape=(rows, 3, width),
        chunks=(inner, 3, width),
        shards=(shard, 3, width),
        dtype="uint16",
        compressors=[zarr.codecs.Crc32cCodec()],
        filters=None,
        attributes={"logical_dtype": "bfloat16", "rows": [28, 34, 42]},
        config={"write_empty_chunks": True},
    )


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(0, 70),
    pieces=st.lists(st.integers(0, 20), max_size=8),
    cuts=st.tuples(st.integers(0, 70), st.integers(0, 70)),
)
def test_any_pieces_and_any_range(
    tmp_path_factory: pytest.TempPathFactory, rows: int, pieces: list[int], cuts: tuple[int, int]
) -> None:
    """first pieces + remaining == all, and every range equals the slice."""
    states, path = made(rows), tmp_path_factory.mktemp("states")
    write(path, states, pieces)
    start, stop = sorted(min(cut, rows) for cut in cuts)
    with StatesReader(path) as reader:
        assert reader.shape == states.shape
        assert np.array_equal(reader.read_rows(start, stop), states[start:stop])
        assert np.array_equal(reader.read_rows(0, rows), states)
        assert list(reader.check()) == []


@pytest.mark.parametrize("rows", [1, 4, 15, 16, 17, 50, 64])
def test_same_bytes_as_zarr_python(tmp_path: Path, rows: int) -> None:
    states = made(rows)
    write(tmp_path / "own", states, [3, 9])
    zarr_array(tmp_path / "theirs", rows, WIDTH, INNER, SHARD)[:] = states
    own, theirs = tree(tmp_path / "own"), tree(tmp_path / "theirs")
    assert json.loads(own.pop("zarr.json")) == json.loads(theirs.pop("zarr.json"))
    assert own == theirs
    assert np.array_equal(zarr.open_array(tmp_path / "own", mode="r")[:], states)
    assert np.array_equal(StatesReader(tmp_path / "theirs").read_rows(0, rows), states)


def test_default_geometry_is_that_of_the_format(tmp_path: Path) -> None:
    states = made(STATES_SHARD_ROWS + 70, width=2)
    with StatesWriter(tmp_path / "own", 2) as writer:
        writer.append(states)
    zarr_array(tmp_path / "theirs", len(states), 2, STATES_INNER_ROWS, STATES_SHARD_ROWS)[:] = states
    own, theirs = tree(tmp_path / "own"), tree(tmp_path / "theirs")
    assert {name: own[name] for name in own if name != "zarr.json"} == {
        name: theirs[name] for name in theirs if name != "zarr.json"
    }
    attributes = StatesReader(tmp_path / "own").attributes
    assert attributes == {"logical_dtype": "bfloat16", "rows": [28, 34, 42]}


def test_zarr_python_reads_it_from_an_object_store(tmp_path: Path) -> None:
    states = made(40)
    write(tmp_path / "states", states)
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.put(str(tmp_path / "states"), "/bucket/states", recursive=True)
    remote = StatesReader("states", files=open_files("memory://bucket"))
    try:
        for start, stop in [(0, 40), (5, 6), (14, 18), (39, 40), (7, 7)]:
            assert np.array_equal(remote.read_rows(start, stop), states[start:stop])
        theirs = zarr.open_array("memory://bucket/states", mode="r")
        assert np.array_equal(theirs[:], remote.read_rows(0, 40))
    finally:
        memory.store.clear()


def test_unwritten_chunks_of_zeros_are_an_error(tmp_path: Path) -> None:
    """zarr-python leaves out chunks of zeros by default; a chunk that is not there is never zeros here."""
    path = tmp_path / "sparse"
    array = zarr_array(path, 32, WIDTH, INNER, SHARD)
    states = made(32)
    array.with_config({"write_empty_chunks": False})[:] = states
    with pytest.raises(StoreCorruptError, match=r"inner chunk 1 .*rows 4 and up.* is missing"):
        StatesReader(path).read_rows(0, 8)
    assert np.array_equal(StatesReader(path).read_rows(16, 32), states[16:])


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


@pytest.fixture
def states_folder(tmp_path: Path) -> tuple[Path, np.ndarray]:
    states = made(40)
    write(tmp_path / "states", states)
    return tmp_path / "states", states


def message(path: Path, start: int = 0, stop: int = 40) -> str:
    with pytest.raises(StoreCorruptError) as caught:
        StatesReader(path).read_rows(start, stop)
    assert caught.value.where is not None and caught.value.where.startswith(str(path))
    assert caught.value.next_step
    return caught.value.what


def test_every_kind_of_damage_has_its_own_message(states_folder: tuple[Path, np.ndarray]) -> None:
    path, states = states_folder
    shard, whole = path / "c/1/0/0", (path / "c/1/0/0").read_bytes()
    seen = []

    flip(shard, 10)
    seen.append(message(path))
    assert "inner chunk 0 (states rows 16 to 19) has a wrong checksum" in seen[-1]
    # Other chunks of the same shard stay readable.
    assert np.array_equal(StatesReader(path).read_rows(20, 32), states[20:32])

    shard.write_bytes(whole)
    flip(shard, len(whole) - 9)
    seen.append(message(path))
    assert "index has a wrong checksum" in seen[-1]

    shard.write_bytes(whole[:-30])
    seen.append(message(path))
    assert f"truncated: it has {len(whole) - 30:,} of {len(whole):,} bytes" in seen[-1]

    shard.unlink()
    seen.append(message(path))
    assert "shard file of states rows 16 and up is missing" in seen[-1]
    assert np.array_equal(StatesReader(path).read_rows(0, 16), states[:16])

    (path / "zarr.json").unlink()
    seen.append(message(path))
    assert "zarr.json is missing" in seen[-1]
    assert len(set(seen)) == len(seen)


@settings(max_examples=40, deadline=None)
@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_no_flipped_bit_of_a_shard_goes_unseen(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int
) -> None:
    states, path = made(16), tmp_path_factory.mktemp("flip")
    write(path, states)
    shard = path / "c/0/0/0"
    data = bytearray(shard.read_bytes())
    data[position % len(data)] ^= 1 << bit
    shard.write_bytes(data)
    with pytest.raises(StoreCorruptError):
        StatesReader(path).read_rows(0, 16)


@settings(max_examples=40, deadline=None)
@given(keep=st.integers(0, 10**6))
def test_no_truncation_goes_unseen(tmp_path_factory: pytest.TempPathFactory, keep: int) -> None:
    states, path = made(16), tmp_path_factory.mktemp("cut")
    write(path, states)
    shard = path / "c/0/0/0"
    data = shard.read_bytes()
    shard.write_bytes(data[: keep % len(data)])
    with pytest.raises(StoreCorruptError, match="truncated"):
        StatesReader(path).read_rows(0, 16)


def test_check_names_each_damaged_chunk(states_folder: tuple[Path, np.ndarray]) -> None:
    path, _ = states_folder
    stored = INNER * 3 * WIDTH * 2 + 4
    flip(path / "c/0/0/0", 2 * stored + 1)
    flip(path / "c/0/0/0", 3 * stored + 1)
    (path / "c/2/0/0").unlink()
    found = [error.what for error in StatesReader(path).check()]
    assert len(found) == 3
    assert ["rows 8 to 11" in found[0], "rows 12 to 15" in found[1], "rows 32 and up" in found[2]] == [
        True
    ] * 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fill_value", 1),
        ("data_type", "float32"),
        ("zarr_format", 2),
        ("node_type", "group"),
        ("shape", [40, 3]),
        ("shape", [-1, 3, WIDTH]),
        ("shape", [40, 3, 2**70]),
        ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [15, 3, WIDTH]}}),
        ("chunk_grid", {"name": "rectilinear"}),
        ("chunk_key_encoding", {"name": "v2"}),
        ("codecs", []),
        ("codecs", [{"name": "bytes", "configuration": {"endian": "big"}}]),
        ("codecs", "none"),
        ("storage_transformers", [{"name": "x"}]),
    ],
)
def test_other_metadata_is_refused(states_folder: tuple[Path, np.ndarray], field: str, value: object) -> None:
    path, _ = states_folder
    document = json.loads((path / "zarr.json").read_text())
    document[field] = value
    (path / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(StoreCorruptError):
        StatesReader(path)


@pytest.mark.parametrize("change", ["big endian", "no checksum", "index at start", "compressed"])
def test_other_shard_codecs_are_refused(states_folder: tuple[Path, np.ndarray], change: str) -> None:
    path, _ = states_folder
    document = json.loads((path / "zarr.json").read_text())
    sharding = document["codecs"][0]["configuration"]
    if change == "big endian":
        sharding["codecs"][0]["configuration"]["endian"] = "big"
    elif change == "no checksum":
        sharding["codecs"].pop()
    elif change == "index at start":
        sharding["index_location"] = "start"
    else:
        sharding["codecs"].insert(1, {"name": "zstd", "configuration": {"level": 0, "checksum": False}})
    (path / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(StoreCorruptError, match="codecs"):
        StatesReader(path)


def test_a_claimed_size_takes_no_memory(states_folder: tuple[Path, np.ndarray]) -> None:
    """A metadata file that claims 2^50 rows meets a missing shard before anything is allocated."""
    path, _ = states_folder
    document = json.loads((path / "zarr.json").read_text())
    document["shape"][0] = 2**50
    (path / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(StoreCorruptError, match=r"missing|truncated"):
        StatesReader(path).read_rows(0, 2**50)


def test_reads_into_given_buffers(states_folder: tuple[Path, np.ndarray]) -> None:
    path, states = states_folder
    torch = pytest.importorskip("torch")
    reader = StatesReader(path)
    out = np.empty((20, 3, WIDTH), np.uint16)
    result = reader.read_rows(3, 23, out)
    assert np.shares_memory(result, out) and np.array_equal(out, states[3:23])
    raw = bytearray(out.nbytes)
    reader.read_rows(3, 23, raw)
    assert bytes(raw) == states[3:23].tobytes()
    tensor = torch.empty(20, 3, WIDTH, dtype=torch.bfloat16)
    reader.read_rows(3, 23, tensor)
    assert np.array_equal(tensor.view(torch.int16).numpy().view(np.uint16), states[3:23])
    assert reader.read_rows(4, 4, np.empty((0, 3, WIDTH), np.uint16)).shape == (0, 3, WIDTH)


@pytest.mark.parametrize(
    "out",
    [
        np.empty((19, 3, WIDTH), np.uint16),
        np.empty((20, 3, 2 * WIDTH), np.uint16)[:, :, ::2],
        bytes(20 * 3 * WIDTH * 2),
        [0] * 20,
    ],
)
def test_refuses_buffers_that_do_not_fit(states_folder: tuple[Path, np.ndarray], out: object) -> None:
    with pytest.raises(UsageError):
        StatesReader(states_folder[0]).read_rows(0, 20, out)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 4), (0, 41)])
def test_refuses_ranges_outside(states_folder: tuple[Path, np.ndarray], start: int, stop: int) -> None:
    with pytest.raises(UsageError, match="not within the 40"):
        StatesReader(states_folder[0]).read_rows(start, stop)


def test_bfloat16_is_stored_bit_for_bit_and_nothing_else_is_taken(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    values = torch.tensor([[[0.0, -0.0, float("nan"), float("inf"), 1e-40]] * 3], dtype=torch.bfloat16)
    with StatesWriter(tmp_path / "s", WIDTH) as writer:
        writer.append(values)
        writer.append(values.transpose(1, 2).contiguous().transpose(1, 2))
        for wrong in (
            values.float(),
            values.half(),
            np.zeros((1, 3, WIDTH), np.float32),
            np.zeros((1, 3, 4), np.uint16),
        ):
            with pytest.raises(UsageError):
                writer.append(wrong)
    read = torch.from_numpy(StatesReader(tmp_path / "s").read_rows(0, 2)).view(torch.bfloat16)
    assert torch.equal(read.view(torch.int16), torch.cat([values, values]).view(torch.int16))
    assert as_bits(values).dtype == np.uint16


def test_writer_and_reader_hold_little(tmp_path: Path) -> None:
    """Memory does not grow with the array: one chunk is pending, one is read where a range is ragged."""
    width, rows = 256, 64 * 200
    piece = made(512, width)
    chunk_bytes = STATES_INNER_ROWS * 3 * width * 2
    tracemalloc.start()
    with StatesWriter(tmp_path / "s", width) as writer:
        for _ in range(rows // 512):
            writer.append(piece)
    assert tracemalloc.get_traced_memory()[1] < 2 * chunk_bytes
    out = np.empty((100, 3, width), np.uint16)
    tracemalloc.reset_peak()
    base = tracemalloc.get_traced_memory()[0]
    reader = StatesReader(tmp_path / "s")
    for start in range(0, rows - 100, 777):
        reader.read_rows(start, start + 100, out)
    assert tracemalloc.get_traced_memory()[1] - base < 2 * chunk_bytes
    tracemalloc.stop()


def test_reader_is_shared_between_threads_and_pickled(states_folder: tuple[Path, np.ndarray]) -> None:
    path, states = states_folder
    reader = pickle.loads(pickle.dumps(StatesReader(path)))
    starts = [i % 30 for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        for start, rows in zip(starts, pool.map(lambda s: reader.read_rows(s, s + 9), starts), strict=True):
            assert np.array_equal(rows, states[start : start + 9])


def test_an_unfinished_array_has_no_metadata(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="stop"),
        StatesWriter(tmp_path / "s", WIDTH, inner_rows=INNER, shard_rows=SHARD) as w,
    ):
        w.append(made(22))
        raise RuntimeError("stop")
    assert sorted(tree(tmp_path / "s")) == ["c/0/0/0"]
    with pytest.raises(StoreCorruptError, match=r"zarr\.json is missing"):
        StatesReader(tmp_path / "s")


def test_a_write_that_stops_early_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take fewer bytes than it was given."""
    whole = os.writev

    def short(file: int, views: list[memoryview]) -> int:
        return whole(file, [views[0][: max(1, len(views[0]) // 2)]])

    states = made(40)
    monkeypatch.setattr(os, "writev", short)
    write(tmp_path / "s", states)
    assert np.array_equal(StatesReader(tmp_path / "s").read_rows(0, 40), states)


def test_it_may_be_closed_while_other_threads_read(states_folder: tuple[Path, np.ndarray]) -> None:
    """A descriptor that was closed under a read would be another file's by then."""
    path, states = states_folder
    reader = StatesReader(path)
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                assert np.array_equal(reader.read_rows(0, 40), states)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        reader.close()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="open files are listed in /proc on Linux alone"
)
def test_closing_releases_the_files(states_folder: tuple[Path, np.ndarray]) -> None:
    path, _ = states_folder

    def opened() -> int:
        return sum(str(path) in str(link.resolve()) for link in Path("/proc/self/fd").iterdir())

    reader = StatesReader(path)
    reader.read_rows(0, 40)
    assert opened()
    reader.close()
    assert not opened()


@pytest.mark.parametrize("shape", [[2**61, 3, WIDTH], [2**40, 3, WIDTH], [30, 3, 2**40], [30, 2**30, 2**30]])
def test_claims_are_bounded_by_real_files(tmp_path: Path, shape: list[int]) -> None:
    """Checking ends at once, and takes no memory that a lie asks for."""
    write(tmp_path, made(30))
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["shape"] = shape
    document["chunk_grid"]["configuration"]["chunk_shape"][1:] = shape[1:]
    document["codecs"][0]["configuration"]["chunk_shape"][1:] = shape[1:]
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    with StatesReader(tmp_path) as states:
        faults = list(states.check())
        assert 0 < len(faults) < 10
        with pytest.raises(StoreCorruptError):
            states.read_rows(0, min(len(states), 64))


def test_a_shard_file_of_another_array_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    """It is sound, and as long; the checksums of its chunks are others."""
    for name, seed in (("a", 0), ("b", 1)):
        write(
            tmp_path / name, np.random.default_rng(seed).integers(0, 2**16, (30, 3, WIDTH), dtype=np.uint16)
        )
    with StatesReader(tmp_path / "a") as states:
        own = [states.fingerprint(shard) for shard in range(2)]
        rows = states.read_rows(0, 30)
    checked = pickle.loads(pickle.dumps(StatesReader(tmp_path / "a", fingerprints=own)))
    assert np.array_equal(checked.read_rows(0, 30), rows)
    (tmp_path / "a/c/1/0/0").write_bytes((tmp_path / "b/c/1/0/0").read_bytes())
    assert len(StatesReader(tmp_path / "a").read_rows(0, 30)) == 30
    exchanged = StatesReader(tmp_path / "a", fingerprints=own)
    assert np.array_equal(exchanged.read_rows(0, 16), rows[:16])
    with pytest.raises(StoreCorruptError, match="sound and is not the one that was published here"):
        exchanged.read_rows(0, 30)
