"""Files and folders that are whole or not there, what the dead leave, and who may write."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from inkplex_data.atomic import (
    UNFINISHED,
    new_folder,
    only_writer,
    replacing,
    together,
    unfinished,
    write_json,
)
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.errors import CorpusError, OutputError, UsageError


class Stopped(BaseException):
    pass


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_takes_its_place_at_the_end_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(Stopped), replacing(path) as file:
        file.write(b"new")
        raise Stopped
    assert path.read_bytes() == b"old" and names(tmp_path) == ["a"]
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" and names(tmp_path) == ["a"]


def test_files_take_their_places_together_and_the_last_never_stands_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"old")
    seen: list[list[tuple[str, bytes]]] = []

    def replace(source: Path, target: Path) -> None:
        seen.append([(p.name, p.read_bytes()) for p in sorted(tmp_path.glob("?"))])
        source.rename(target)

    monkeypatch.setattr(Path, "replace", replace)
    with together(last=tmp_path / "c") as new:
        for name in "abc":
            new(tmp_path / name).write(b"new")
        assert (tmp_path / "c").read_bytes() == b"old"
    assert seen == [
        [("a", b"old"), ("b", b"old")],
        [("a", b"new"), ("b", b"old")],
        [("a", b"new"), ("b", b"new")],
    ]
    assert names(tmp_path) == ["a", "b", "c"] and (tmp_path / "c").read_bytes() == b"new"


def test_what_the_dead_left_goes_and_what_the_living_write_stays(tmp_path: Path) -> None:
    (tmp_path / ".gone.1.tmp").write_bytes(b"of a process that was killed")
    (tmp_path / f".same-number.{os.getpid()}.tmp").write_bytes(b"of one in another container")
    for foreign in (".gone.tmp", "gone.1.tmp", ".gone.1.tmp.txt"):
        (tmp_path / foreign).write_bytes(b"somebody's")
    with replacing(tmp_path / "slow") as file:
        assert f".slow.{os.getpid()}.tmp" in names(tmp_path)
        child = os.fork()
        if child == 0:
            from inkplex_data import atomic

            atomic._sweep.cache_clear()
            write_json(tmp_path / "quick", 1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        file.write(b"slow")
    assert names(tmp_path) == [".gone.1.tmp.txt", ".gone.tmp", "gone.1.tmp", "quick", "slow"]
    assert (tmp_path / "slow").read_bytes() == b"slow"


def test_a_full_disk_is_named_with_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught, replacing(tmp_path / "big", size_bytes=5_000) as file:
        file.write(b"123")
        file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")
    said = str(caught.value)
    assert said.startswith(
        f"{tmp_path / 'big'}: the disk is full (5,000 bytes are needed, 3 bytes were written, "
    )
    assert said.endswith("→ Make room, or name a folder on another disk, and run the same command again.")
    assert names(tmp_path) == []
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "big"):
        (tmp_path / "input").read_bytes()


def test_a_folder_appears_by_one_rename(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    with pytest.raises(Stopped), new_folder(out) as making:
        (making / "half").write_bytes(b"1")
        raise Stopped
    assert names(tmp_path / "deep") == []
    left = tmp_path / "deep" / ".out.inkplex-partial"
    (left / "sub").mkdir(parents=True)
    (left / "half").write_bytes(b"of a process that was killed")
    with new_folder(out) as making:
        assert making == left and names(making) == []
        (making / "whole").write_bytes(b"1")
        assert not out.exists()
    assert names(out) == ["whole"] and names(tmp_path / "deep") == ["out"]


def test_an_empty_folder_may_be_named_and_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("out")
    with new_folder(tmp_path / "link") as making:
        (making / "a").write_bytes(b"1")
    assert names(tmp_path / "out") == ["a"] and (tmp_path / "link").is_symlink()
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_folders_that_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_bytes(b"")
    for name in ("file", "full"):
        with pytest.raises(UsageError, match="is not empty"), new_folder(tmp_path / name):
            raise Stopped
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UsageError, match="the current folder"), new_folder(Path()):
        raise Stopped
    assert names(tmp_path) == ["file", "full", "here"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    for hold in (new_folder, only_writer):
        out = tmp_path / hold.__name__
        with hold(out), pytest.raises(OutputError, match="another process is writing here"), hold(out):
            raise Stopped
        assert not (tmp_path / f".{out.name}.inkplex-partial").exists()


def test_a_folder_that_is_being_filled_is_no_corpus(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(Stopped), only_writer(out, command="diarize"):
        (out / "a.wav").write_bytes(b"")
        raise Stopped
    assert unfinished(out) == "diarize"
    with pytest.raises(CorpusError, match="`inkplex-data diarize` has not finished here") as refused:
        read_corpus(out)
    assert "Run it again" in str(refused.value) and UNFINISHED in str(refused.value)
    with only_writer(out, command="diarize"):
        assert unfinished(out) == "diarize"
    assert unfinished(out) is None and [entry.call_id for entry in read_corpus(out).entries] == ["a"]


def test_a_writer_that_wrote_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Stopped), only_writer(tmp_path / "out", command="diarize"):
        raise Stopped
    assert names(tmp_path) == []


def writer_that_ends(out: Path, kill_at: int) -> int:
    """Exit code of a process that begins to fill `out`: 9 where it ends at that file operation, 0 where it lives to write."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seen = 0

    def die(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        seen += any(str(out.parent) in str(argument) for argument in arguments)
        if seen == kill_at:
            os._exit(9)

    sys.addaudithook(die)
    with only_writer(out, command="diarize"):
        os._exit(0)


def test_no_kill_leaves_a_new_folder_without_its_mark(tmp_path: Path) -> None:
    for kill_at in range(1, 100):
        out = tmp_path / str(kill_at) / "out"
        out.parent.mkdir()
        ended = writer_that_ends(out, kill_at)
        assert not out.exists() or unfinished(out) == "diarize", kill_at
        with only_writer(out, command="diarize"):
            (out / "a").touch()
        assert names(out.parent) == ["out"] and names(out) == ["a"]
        if ended == 0:
            assert kill_at > 4
            return
    raise AssertionError("it never came to write")
