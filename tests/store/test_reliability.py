"""No damage to any kind of file of a store goes without a word, and none is met by anything but the error family."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from inkplex_data.store.describe import write_description, write_pieces
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.reader import open_store
from tests.conftest import ROOT
from tests.store.damage import DAMAGES, KINDS, Cell, examine, page, read_all, restored
from tests.store.made import PIECES, Made, add_calls, add_prefixes, add_recordings, call_part

PAGE = ROOT / "docs/reference/reliability.md"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Path]:
    """A store of little with two snapshots, and another whose files are sound and not its own."""
    folder = tmp_path_factory.mktemp("reliability")
    made, other = (Made(str(folder / name)) for name in ("store", "other"))
    write_description(made.root, {"codec": {"id": "made"}, "configuration": {"memory": {"window": 8}}})
    write_pieces(made.root, [f"▁piece{i}" for i in range(PIECES)])
    memory = {"recording_id": "task", "recording_starts_at_us": 0, "prefix_id": "p0"}
    add_calls(made, 0, [call_part("first", 30, claims=1, **memory)])
    add_recordings(made, 0, {"task": 3})
    add_prefixes(made)
    publish_snapshot(made.root)
    shutil.copytree(made.root, other.root)
    for one, call_id in ((made, "second"), (other, "other")):
        add_calls(one, 1, [call_part(call_id, 30, claims=1)])
        add_recordings(one, 1, {call_id: 4})
        publish_snapshot(one.root)
    return made, Path(other.root)


def another(other: Path, key: str) -> Path:
    """A sound file of the same kind: of another shard, of another store where the shard has no second."""
    for one, two in (("calls/000000", "calls/000001"), ("recordings/000000", "recordings/000001")):
        if key.startswith(one) and not key.endswith("zarr.json"):
            return other / key.replace(one, two)
    if key == "snapshots/000002.json":
        return other / key
    if key == "snapshots/000001.json":
        return other / "snapshots/000002.json"
    if key.endswith("codes/zarr.json"):
        return other / key.replace("codes", "text")
    if key.endswith("arrays.zarr/zarr.json"):
        return other / key.replace("arrays.zarr", "arrays.zarr/codes")
    if key.endswith("states/zarr.json"):
        return other / key.replace("000000", "000001")
    if key in {"prefixes/000000/prefixes.parquet", "prefixes.parquet", "tokenizer.parquet"}:
        return other / "splits.parquet"
    if key == "store.json":
        return other / "newest.json"
    return other / key


Cells = dict[str, dict[str, Cell]]


def cells(
    two: tuple[Made, Path], caplog: pytest.LogCaptureFixture, done: Callable[[int, int], bool]
) -> Cells:
    """What is said of each damage to each kind of file, where `done(kind, damage)` says so of their numbers."""
    made, other = two
    with open_store(made.root) as store:
        sound = dict(read_all(store))

    def warnings() -> str:
        said = "\n".join(
            record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
        )
        caplog.clear()
        return said

    found: Cells = {}
    for row, (key, kind) in enumerate(KINDS.items()):
        path = Path(made.root, key)
        for column, (name, damage) in enumerate(DAMAGES.items()):
            if not done(row, column):
                continue
            before = path.read_bytes()
            with restored(path):
                damage(path, another(other, key))
                if path.is_file() and name != "not readable" and path.read_bytes() == before:
                    pytest.fail(f"{name} did nothing to {key}")
                found.setdefault(kind, {})[name] = examine(made, sound, warnings)
    assert examine(made, sound, warnings) == Cell((), "right"), "the store is as it was"
    assert [kind for kind, row in found.items() for cell in row.values() if not cell.verify] == []
    return found


def test_damage_is_told_as_the_page_says(
    two: tuple[Made, Path], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A fifth of the page: every kind of file with two damages, and every damage with several kinds."""
    found = cells(two, caplog, lambda row, column: (row + 2 * column) % 5 == 0)
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in PAGE.read_text("utf-8").splitlines()}
    names = [name.strip() for name in rows["file"].strip("|").split("|")][1:]
    for kind, row in found.items():
        said = dict(zip(names, rows[kind].removesuffix(" |").split(" | ")[1:], strict=True))
        for name, cell in row.items():
            if name != "not readable":
                assert cell.told == said[name], f"{kind}, {name}: run it with INKPLEX_UPDATE=1"
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.slow
def test_no_damage_goes_without_a_word(
    two: tuple[Made, Path], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    written = page(cells(two, caplog, lambda row, column: True))
    assert "panicked" not in capfd.readouterr().err
    if os.environ.get("INKPLEX_UPDATE"):
        PAGE.write_text(written, encoding="utf-8")
    assert written == PAGE.read_text(encoding="utf-8"), "run it with INKPLEX_UPDATE=1"


def test_every_kind_of_file_is_damaged(two: tuple[Made, Path]) -> None:
    """Each file of the store is one of the kinds, or its like in another shard or array."""
    root = Path(two[0].root)

    def kind(key: str) -> str:
        key = re.sub(r"/0000\d\d/", "/N/", key)
        array = "states" if "/states/" in key else "A"
        return re.sub(r"arrays\.zarr/\w+/(zarr\.json|c/.*)$", lambda found: f"{array}/{found[1][:2]}", key)

    known = {kind(key) for key in KINDS}
    known |= {kind(key.replace("calls/000000/arrays", "prefixes/000000/arrays")) for key in KINDS}
    known |= {
        kind(key.replace("calls/000000/arrays.zarr/zarr", "recordings/000000/arrays.zarr/zarr"))
        for key in KINDS
    }
    known |= {f"{shards}/N/shard.json" for shards in ("recordings", "prefixes")}
    keys = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    assert [key for key in keys if kind(key) not in known] == []
