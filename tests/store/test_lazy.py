"""LazyFrames: the same rows as an eager filter, and no more reading than a query needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import inkplex_data as ink
from inkplex_data.errors import StoreCorruptError
from inkplex_data.grid import EPAD, PAD
from inkplex_data.memory.tables import TOKENS, VERSIONS
from inkplex_data.store import lazy
from inkplex_data.store.arrays.frame_arrays import FRAME_CHUNK
from inkplex_data.store.files import LocalFiles
from inkplex_data.store.format import WORDS
from inkplex_data.store.parquet import TableReader
from inkplex_data.store.pushdown import conjuncts, decidable, needed_columns, row_batches
from tests.store.made import Made, make_store

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture
def chunks_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Keys of the chunk files that are read, whoever reads them."""
    keys: list[str] = []
    read = LocalFiles.read

    def counted(self: LocalFiles, key: str) -> bytes | None:
        if "/c/" in key:
            keys.append(key)
        return read(self, key)

    monkeypatch.setattr(LocalFiles, "read", counted)
    return keys


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int, tuple[str, ...]]]]:
    """Table, rows and columns of each read."""
    reads: list[tuple[str, int, tuple[str, ...]]] = []
    read = TableReader.read

    def counted(
        self: TableReader, offset: int = 0, rows: int | None = None, *, columns: list[str] | None = None
    ) -> pl.DataFrame:
        table = read(self, offset, rows, columns=columns)
        reads.append((Path(self.where).name, table.height, tuple(columns or ())))
        return table

    monkeypatch.setattr(TableReader, "read", counted)
    return reads


def whole_frames(made: Made) -> pl.DataFrame:
    """What `frames()` must give, made without the store."""
    tables = []
    for call_id, part in made.parts.items():
        ids = pl.Series("text_id", part.streams["text"])
        tables.append(
            pl.DataFrame(
                {
                    "call_id": [call_id] * len(ids),
                    "frame": pl.Series(range(len(ids)), dtype=pl.Int32),
                    "time_s": [i * 80_000 / 1e6 for i in range(len(ids))],
                    "role": part.streams["role"],
                    "text_id": ids,
                    "piece": [None if i in (PAD, EPAD) else f"▁piece{i}" for i in ids],
                    "agent": pl.Series(part.streams["codes"][:, :8], dtype=pl.Array(pl.UInt16, 8)),
                    "caller": pl.Series(part.streams["codes"][:, 8:], dtype=pl.Array(pl.UInt16, 8)),
                    "mask": part.streams["mask"],
                    "level": pl.Series(part.streams["level"], dtype=pl.Array(pl.Int8, 2)),
                }
            )
        )
    return pl.concat(tables)


def test_frames_of_the_whole_store(root: str) -> None:
    made = make_store(root)
    store = ink.open_store(root)
    assert dict(store.frames().collect_schema()) == lazy.frame_schema()
    assert store.frames().collect().equals(whole_frames(made))
    assert (
        store.frames()
        .collect(engine="streaming")
        .sort("call_id", "frame")
        .equals(whole_frames(made).sort("call_id", "frame"))
    )


@pytest.mark.parametrize(("call_id", "chunks"), [("first", [0]), ("second", [0, 1])])
def test_one_call_reads_only_its_chunks(
    made: Made, chunks_read: list[str], call_id: str, chunks: list[int]
) -> None:
    """Frames of "first" are 0 to 2,999 of the shard, those of "second" 3,000 to 5,499."""
    store = ink.open_store(made.root)
    frames = store.frames().filter(pl.col("call_id") == call_id).select("frame", "agent").collect()
    assert chunks_read == [f"calls/000000/arrays.zarr/codes/c/{chunk}/0" for chunk in chunks]
    part = made.parts[call_id]
    assert frames["frame"].to_list() == list(range(part.frames))
    assert np.array_equal(frames["agent"].to_numpy(), part.streams["codes"][:, :8])


@pytest.mark.parametrize(
    ("columns", "arrays"),
    [
        (["frame", "time_s", "call_id"], []),
        (["caller", "agent"], ["codes"]),
        (["piece", "text_id"], ["text"]),
        (["role", "mask"], ["mask", "role"]),
    ],
)
def test_only_the_arrays_of_the_columns_are_read(
    made: Made, chunks_read: list[str], columns: list[str], arrays: list[str]
) -> None:
    frames = ink.open_store(made.root).frames().filter(call_id="third/ünï, 1").select(columns).collect()
    assert frames.shape == (40, len(columns))
    assert sorted(chunks_read) == [
        f"calls/000001/arrays.zarr/{name}/c/0{'/0' if name == 'codes' else ''}" for name in arrays
    ]


def test_a_window_of_a_long_call_reads_only_its_chunks(made: Made, chunks_read: list[str]) -> None:
    """The fourth call lies on frames 40 to 4,136 of its shard: two chunks."""
    frames = ink.open_store(made.root).frames()
    late = frames.filter((pl.col("call_id") == "fourth") & (pl.col("time_s") >= 327.0) & (pl.col("mask") > 0))
    found = late.select("frame", "mask").collect()
    assert chunks_read == ["calls/000001/arrays.zarr/mask/c/1"]
    mask = made.parts["fourth"].streams["mask"]
    assert found.rows() == [(i, mask[i]) for i in range(4_088, 4_097) if mask[i]]
    chunks_read.clear()
    assert frames.filter(pl.col("frame") > 10**6).collect().height == 0 and chunks_read == []


def test_a_count_reads_no_array(made: Made, chunks_read: list[str]) -> None:
    store = ink.open_store(made.root)
    assert store.frames().select(pl.len()).collect().item() == sum(p.frames for p in made.parts.values())
    assert store.frames().group_by("call_id").len().collect().height == 4
    assert chunks_read == []


def test_head_stops_early(made: Made, chunks_read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "FRAMES_PER_BATCH", FRAME_CHUNK)
    head = ink.open_store(made.root).frames().head(5).select("call_id", "role").collect()
    assert head["role"].to_list() == made.parts["first"].streams["role"][:5].tolist()
    assert chunks_read == ["calls/000000/arrays.zarr/role/c/0"]


def test_rows_of_one_call_are_one_read(made: Made, rows_read: list[tuple[str, int, tuple[str, ...]]]) -> None:
    store = ink.open_store(made.root)
    store.owners("calls"), store.owners("recordings")
    rows_read.clear()
    words = store.words().filter(pl.col("call_id") == "fourth").select("text", "call_id").collect()
    assert words.rows() == [("word0", "fourth"), ("word1", "fourth"), ("word2", "fourth")]
    assert rows_read == [("words.parquet", 3, ("text",))]
    rows_read.clear()
    tokens = store.tokens().filter(recording_id="task two").select("row", "kind").collect()
    assert tokens.height == 71 and rows_read == [("tokens.parquet", 71, ("row", "kind"))]
    rows_read.clear()
    call_ix = store.calls().filter(call_id="first").collect()["call_ix"].item()
    rows_read.clear()
    assert store.versions().filter(call_ix=call_ix).select("row").collect().height == 5
    assert rows_read == [("versions.parquet", 5, ("call_ix", "row"))]


def test_tables_of_the_whole_store(root: str) -> None:
    made = make_store(root)
    store = ink.open_store(root)
    ix = dict(store.calls().select("call_id", "call_ix").collect().iter_rows())
    for lf, stored, name in [(store.words(), WORDS, "words"), (store.versions(), VERSIONS, "versions")]:
        assert dict(lf.collect_schema()) == {"call_id": pl.String(), **stored}
        expected = pl.concat(
            getattr(part, name).with_columns(call_ix=pl.lit(ix[c], pl.Int64)).with_columns(call_id=pl.lit(c))
            for c, part in made.parts.items()
        ).select("call_id", *stored)
        assert lf.collect().equals(expected)
        assert lf.select(pl.len()).collect().item() == expected.height
    assert dict(store.tokens().collect_schema()) == {"recording_id": pl.String(), **TOKENS}
    expected = pl.concat(t.with_columns(recording_id=pl.lit(r)) for r, t in made.tokens.items())
    assert (
        store.tokens()
        .drop("recording_ix")
        .collect()
        .equals(expected.select("recording_id", *[name for name in TOKENS if name != "recording_ix"]))
    )
    assert store.splits().collect().rows() == [
        (f"family of {c}", "test" if c == "fourth" else "train") for c in sorted(made.parts)
    ]
    assert store.prefixes().collect().height == 4 and store.recordings().collect().height == 2
    problems = store.problems().collect()
    assert problems["call_id"].to_list() == [*made.parts, "lost"]
    assert store.problems().filter(call_id="lost").select("message").collect().item() == "it was refused"


_ATOMS = [
    pl.col("call_id") == "first",
    pl.col("call_id") != "second",
    pl.col("call_id").is_in(["fourth", "third/ünï, 1", "nobody"]),
    pl.col("call_id").str.starts_with("f"),
    pl.col("frame") < 3,
    pl.col("frame") % 1_000 == 7,
    pl.col("time_s").is_between(100, 200),
    pl.col("role") == 2,
    pl.col("piece").is_null(),
    pl.col("piece").is_not_null(),
    pl.col("text_id") > pl.col("frame"),
    pl.col("agent").arr.get(0) > 1_000,
    pl.lit(True),
]
_PREDICATES = st.recursive(
    st.sampled_from(_ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] & p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] | p[1]),
        inner.map(lambda p: ~p),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def store_and_frames(tmp_path_factory: pytest.TempPathFactory) -> tuple[ink.Store, pl.DataFrame]:
    made = make_store(tmp_path_factory.mktemp("lazy") / "store")
    return ink.open_store(made.root), whole_frames(made)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    predicate=_PREDICATES,
    head=st.sampled_from([None, 0, 1, 3_001, 10**6]),
    late=st.booleans(),
    data=st.data(),
)
def test_pushed_down_equals_eager(
    store_and_frames: tuple[ink.Store, pl.DataFrame],
    predicate: pl.Expr,
    head: int | None,
    late: bool,
    data: st.DataObject,
) -> None:
    """Any filter, any columns, a limit before or after: as if the whole table were in memory."""
    store, frames = store_and_frames
    columns = data.draw(st.lists(st.sampled_from(list(lazy.frame_schema())), min_size=1, unique=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy, "FRAMES_PER_BATCH", 3_000)
        results = []
        for table in (store.frames(), frames.lazy()):
            limited = table if head is None or late else table.head(head)
            filtered = limited.filter(predicate)
            results.append(
                (filtered.head(head) if head is not None and late else filtered).select(columns).collect()
            )
    assert results[0].equals(results[1])


def test_aggregating_filters_are_not_pushed_into_batches(
    store_and_frames: tuple[ink.Store, pl.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, frames = store_and_frames
    monkeypatch.setattr(lazy, "FRAMES_PER_BATCH", 100)
    for predicate in (
        pl.col("frame") == pl.col("frame").max(),
        pl.col("frame") == pl.col("frame").max().over("call_id"),
        (pl.col("call_id") == "first") & (pl.col("role").cum_sum() == 5),
    ):
        assert store.frames().filter(predicate).collect().equals(frames.filter(predicate))


@given(predicate=_PREDICATES, names=st.sets(st.sampled_from(["call_id", "frame", "time_s"]), min_size=1))
def test_the_decidable_part_rules_out_no_row(predicate: pl.Expr, names: set[str]) -> None:
    part = decidable(predicate, names)
    assert all(set(p.meta.root_names()) <= set(lazy.frame_schema()) for p in conjuncts(predicate))
    if part is not None:
        assert set(part.meta.root_names()) <= names
        table = pl.DataFrame(
            {
                "call_id": ["first", "fourth", "x"],
                "frame": [1, 7, 5_007],
                "time_s": [0.08, 150.0, 400.0],
                "role": [2, 0, 1],
                "text_id": [9, 3, 0],
                "piece": ["a", None, None],
            },
            schema_overrides={"frame": pl.Int32},
        ).with_columns(agent=pl.Series([[2_000] * 8] * 3, dtype=pl.Array(pl.UInt16, 8)))
        both = table.select(whole=predicate, part=part).filter("whole")
        assert both["part"].all()


def test_needed_columns_keep_the_order_of_the_schema() -> None:
    assert needed_columns(["c", "a"], pl.col("b") > pl.col("a"), ["a", "b", "c", "d"]) == ["a", "b", "c"]
    assert needed_columns(None, None, ["b", "a"]) == ["b", "a"]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 1)), max_size=20), st.integers(1, 20)
)
def test_row_batches_are_runs_within_a_shard(owners: list[tuple[int, bool, int]], limit: int) -> None:
    shards, offsets, counts = [], [], []
    shard = offset = 0
    for count, skips, turns in owners:
        shard, offset = (shard + 1, 0) if turns else (shard, offset + 3 * skips)
        shards.append(shard), offsets.append(offset), counts.append(count)
        offset += count
    batches = list(row_batches(shards, offsets, counts, limit=limit))
    assert [i for first, last in batches for i in range(first, last)] == list(range(len(owners)))
    for first, last in batches:
        assert len(set(shards[first:last])) == 1
        assert offsets[last - 1] + counts[last - 1] - offsets[first] == sum(counts[first:last])
        assert last == first + 1 or sum(counts[first:last]) <= limit


def test_damage_is_an_error_in_a_query_too(made: Made) -> None:
    """Never zeros, never fewer rows."""
    Path(made.root, "calls/000000/arrays.zarr/role/c/1").unlink()
    store = ink.open_store(made.root)
    assert store.frames().filter(call_id="first").select("role").collect().height == 3_000
    with pytest.raises(Exception, match="the chunk with frames 4,096 to 5,499 is missing") as caught:
        store.frames().select("role").collect()
    assert isinstance(caught.value, StoreCorruptError | pl.exceptions.ComputeError)
