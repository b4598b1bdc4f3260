"""Parquet tables: one row group per part, exact types, page checksums, the same bytes again."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.errors import StoreCorruptError, UsageError
from inkplex_data.memory.tables import TOKENS, VERSIONS
from inkplex_data.store.files import LocalFiles
from inkplex_data.store.parquet import TableReader, TableWriter, groups_of, row_table
from tests.store.damage import claiming
from tests.store.made import table, token_table

SCHEMA = {"n": pl.Int64(), "s": pl.String()}


def rows(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"n": range(first, first + count), "s": [f"s{i}" for i in range(count)]}, schema=SCHEMA
    )


def write(path: Path, counts: list[int]) -> pl.DataFrame:
    parts = [rows(sum(counts[:i]), count) for i, count in enumerate(counts)]
    with TableWriter(path, SCHEMA) as writer:
        for part in parts:
            writer.write(part)
    return pl.concat([rows(0, 0), *parts])


def test_one_row_group_per_part(tmp_path: Path) -> None:
    whole = write(tmp_path / "t.parquet", [3, 0, 5, 1])
    metadata = pq.read_metadata(tmp_path / "t.parquet")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [3, 5, 1]
    reader = TableReader(LocalFiles(tmp_path), "t.parquet")
    assert reader.rows == 9
    for offset in range(10):
        for count in range(10 - offset):
            assert reader.read(offset, count, columns=["s", "n"]).equals(
                whole.slice(offset, count).select("s", "n")
            )
    assert pl.concat(reader.chunks()).equals(whole)
    with pytest.raises(StoreCorruptError, match="has 9 rows, not 5 to 10"):
        reader.read(5, 5)
    with pytest.raises(StoreCorruptError, match="lacks the columns other"):
        reader.read(columns=["other"])


def test_columns_that_came_later_read_as_null(tmp_path: Path) -> None:
    whole = write(tmp_path / "t.parquet", [3, 2])
    later = {"s": pl.String(), "more": pl.List(pl.String()), "most": pl.Int64()}
    reader = TableReader(LocalFiles(tmp_path), "t.parquet", added=later)
    assert reader.schema == {**SCHEMA, "more": pl.List(pl.String()), "most": pl.Int64()}
    assert reader.read(2, 2).select(list(SCHEMA)).equals(whole[2:4])
    assert reader.read(2, 2)["more"].to_list() == [None, None]
    assert reader.read(2, 3, columns=["most", "more"]).rows() == [(None, None)] * 3
    with pytest.raises(StoreCorruptError, match="lacks the columns other"):
        reader.read(columns=["most", "other"])


def test_both_compressions_hold_the_same(tmp_path: Path) -> None:
    part = rows(0, 500)
    for compression in ("zstd", "lz4"):
        with TableWriter(tmp_path / f"{compression}.parquet", SCHEMA, compression=compression) as writer:
            writer.write(part)
        assert TableReader(LocalFiles(tmp_path), f"{compression}.parquet").read().equals(part)
        stored = pq.read_metadata(tmp_path / f"{compression}.parquet").row_group(0).column(0).compression
        assert stored.lower() == compression


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.data())
def test_groups_cover_exactly_the_rows_asked_for(counts: list[int], data: st.DataObject) -> None:
    total = sum(counts)
    offset = data.draw(st.integers(0, total - 1))
    number = data.draw(st.integers(0, total - offset))
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    groups, skip = groups_of(ends, offset, number)
    held = [row for g in groups for row in range(ends[g] - counts[g], ends[g])]
    assert held[skip : skip + number] == list(range(offset, offset + number))
    assert skip < (counts[groups[0]] if groups else 1)
    assert not groups or held[-counts[groups[-1]]] < offset + number  # no group more than needed


def test_types_survive_polars_and_pyarrow(tmp_path: Path) -> None:
    tokens = token_table(5).with_columns(recording_ix=pl.lit(1, pl.Int32))
    with TableWriter(tmp_path / "tokens.parquet", TOKENS) as writer:
        writer.write(tokens)
    assert pl.read_parquet(tmp_path / "tokens.parquet").equals(tokens)
    assert TableReader(LocalFiles(tmp_path), "tokens.parquet").read().equals(tokens)
    assert dict(pl.scan_parquet(tmp_path / "tokens.parquet").collect_schema()) == TOKENS
    assert pq.read_table(tmp_path / "tokens.parquet").column("kind").to_pylist() == tokens["kind"].to_list()


def test_same_rows_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.parquet", [400, 7])
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_refuses_other_columns_and_values(tmp_path: Path) -> None:
    with TableWriter(tmp_path / "versions.parquet", VERSIONS) as writer:
        with pytest.raises(UsageError, match=r"versions table lacks the columns \['whole'\]"):
            writer.write(table(VERSIONS, 1).drop("whole"))
        with pytest.raises(UsageError, match=r"unknown ones \['extra'\]"):
            writer.write(table(VERSIONS, 1).with_columns(extra=1))
        with pytest.raises(UsageError, match="does not fit its types"):
            writer.write(table(VERSIONS, 1).with_columns(recency=pl.lit(300)))
    assert TableReader(LocalFiles(tmp_path), "versions.parquet").rows == 0
    with pytest.raises(UsageError, match="column 'n' is Int64, so it cannot hold 'x'"):
        row_table({"n": "x"}, SCHEMA)


def test_a_flipped_bit_in_a_page_is_found(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    whole = write(path, [2_000, 2_000])
    data = path.read_bytes()
    second = pq.read_metadata(path).row_group(1).column(0)
    start = second.dictionary_page_offset or second.data_page_offset
    position = start + second.total_compressed_size - 3
    path.write_bytes(data[:position] + bytes([data[position] ^ 8]) + data[position + 1 :])
    reader = TableReader(LocalFiles(tmp_path), "t.parquet")
    assert reader.read(0, 2_000).equals(whole.head(2_000))
    with pytest.raises(StoreCorruptError, match="cannot be read"):
        reader.read(2_000, 10, columns=["n"])


def test_missing_and_truncated_files(tmp_path: Path) -> None:
    with pytest.raises(StoreCorruptError, match="the table is missing"):
        TableReader(LocalFiles(tmp_path), "t.parquet")
    write(tmp_path / "t.parquet", [5])
    data = (tmp_path / "t.parquet").read_bytes()
    for keep in (0, 3, len(data) // 2, len(data) - 1):
        (tmp_path / "t.parquet").write_bytes(data[:keep])
        with pytest.raises(StoreCorruptError, match="cannot be opened"):
            TableReader(LocalFiles(tmp_path), "t.parquet")


@pytest.mark.parametrize("claimed", [2**31, 2**40, 2**61])
def test_more_rows_than_a_file_can_hold_are_not_believed(tmp_path: Path, claimed: int) -> None:
    write(tmp_path / "t.parquet", [3, 5])
    (tmp_path / "t.parquet").write_bytes(claiming((tmp_path / "t.parquet").read_bytes(), claimed))
    with pytest.raises(StoreCorruptError, match=r"claims [\d,]+ rows, more than its [\d,]+ bytes|cannot be"):
        TableReader(LocalFiles(tmp_path), "t.parquet").read()


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.decimal128(5), pa.struct([("a", pa.date32())])])
def test_types_that_no_store_has_are_refused(tmp_path: Path, type_: pa.DataType) -> None:
    pq.write_table(pa.table({"n": pa.nulls(2, type_)}), tmp_path / "t.parquet")
    with pytest.raises(StoreCorruptError, match="its column 'n' has the type"):
        TableReader(LocalFiles(tmp_path), "t.parquet")


def test_any_bit_of_a_footer(tmp_path: Path) -> None:
    """Without a digest to compare: an error of the family, or the rows that a footer so changed describes."""
    path = tmp_path / "t.parquet"
    write(path, [3, 5])
    data = path.read_bytes()
    refused = 0
    for at in range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data), 3):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        try:
            TableReader(LocalFiles(tmp_path), "t.parquet").read()
        except StoreCorruptError as error:
            assert error.next_step
            refused += 1
    assert refused > 50
