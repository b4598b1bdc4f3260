"""The reference page names what the code writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inkplex_data.memory.tables import TOKENS, VERSIONS
from inkplex_data.store import format as store_format
from inkplex_data.store import lazy
from inkplex_data.store.frame_streams import STREAMS
from inkplex_data.store.verify import root_files, shard_content, whole_store

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/store.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("table", "schema"),
    [
        ("calls", store_format.CALLS),
        ("words", store_format.WORDS),
        ("versions", VERSIONS),
        ("evidence", store_format.EVIDENCE),
        ("claims", store_format.CLAIMS),
        ("recordings", store_format.RECORDINGS),
        ("tokens", TOKENS),
        ("prefixes", store_format.PREFIXES),
        ("problems", store_format.PROBLEMS),
        ("splits", store_format.SPLIT_TABLE),
    ],
)
def test_every_column_is_described_in_order(table: str, schema: dict[str, object]) -> None:
    [row] = re.findall(rf"^\| `{table}` \| (`.*) \|$", PAGE, re.MULTILINE)
    assert [name for name in re.findall(r"`(\w+)`", row) if name in schema] == list(schema)


def test_frames_and_arrays_are_described() -> None:
    [columns] = re.findall(r"has the columns\n\n(.*?)\n\nand reads", PAGE, re.DOTALL)
    assert re.findall(r"`(\w+)`", columns) == list(lazy.frame_schema())
    arrays = re.findall(r"^\| `(\w+)` \| (.*?) \| (\w+) \[(.*?)\]", PAGE, re.MULTILINE)
    along_frames = [
        (
            stream.name,
            "calls, prefixes" if stream.in_prefix else "calls",
            stream.dtype,
            "F" if stream.width is None else f"F, {stream.width}",
        )
        for stream in STREAMS
    ]
    assert arrays == [*along_frames, ("states", "recordings", "uint16", "N, 3, D")]


def test_every_fault_of_verify_is_described() -> None:
    described = set(re.findall(r"`([a-z-]+)`", PAGE.split("## What `verify` reports")[1]))
    source = "".join(
        Path(str(module.__file__)).read_text() for module in (root_files, shard_content, whole_store)
    )
    used = set(re.findall(r'(?:store_fault|fault)\(\s*"([a-z-]+)"', source))
    assert len(used) > 14
    assert used <= described
    assert described - used <= {"damaged", "split-conflict", "family-conflict"}
