"""What every place for a store must do. A file backend passes by subclassing `FilesConformance`.

class TestMyFiles(FilesConformance):
    def make(self, folder: Path) -> Files:
        return open_files(f"my-protocol://{folder}")
"""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.errors import StoreError
from inkplex_data.store.files import Files
from inkplex_data.store.publish import StagedShard, published_shards, shard_numbers

KEY = "calls/000001/shard.json"
NAMES = ("a b, c.json", "ünï – ✓", "100%25#?&=*[x]", ".hidden", "a.tmp", "x" * 200)
"""File names that some place or its URLs might take for something else."""


class FilesConformance:
    """The suite of one backend."""

    def make(self, folder: Path) -> Files:
        """The place that belongs to `folder`, empty at first. Called again, another handle on the same place."""
        raise NotImplementedError

    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return self.make(tmp_path / "store, with a name")

    def test_what_is_not_there(self, files: Files) -> None:
        for key in ("", "a", "a/b"):
            assert (files.names(key), files.tree(key)) == ([], [])
        assert files.read(KEY) is None and files.size_bytes(KEY) is None
        files.remove(KEY)
        files.remove("calls")
        for wanted in (files.open, lambda key: files.read_ranges(key, [(0, 1)])):
            with pytest.raises(FileNotFoundError):
                wanted(KEY)
        assert files.names("") == []

    def test_a_file_is_what_was_written(self, files: Files) -> None:
        for data in (b"0123456789", b"", bytes(range(256)) * 5_000, b"\r\n\0"):
            files.write(KEY, data)
            assert (files.read(KEY), files.size_bytes(KEY)) == (data, len(data))
            with files.open(KEY) as file:
                assert file.read() == data
                file.seek(3)
                assert file.read(2) == data[3:5]

    def test_ranges(self, files: Files) -> None:
        """Half-open, in the order asked, and shorter where the file ends."""
        files.write(KEY, b"0123456789")
        ranges = [(8, 10), (0, 2), (8, 30), (4, 5), (4, 5), (10, 12), (3, 3)]
        assert files.read_ranges(KEY, ranges) == [b"89", b"01", b"89", b"4", b"4", b"", b""]
        assert files.read_ranges(KEY, []) == []

    def test_folders_are_no_files(self, files: Files) -> None:
        files.write(KEY, b"x")
        for key in ("calls", "calls/000001"):
            assert files.size_bytes(key) is None and files.read(key) is None
        assert files.names(KEY) == []

    def test_listings_are_sorted_and_complete(self, files: Files) -> None:
        """Also below a folder that holds one of its own name, and beside one whose name begins like it."""
        for key in ("calls/calls/x", "calls/000002/b/c", "calls/000002/a", "calls/000010/a", "calls2/a"):
            files.write(key, b"")
        assert files.names("") == ["calls", "calls2"]
        assert files.names("calls") == ["000002", "000010", "calls"]
        assert files.names("calls/calls") == ["x"]
        assert files.tree("calls") == ["000002/a", "000002/b/c", "000010/a", "calls/x"]
        assert files.tree("")[-1] == "calls2/a"

    @pytest.mark.parametrize("name", NAMES)
    def test_names_mean_themselves(self, files: Files, name: str) -> None:
        for key in (f"calls/{name}/x", f"files/{name}"):
            files.write(key, b"old")
            files.write(key, b"new")
            assert files.read(key) == b"new" and files.size_bytes(key) == 3
            assert files.describe(key).endswith(key)
            with files.open(key) as file:
                assert file.read() == b"new"
        assert files.names("calls") == [name] == files.names("files")
        assert files.tree("") == [f"calls/{name}/x", f"files/{name}"]
        files.remove(f"files/{name}")
        assert files.names("files") == []

    def test_a_file_is_replaced_whole_unless_it_is_exclusive(self, files: Files) -> None:
        files.write(KEY, b"first", exclusive=True)
        with pytest.raises(FileExistsError):
            files.write(KEY, b"second", exclusive=True)
        assert files.read(KEY) == b"first"
        files.write(KEY, b"3")
        assert files.read(KEY) == b"3"
        assert files.tree("") == [KEY]

    def test_a_local_file_is_put_in_place(self, files: Files, tmp_path: Path) -> None:
        for data in (b"put", b"put again"):
            (tmp_path / "made").write_bytes(data)
            files.put(tmp_path / "made", "calls/000001/c/0")
            assert files.read("calls/000001/c/0") == data
        assert files.tree("") == ["calls/000001/c/0"]

    def test_removing_takes_all_below_and_nothing_beside(self, files: Files) -> None:
        for key in ("calls/000001/a", "calls/000001/b/c", "calls/0000010/a", "store.json"):
            files.write(key, b"x")
        files.remove("calls/000001")
        assert files.tree("") == ["calls/0000010/a", "store.json"]
        files.remove("store.json")
        assert files.tree("") == ["calls/0000010/a"] and files.names("") == ["calls"]

    def test_removing_follows_no_pattern(self, files: Files) -> None:
        for key in ("calls/a[b]c/x", "calls/abc/x", "calls/a[b]c/y/z", "calls/a*/x"):
            files.write(key, b"x")
        files.remove("calls/a[b]c")
        assert files.tree("calls") == ["a*/x", "abc/x"]
        files.remove("calls/a*")
        assert files.names("calls") == ["abc"]

    def test_another_process_sees_what_was_written(self, files: Files, tmp_path: Path) -> None:
        """A listing that was looked at before is not kept."""
        other = self.make(tmp_path / "store, with a name")
        assert other.names("calls") == [] and other.tree("") == []
        files.write(KEY, b"x")
        assert other.names("calls") == ["000001"] and other.tree("") == [KEY]
        assert other.read(KEY) == b"x" and other.size_bytes(KEY) == 1
        files.remove("calls")
        assert other.names("calls") == [] and other.read(KEY) is None

    def test_a_shard_is_published_once_and_whole(self, files: Files) -> None:
        """What an interrupted build left without its `shard.json` is no shard, and makes room for one."""
        files.write("calls/000000/leftover", b"of a build that was killed")
        assert shard_numbers(files, "calls") == [0] and published_shards(files, "calls") == []
        staged = StagedShard(files.root, "calls", 0)
        (staged.folder / "c").mkdir()
        (staged.folder / "c" / "0").write_bytes(b"data")
        info = staged.publish({"calls": 1})
        assert published_shards(files, "calls") == [info]
        assert files.tree("calls/000000") == ["c/0", "shard.json"]
        assert files.read("calls/000000/c/0") == b"data"
        assert files.names("calls") == ["000000"]
        with pytest.raises(StoreError, match="published already"):
            StagedShard(files.root, "calls", 0)
