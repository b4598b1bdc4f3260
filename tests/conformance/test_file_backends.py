"""Local folders and object stores answer alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.store.files import Files, FsspecFiles, LocalFiles, open_files
from tests.conformance.files import KEY, FilesConformance


class TestLocalFolder(FilesConformance):
    def make(self, folder: Path) -> Files:
        return LocalFiles(folder)


class TestMemory(FilesConformance):
    """An object store: no folders of its own, nothing is renamed."""

    def make(self, folder: Path) -> Files:
        return FsspecFiles(f"memory:/{folder}")


class TestMountedFolder(FilesConformance):
    """fsspec's own files on a disk, below a folder."""

    def make(self, folder: Path) -> Files:
        folder.mkdir(parents=True, exist_ok=True)
        files = FsspecFiles(f"local://{folder}")
        return files


def test_the_suite_needs_every_operation(tmp_path: Path) -> None:
    """A backend that keeps its first listing, and one that writes over what is there, fail."""

    class Forgetful(LocalFiles):
        def tree(self, key: str) -> list[str]:
            self.__dict__.setdefault(key, super().tree(key))
            found: list[str] = self.__dict__[key]
            return found

    class Hasty(LocalFiles):
        def write(self, key: str, data: bytes, *, exclusive: bool = False) -> None:
            super().write(key, data)

    class Suite(FilesConformance):
        def make(self, folder: Path) -> Files:
            return self.kind(folder)

        kind: type[LocalFiles]

    for kind, test in (
        (Forgetful, lambda suite, files: suite.test_another_process_sees_what_was_written(files, tmp_path)),
        (Hasty, Suite.test_a_file_is_replaced_whole_unless_it_is_exclusive),
    ):
        suite = Suite()
        suite.kind = kind
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            test(suite, suite.make(tmp_path / "store, with a name"))
    assert open_files(tmp_path).read(KEY) is None
