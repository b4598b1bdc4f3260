"""A build that stops at any change that it makes to the disk is finished by the same command, in the same bytes."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inkplex_data as ink
from inkplex_data.errors import StoreError, UsageError
from inkplex_data.pipeline.target import refuse_foreign
from tests.pipeline.conftest import tree, write_call
from tests.pipeline.standing.conftest import Standing, line

WRITES = ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.link", "os.truncate", "shutil.rmtree")
SAMPLED = 4
"""Points that the whole suite tries, spread over a build."""


class Killed(BaseException):
    """Nothing below the build catches it, and while it is on its way nothing is written any more."""


class _Watch:
    """Counts the changes below a folder, and from the `stop_at`-th on lets none through."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.count = 0
        self.stop_at: int | None = None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None or not (event in WRITES or (event == "open" and _writes(arguments))):
            return
        changed = arguments[1] if event == "os.link" else arguments[0]
        if not isinstance(changed, str | os.PathLike) or self.folder not in os.fspath(changed):
            return
        self.count += 1
        if self.stop_at is not None and self.count >= self.stop_at:
            raise Killed(event)


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


WATCH = _Watch()
sys.addaudithook(WATCH)


def watched(folder: Path, run: Callable[[], object], stop_at: int | None = None) -> int:
    """Run to the end, or to the `stop_at`-th change; returns how many there were."""
    WATCH.folder, WATCH.count, WATCH.stop_at = str(folder), 0, stop_at
    try:
        run()
    except Killed:
        pass
    finally:
        WATCH.folder = None
    return WATCH.count


def first(standing: Standing) -> None:
    shutil.rmtree(standing.store)


def added(standing: Standing) -> None:
    write_call(standing.folder, "g", 77, 1.0)
    standing.write([*standing.lines, line("g", "train", None, None)])


def updated(standing: Standing) -> None:
    standing.say("a", "Goodbye?")
    standing.without("d")


def lost(standing: Standing) -> None:
    shutil.rmtree(standing.store / "calls/000001")


CASES: dict[str, tuple[Callable[[Standing], None], dict[str, Any]]] = {
    "first": (first, {}),
    "add": (added, {"add": True}),
    "update": (updated, {"update": True}),
    "repair": (lost, {}),
    "restart": (lambda standing: None, {"restart": True}),
}


@pytest.fixture(scope="module")
def few_made(made: Standing) -> Standing:
    """Three calls in two shards; not to be written to."""
    own = dataclasses.replace(
        made, manifest=made.folder / "few.jsonl", store=made.store.with_name("few-store")
    )
    own.manifest.write_text("".join(f"{json.dumps(one)}\n" for one in made.lines if one["id"] in "acd"))
    assert own.build().exit_code == 0
    return own


@pytest.fixture
def few(few_made: Standing, tmp_path: Path) -> Standing:
    """A copy to change."""
    shutil.copytree(few_made.folder, tmp_path / "corpus")
    shutil.copytree(few_made.store, tmp_path / "store")
    return dataclasses.replace(
        few_made, manifest=tmp_path / "corpus" / few_made.manifest.name, store=tmp_path / "store"
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("every", [pytest.param(True, marks=pytest.mark.slow), False])
def test_stopped_at_any_change(
    case: str, every: bool, few: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store opens in between with what it had. Encoded calls are lent from build to build, as they are the same."""
    prepare, options = CASES[case]
    prepare(few)
    before, store = tmp_path / "before", few.store
    if store.exists():
        shutil.copytree(store, before)
    else:
        before.mkdir()

    def build() -> None:
        few.build(**options)

    keep_results(monkeypatch)
    points = watched(store, build)
    wanted = tree(store)
    assert points > 20
    tried = range(1, points + 1) if every else range(points, 0, -(points // SAMPLED))
    for point in tried:
        shutil.rmtree(store)
        if any(before.iterdir()):
            shutil.copytree(before, store)
        watched(store, build, stop_at=point)
        if (store / "store.json").exists() and case not in ("restart", "repair"):
            opened = ink.open_store(store)
            assert all(opened.call(call_id).frames for call_id in opened.call_ids)
        assert few.build(**options).exit_code == 0
        assert tree(store) == wanted, f"stopped at change {point} of {points}"


def keep_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode each call once: what a build has made is lent to the next of the same sound."""
    from inkplex_data.pipeline.calls import build_call

    real = build_call.encode
    made: dict[str, Any] = {}

    def encode(streams: Any, *arguments: Any) -> Any:
        key = streams.scan.audio_sha256
        if key not in made:
            made[key] = real(streams, *arguments)
        return made[key]

    monkeypatch.setattr(build_call, "encode", encode)


def test_a_full_disk_is_said_with_its_path_and_a_rerun_goes_on(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from inkplex_data.errors import MachineFault
    from inkplex_data.pipeline import stage

    wanted = tree(standing.store)
    shutil.rmtree(standing.store)
    real = stage.save_result

    def full(folder: Path, made: Any) -> None:
        if folder.parent.name == "encode":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(folder, made)

    with monkeypatch.context() as patched, pytest.raises(MachineFault) as stopped:
        patched.setattr(stage, "save_result", full)
        standing.build()
    assert "encode 'a'" in str(stopped.value) and "bytes are free" in str(stopped.value)
    assert str(standing.store) in str(stopped.value)
    assert not list((standing.store / "calls").glob("*/shard.json"))
    assert standing.build().exit_code == 0
    assert tree(standing.store) == wanted


def test_what_the_machine_stopped_once_is_tried_again_and_no_call_is_refused_for_it(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inkplex_data.errors import MachineFault
    from inkplex_data.pipeline.calls import build_call

    wanted = tree(standing.store)
    shutil.rmtree(standing.store)
    real, failed = build_call.encode, []

    def short_of_memory(streams: Any, *arguments: Any) -> Any:
        if streams.scan.call_id not in failed:
            failed.append(streams.scan.call_id)
            raise MemoryError
        return real(streams, *arguments)

    monkeypatch.setattr(build_call, "encode", short_of_memory)
    assert standing.build().exit_code == 0
    assert tree(standing.store) == wanted and len(failed) == 6

    def never(streams: Any, *arguments: Any) -> Any:
        raise MemoryError

    shutil.rmtree(standing.store)
    monkeypatch.setattr(build_call, "encode", never)
    with pytest.raises(MachineFault, match="not enough memory"):
        standing.build()
    monkeypatch.setattr(build_call, "encode", real)
    assert standing.build().exit_code == 0
    assert tree(standing.store) == wanted


def test_a_store_to_be_is_taken_up_and_a_foreign_folder_is_not(standing: Standing) -> None:
    """Only a folder with a build's lock, and nothing but what builds write, is a build's."""
    wanted = tree(standing.store)
    (standing.store / "store.json").unlink()
    with pytest.raises(UsageError, match="no store"):
        standing.build()
    (standing.store / ".build").mkdir()
    (standing.store / ".build" / "lock").touch()
    (standing.store / "notes.txt").write_text("mine")
    with pytest.raises((UsageError, StoreError), match="no store"):
        standing.build()
    (standing.store / "notes.txt").unlink()
    assert standing.build().exit_code == 0
    assert tree(standing.store) == wanted


def test_a_build_that_had_no_lock_yet_is_taken_up(tmp_path: Path) -> None:
    (tmp_path / ".build").mkdir()
    refuse_foreign(tmp_path)
    for name in ("notes.txt", ".build/notes.txt"):
        (tmp_path / name).touch()
        with pytest.raises(UsageError, match="holds no store"):
            refuse_foreign(tmp_path)
        (tmp_path / name).unlink()
