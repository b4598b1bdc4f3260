"""What a root names, and keys from files stay below it. What every backend does: tests/conformance/files.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.store.files import FsspecFiles, LocalFiles, check_key, open_files


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
