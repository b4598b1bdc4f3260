"""Every kind of damage to every kind of file of a small store, and what is said of it: docs/reference/reliability.md."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from inkplex_data.errors import InkplexError
from inkplex_data.store.reader import Store, open_store
from inkplex_data.store.verify import verify_store
from tests.store.made import Made

KINDS = {
    "store.json": "store.json",
    "newest.json": "newest.json",
    "snapshots/000001.json": "the snapshot before",
    "snapshots/000002.json": "the newest snapshot",
    "tokenizer.parquet": "tokenizer.parquet",
    "calls.parquet": "index of calls",
    "recordings.parquet": "index of recordings",
    "prefixes.parquet": "index of prefixes",
    "problems.parquet": "index of problems",
    "splits.parquet": "index of splits",
    "calls/000000/shard.json": "shard.json",
    "calls/000000/calls.parquet": "calls table",
    "calls/000000/words.parquet": "words table",
    "calls/000000/versions.parquet": "versions table",
    "calls/000000/evidence.parquet": "evidence table",
    "calls/000000/claims.parquet": "claims table",
    "calls/000000/problems.parquet": "problems table",
    "calls/000000/arrays.zarr/zarr.json": "group metadata",
    "calls/000000/arrays.zarr/codes/zarr.json": "frame array metadata",
    "calls/000000/arrays.zarr/codes/c/0/0": "frame chunk",
    "recordings/000000/recordings.parquet": "recordings table",
    "recordings/000000/tokens.parquet": "tokens table",
    "recordings/000000/arrays.zarr/states/zarr.json": "states metadata",
    "recordings/000000/arrays.zarr/states/c/0/0/0": "states file",
    "prefixes/000000/prefixes.parquet": "prefixes table",
}
"""One file of each kind, and what the page calls it."""


def flip(at: float) -> Callable[[Path, Path], None]:
    def run(path: Path, _: Path) -> None:
        data = bytearray(path.read_bytes())
        data[min(int(len(data) * at), len(data) - 1)] ^= 4
        path.write_bytes(data)

    return run


def truncate(path: Path, _: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def empty(path: Path, _: Path) -> None:
    path.write_bytes(b"")


def delete(path: Path, _: Path) -> None:
    path.unlink()


def directory(path: Path, _: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path, _: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def no_permission(path: Path, _: Path) -> None:
    path.chmod(0)


def exchange(path: Path, other: Path) -> None:
    shutil.copyfile(other, path)


def claim(path: Path, _: Path) -> None:
    """Its counts say 2⁶¹."""
    if path.suffix == ".json":
        path.write_text(re.sub(r"(?<=[\[ ])\d+(?=[,\]\n])", str(2**61), path.read_text()))
    elif path.suffix == ".parquet":
        path.write_bytes(claiming(path.read_bytes(), 2**61))
    else:
        data = bytearray(path.read_bytes())
        data[-20:-12] = (2**61).to_bytes(8, "little")
        path.write_bytes(data)


def claiming(data: bytes, rows: int) -> bytes:
    """A Parquet file whose footer claims `rows` rows: the footer of a file of that many, spelled anew."""
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - footer_bytes], bytearray(data[-8 - footer_bytes : -8])
    table = pq.read_metadata(pa.BufferReader(data))
    old, new = varint(table.row_group(0).num_rows if table.num_row_groups else 0), varint(rows)
    changed = bytes(footer).replace(b"\x16" + old, b"\x16" + new)
    return body + changed + len(changed).to_bytes(4, "little") + b"PAR1"


def varint(value: int) -> bytes:
    """Thrift's zigzag varint."""
    value, out = value << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


DAMAGES: dict[str, Callable[[Path, Path], None]] = {
    "cut": truncate,
    "emptied": empty,
    "deleted": delete,
    "bit at the start": flip(0.02),
    "bit in the middle": flip(0.5),
    "bit at the end": flip(0.999),
    "another's": exchange,
    "a folder": directory,
    "a pipe": pipe,
    "claims 2⁶¹": claim,
    **({} if os.geteuid() == 0 else {"not readable": no_permission}),
}


@dataclass(frozen=True)
class Cell:
    """What was said of one damage to one file."""

    verify: tuple[str, ...]
    """Codes of the faults."""
    reader: str
    """`right`: all that was read is what was written, and nothing was said; `warns`: right, with a warning; or
    `refuses`: an error of the family, after nothing or only right values."""

    @property
    def told(self) -> str:
        """As the page has it."""
        return f"{', '.join(self.verify) or '–'}<br>**{self.reader}**"


def read_all(store: Store) -> Iterator[tuple[str, Any]]:
    """All that a store holds, by every way of reading it."""
    yield "window", store.window
    yield "description", json.dumps(store.description, sort_keys=True)
    tables = ("words", "versions", "tokens", "evidence", "claims")
    for name in ("calls", "recordings", "prefixes", "problems", "splits", *tables):
        yield name, getattr(store, name)().collect()
    yield "frames", store.frames().collect()
    for call_id in store.call_ids:
        call = store.call(call_id)
        yield f"{call_id} states", None if call.states_u16 is None else call.states_u16.tobytes()
        yield f"{call_id} problems", call.problems
        yield f"{call_id} composed", call.with_prefix().codes.tobytes()


def same(one: Any, other: Any) -> bool:
    return one.equals(other) if isinstance(one, pl.DataFrame) else one == other


@contextlib.contextmanager
def restored(path: Path) -> Iterator[None]:
    """Whatever is done to the file within the block, it is as it was after it."""
    data = path.read_bytes()
    try:
        yield
    finally:
        if path.is_dir():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_bytes(data)


def examine(made: Made, sound: dict[str, Any], warnings: Callable[[], str]) -> Cell:
    """Verify and read the store as it is. Raises AssertionError for a wrong value that is read without a word."""
    faults = verify_store(made.root)
    assert all(fault.next_step for fault in faults)
    warnings()
    try:
        with open_store(made.root) as store:
            for name, value in read_all(store):
                assert same(value, sound[name]), f"{name} was read wrong"
        said = "warns" if warnings() else "right"
    except InkplexError as error:
        assert error.next_step, error
        said = "refuses"
    return Cell(tuple(sorted({fault.code for fault in faults})), said)


def page(cells: dict[str, dict[str, Cell]]) -> str:
    """docs/reference/reliability.md"""
    shown = [name for name in DAMAGES if name != "not readable"]
    lines = [
        "# Reliability: what damage gives",
        "",
        "Each row is a kind of file of a store, each column something that may happen to one. A cell says what `inkplex-data",
        "verify` reports, and below it what a reader does that reads all of the store: **refuses** means that it raises an error",
        "of the family (`inkplex_data.errors`) that names the file and the next step, as soon as it needs the file; **warns**,",
        "that it reads everything right from elsewhere and says so in the log; **right**, that it needs nothing of the file.",
        "Nothing is ever read wrong. *Another's* is a sound file of the same kind from another shard, array or store; *a pipe*",
        "stands for all that is neither a file nor a folder; *claims 2⁶¹*, for counts in its metadata that no memory holds. A",
        "file without the right to read it is refused too.",
        "",
        "The page is written by `INKPLEX_UPDATE=1 pytest -m slow tests/store/test_reliability.py`, which does each damage to a small",
        "store; without the variable the test compares, and another, which is quick, compares a fifth of the page.",
        "",
        "| file | " + " | ".join(shown) + " |",
        "|---|" + "---|" * len(shown),
    ]
    for kind, row in cells.items():
        lines.append(f"| {kind} | " + " | ".join(row[name].told for name in shown) + " |")
    return "\n".join([*lines, ""])
