"""Local folders and object stores answer alike; keys from files stay below the root."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.store.files import FsspecFiles, LocalFiles, check_key, open_files


def test_files_conform(root: str, tmp_path: Path) -> None:
    files = open_files(root)
    assert files.names("") == [] and files.tree("") == []
    assert files.read("a") is None and files.size_bytes("a") is None
    files.write("calls/000001/shard.json", b"0123456789")
    files.write("calls/000001/c/0", b"x")
    assert files.read("calls/000001/shard.json") == b"0123456789"
    assert files.size_bytes("calls/000001/shard.json") == 10
    assert files.size_bytes("calls") is None and files.read("calls") is None
    assert files.read_ranges("calls/000001/shard.json", [(0, 2), (8, 10), (8, 30)]) == [b"01", b"89", b"89"]
    assert files.names("") == ["calls"] and files.names("calls/000001") == ["c", "shard.json"]
    assert files.tree("calls") == ["000001/c/0", "000001/shard.json"]
    with files.open("calls/000001/shard.json") as file:
        file.seek(5)
        assert file.read() == b"56789"
    with pytest.raises(FileExistsError):
        files.write("calls/000001/shard.json", b"new", exclusive=True)
    assert files.read("calls/000001/shard.json") == b"0123456789"
    files.write("calls/000001/shard.json", b"new")
    assert files.read("calls/000001/shard.json") == b"new"
    (tmp_path / "made").write_bytes(b"made")
    files.put(tmp_path / "made", "calls/000001/c/0")
    assert files.read("calls/000001/c/0") == b"made"
    files.remove("calls/000001")
    files.remove("calls/000001")
    assert files.tree("") == []
    assert files.describe("a/b").endswith("a/b")


def test_a_folder_may_hold_one_of_its_own_name(root: str) -> None:
    files = open_files(root)
    files.write("calls/calls/x", b"")
    assert files.names("calls") == ["calls"]


def test_paths_and_urls(tmp_path: Path) -> None:
    assert isinstance(open_files(tmp_path), LocalFiles)
    local = open_files(f"file://{tmp_path}")
    assert isinstance(local, LocalFiles) and local.folder == tmp_path
    assert isinstance(open_files("memory://x"), FsspecFiles)
    with pytest.raises(StoreError, match="cannot open this URL"):
        open_files("no-such-protocol://x")


def test_writing_leaves_nothing_beside(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    (tmp_path / ".tmp-store.json-dead").write_bytes(b"of a process that was killed")
    files.write("store.json", b"{}")
    with pytest.raises(FileExistsError):
        files.write("store.json", b"", exclusive=True)
    assert files.names("") == ["store.json"]


@pytest.mark.parametrize(
    "key", ["", ".", "..", "a/../b", "/etc/passwd", "a//b", "a/", "./a", "a\\b", "a\0b", "a\nb", "../../x"]
)
def test_keys_that_leave_the_root_are_refused(key: str) -> None:
    with pytest.raises(StoreCorruptError, match="not a path inside the store"):
        check_key(key, where="shard.json")


@given(st.lists(st.sampled_from(["a", "b.c", "..", ".", "", "0", "ünï"]), min_size=1, max_size=5))
def test_accepted_keys_resolve_below_the_root(parts: list[str]) -> None:
    key = "/".join(parts)
    try:
        check_key(key, where="here")
    except StoreCorruptError:
        assert {"..", ".", ""} & set(parts)
    else:
        assert Path("/root", key).resolve().is_relative_to("/root")
