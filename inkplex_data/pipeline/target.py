"""The store that a build writes into: what it holds already, and which numbers come next."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import polars as pl
from pydantic import ValidationError

from inkplex_data.atomic import write_json
from inkplex_data.config.recipe import Recipe, validation_faults
from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.pipeline.ledger import LEDGER, LOCK, Ledger
from inkplex_data.speech.codec_identity import same_codec, unusual_arithmetic
from inkplex_data.store.catalog import KIND_OF, Catalog, IndexTable
from inkplex_data.store.describe import (
    configuration_digest,
    read_description,
    write_description,
    write_pieces,
)
from inkplex_data.store.files import Files, LocalFiles, open_files
from inkplex_data.store.format import SHARD_KINDS, ShardKind
from inkplex_data.store.publish import is_sound, shard_folder, shard_numbers, withdraw
from inkplex_data.store.snapshot import NEWEST_KEY, ShardRef, Snapshot, read_snapshot, snapshot_numbers

STORE_NAMES: Final = frozenset(
    {LEDGER, "store.json", "tokenizer.parquet", NEWEST_KEY, "snapshots", "splits.parquet", *SHARD_KINDS}
    | {f"{table}.parquet" for table in KIND_OF}
)
"""What lies directly in the folder of a store, finished or begun."""


@dataclass
class Target:
    """A store under construction. Only what a snapshot lists is fixed; later shards are this build's own.

    `calls`, `recordings`, `prefixes`: rows of the newest snapshot, those of lost shards too where the root tables
    still have them. `frozen_splits`: family → split of the published calls, which never move.
    """

    root: Path
    snapshot: Snapshot | None
    calls: pl.DataFrame
    recordings: pl.DataFrame
    prefixes: pl.DataFrame
    lost: tuple[ShardRef, ...]
    """Listed shards that are gone, or whose files are not all there at their sizes."""
    unknown: tuple[ShardRef, ...]
    """Those of `lost` of which nothing says what they held."""
    fixed: Mapping[ShardKind, int]
    """Per kind, the first shard number that no snapshot lists."""
    frozen_splits: Mapping[str, str]
    next_ix: Mapping[ShardKind, int]
    """The first unused `call_ix` and `recording_ix`."""
    described: dict[str, Any] | None = None
    _ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.root)

    @property
    def refused(self) -> frozenset[str]:
        """Calls that the newest snapshot knows as refused."""
        return (
            frozenset(problem.call_id for problem in self.snapshot.refused) if self.snapshot else frozenset()
        )

    def lost_numbers(self, kind: ShardKind) -> list[int]:
        return [ref.shard for ref in self.lost if ref.kind == kind]

    def describe(self, recipe: Recipe, description: Mapping[str, Any], pieces: Sequence[str]) -> None:
        """Write `store.json` unless it is there; identities that differ from it are refused."""
        wanted = {
            "configuration": recipe.model_dump(mode="json"),
            "configuration_sha256": configuration_digest(recipe.model_dump(mode="json", exclude={"name"})),
            **description,
        }
        if self.described is None or (
            self.described.get("codec") is None and description.get("codec") is not None
        ):
            self.root.mkdir(parents=True, exist_ok=True)
            if pieces:
                write_pieces(self.root, pieces)
            write_description(self.root, wanted)
            self.described = wanted
            return
        differing = [
            f"{part}: the store has {named(self.described.get(part))}, this build has {named(wanted.get(part))}"
            for part in ("codec", "tokenizer", "whisper")
            if self.described.get(part) is not None
            and wanted.get(part) is not None
            and not is_same_tool(part, self.described[part], wanted[part])
        ]
        if differing:
            raise ConfigError(
                "the store was made with different tools",
                where=str(self.root),
                faults=differing,
                next_step="Build into another folder, or start again with --restart.",
            )
        # The first recording, or the first call without words, came with a later snapshot.
        late = {part: wanted[part] for part in ("model", "whisper") if wanted.get(part) is not None}
        if not late.items() <= self.described.items():
            self.described = self.described | late
            write_description(self.root, self.described)

    # Shards of this build: what they hold is noted before they are published, so that a rerun can tell
    # a shard of its own plan from one that an earlier, different corpus left behind.

    def holds(self, kind: ShardKind, shard: int, stamp_: str) -> bool:
        """Whether the shard is there as this plan wants it."""
        published = (self.root / shard_folder(kind, shard) / "shard.json").is_file()
        return published and self._noted(kind, shard) == stamp_

    def is_published(self, kind: ShardKind, shard: int, stamp_: str) -> bool:
        """As `holds`. One that differs is removed."""
        if self._noted(kind, shard) == stamp_:
            return self.holds(kind, shard, stamp_)
        withdraw(self.root / shard_folder(kind, shard))
        return False

    def note(self, kind: ShardKind, shard: int, stamp_: str) -> None:
        """Write down what the shard is about to hold."""
        path = self._note_path(kind, shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"stamp": stamp_})

    def drop_beyond(self, kind: ShardKind, last: int) -> None:
        """Remove unlisted shards past this plan's last one: an interrupted build of a larger corpus left them."""
        for shard in shard_numbers(open_files(self.root), kind):
            if shard > max(last, self.fixed[kind] - 1):
                withdraw(self.root / shard_folder(kind, shard))

    def drop_unlisted(self) -> None:
        """Remove every shard that no snapshot lists."""
        for kind in SHARD_KINDS:
            self.drop_beyond(kind, self.fixed[kind] - 1)

    def _note_path(self, kind: ShardKind, shard: int) -> Path:
        return self._ledger.root / "shards" / f"{kind}-{shard:06d}.json"

    def _noted(self, kind: ShardKind, shard: int) -> str | None:
        try:
            found = json.loads(self._note_path(kind, shard).read_bytes())
        except (OSError, ValueError):
            return None
        return found.get("stamp") if isinstance(found, dict) else None


def refuse_foreign(root: Path) -> None:
    """Raise UsageError for a folder that holds something, but no store; it is not touched.

    A build's own working folder and the names of a store, whatever of them a build left when it was stopped,
    are a store to be.
    """
    if (root / "store.json").exists() or not root.exists():
        return
    if root.is_dir():
        names = {path.name for path in root.iterdir()}
        # One that was stopped before it had its lock has nothing else either.
        begun = (root / LEDGER / LOCK).exists() or (names == {LEDGER} and _is_empty(root / LEDGER))
        if not names or (begun and all(name in STORE_NAMES or _is_temporary(name) for name in names)):
            return
    raise UsageError(
        "the folder is not empty, but holds no store",
        where=str(root),
        next_step="Choose another folder for -o.",
    )


def refuse_other_part(target: Target, part: Mapping[str, Any] | None) -> None:
    """Raise UsageError where the store holds another part of a corpus than `part`, as `store.json` says it, or all of it."""
    if target.described is None or target.described.get("part") == part:
        return
    own, where = target.described.get("part"), str(target.root)
    if own is None or part is None:
        held = "a whole corpus" if own is None else f"part {own['number']}/{own['of']} of one"
        step = "Choose another folder, or start again with --restart."
        raise UsageError(f"the store holds {held}", where=where, next_step=step)
    if (own["number"], own["of"]) != (part["number"], part["of"]):
        what = f"the store holds part {own['number']}/{own['of']}, not {part['number']}/{part['of']}"
        raise UsageError(what, where=where, next_step="Build each part into a folder of its own.")
    raise UsageError(
        f"the calls of the corpus are others than when part {own['number']}/{own['of']} was begun",
        where=where,
        next_step="Build all parts again with --restart, or merge those of before and add the new calls to that store.",
    )


def empty_store(root: Path) -> None:
    """Remove what a build makes, and nothing else that may lie in the folder.

    `store.json` goes first: without it, what a stop leaves behind is no store, and goes when the next build begins.
    """
    for name in ("store.json", NEWEST_KEY):
        (root / name).unlink(missing_ok=True)
    for name in ("snapshots", *SHARD_KINDS):
        shutil.rmtree(root / name, ignore_errors=True)
    for name in sorted(STORE_NAMES):
        if name.endswith(".parquet"):
            (root / name).unlink(missing_ok=True)


def open_target(root: Path, recipe: Recipe) -> Target:
    """Open the folder that a build writes into, which holds a store or what a stopped build left of one.

    What dead builds were writing is removed. Raises ConfigError for a store of another recipe, naming the keys
    that differ, and StoreError for one of another format.
    """
    described = None
    if (root / "store.json").exists():
        described = read_description(root)
        _same_recipe(root, described, recipe)
    else:
        empty_store(root)
    for folder in (root, root / "snapshots", *(root / kind for kind in SHARD_KINDS)):
        _remove_temporary(folder)
    files = open_files(root)
    snapshots = [read_snapshot(files, number) for number in snapshot_numbers(files)]
    fixed: dict[ShardKind, int] = dict.fromkeys(SHARD_KINDS, 0)
    for ref in (ref for snapshot in snapshots for ref in snapshot.shards):
        fixed[ref.kind] = max(fixed[ref.kind], ref.shard + 1)
    newest = snapshots[-1] if snapshots else Snapshot(0, (), ())
    lost = tuple(ref for ref in newest.shards if not is_sound(files, ref.kind, ref.shard, ref.sha256))
    tables, unknown = _tables(files, newest, lost)
    calls, recordings = tables["calls"], tables["recordings"]
    return Target(
        root,
        newest if snapshots else None,
        calls,
        recordings,
        tables["prefixes"],
        lost,
        unknown,
        fixed,
        frozen_splits=dict(calls.select("family", "split").unique().iter_rows()),
        next_ix={"calls": _past(calls["call_ix"]), "recordings": _past(recordings["recording_ix"])},
        described=described,
    )


def stored_recipe(root: Path) -> Recipe | None:
    """The recipe that the store in `root` was begun with, None where there is no store yet."""
    if not (root / "store.json").exists():
        return None
    configuration = read_description(root).get("configuration")
    try:
        return Recipe.model_validate(configuration)
    except ValidationError as error:
        raise ConfigError(
            "the store's recipe is not valid in this version",
            where=str(root / "store.json"),
            faults=validation_faults(error),
        ) from error


def _tables(
    files: Files, snapshot: Snapshot, lost: Sequence[ShardRef]
) -> tuple[dict[IndexTable, pl.DataFrame], tuple[ShardRef, ...]]:
    """Rows of calls, recordings and prefixes, and the lost shards whose rows nothing has."""
    whole = Catalog(files, snapshot)
    present = Catalog(
        files, replace(snapshot, shards=tuple(ref for ref in snapshot.shards if ref not in lost))
    )
    found: dict[IndexTable, pl.DataFrame] = {}
    unknown: list[ShardRef] = []
    for table in ("calls", "recordings", "prefixes"):
        missing = [ref for ref in lost if ref.kind == table]
        is_listed = not missing or whole.indexed(table)
        found[table] = (whole if is_listed else present).frame(table)
        unknown += [] if is_listed else missing
    return found, tuple(unknown)


def _past(column: pl.Series) -> int:
    """The first number past those of a column, 0 where it is empty."""
    return int(column.max()) + 1 if len(column) else 0  # type: ignore[arg-type]


def _is_temporary(name: str) -> bool:
    """Whether a file or folder is one that becomes something by rename: `.tmp-…` and `.NAME.PID.tmp`."""
    return name.startswith(".tmp-") or (name.startswith(".") and name.endswith(".tmp"))


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _remove_temporary(folder: Path) -> None:
    for path in [*folder.iterdir()] if folder.is_dir() else []:
        if _is_temporary(path.name):
            LocalFiles(folder).remove(path.name)


def _same_recipe(root: Path, described: Mapping[str, Any], recipe: Recipe) -> None:
    wanted = recipe.model_dump(mode="json", exclude={"name"})
    stored = {key: value for key, value in described.get("configuration", {}).items() if key != "name"}
    _forget_acceptance(wanted)
    with suppress(ValidationError):
        # A key that came after the store does what was done before it unless it is set.
        stored = Recipe.model_validate(stored).model_dump(mode="json", exclude={"name"})
    _forget_acceptance(stored)
    if stored == wanted:
        return
    faults = [
        f"{key}: the store has {old!r}, this build asks for {new!r}"
        for key, old, new in differing_keys(stored, wanted)
    ]
    raise ConfigError(
        "the store was built with a different recipe",
        where=str(root),
        faults=faults,
        next_step="Use the same recipe or another folder, or start again with --restart.",
    )


def _forget_acceptance(recipe: dict[str, Any]) -> None:
    """Unidentified states are marked in every recording that has them, so that a later build may accept them or not."""
    if isinstance(recipe.get("memory"), dict):
        recipe["memory"].pop("accept_unidentified_states", None)


def differing_keys(stored: Any, wanted: Any, at: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(stored, dict) and isinstance(wanted, dict):
        found = []
        for key in sorted(stored.keys() | wanted.keys()):
            found += differing_keys(stored.get(key), wanted.get(key), f"{at}.{key}" if at else key)
        return found
    return [] if stored == wanted else [(at, stored, wanted)]


def is_same_tool(part: str, one: Any, other: Any) -> bool:
    """Whether two descriptions of the tool `part` in `store.json` mean the same."""
    return same_codec(one, other) if part == "codec" else bool(one == other)


def named(part: Any) -> str:
    """A tool as `store.json` describes it, in a few words."""
    if not isinstance(part, dict):
        return str(part)
    told = [str(part["sha256"])[:12]] if part.get("sha256") else []
    told += unusual_arithmetic(part)
    return f"{part.get('id') or part.get('name')}" + (f" ({', '.join(told)})" if told else "")
