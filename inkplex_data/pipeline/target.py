"""The store that a build writes into: what it holds already, and which numbers come next."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from inkplex_data.config.recipe import Recipe, validation_faults
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.pipeline.ledger import LEDGER, Ledger
from inkplex_data.problems import Problem
from inkplex_data.store.describe import (
    configuration_digest,
    read_description,
    write_description,
    write_pieces,
)
from inkplex_data.store.format import SHARD_KINDS, ShardKind
from inkplex_data.store.publish import published_shards, shard_folder
from inkplex_data.store.reader import Store, open_store
from inkplex_data.store.snapshot import read_snapshot, snapshot_numbers


@dataclass
class Target:
    """A store under construction. Only what a snapshot lists is fixed; later shards are this build's own."""

    root: Path
    calls: pl.DataFrame
    recordings: pl.DataFrame
    prefixes: pl.DataFrame
    refused: frozenset[str]
    has_snapshot: bool
    fixed: Mapping[ShardKind, int]
    """Per kind, the first shard number that no snapshot lists."""
    described: dict[str, Any] | None = None
    _ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.root)

    def unpublished(self, entries: Sequence[CallEntry], *, add: bool) -> list[CallEntry]:
        """The calls still to build. Raises UsageError for new ones in a finished store without `add`."""
        known = set(self.calls["call_id"].to_list())
        left = [entry for entry in entries if entry.call_id not in known]
        new = [entry.call_id for entry in left if entry.call_id not in self.refused]
        if self.has_snapshot and new and not add:
            raise UsageError(
                f"{len(new)} calls of the corpus are not in this store, among them {new[0]!r}",
                where=str(self.root),
                next_step="Use --add to publish them as a new snapshot, or --restart to start again.",
            )
        return left

    @property
    def frozen_splits(self) -> dict[str, str]:
        """Family → split of the published calls, which never move."""
        return dict(self.calls.select("family", "split").unique().iter_rows())

    def next_index(self, table: pl.DataFrame, column: str) -> int:
        """The first unused call_ix or recording_ix."""
        return int(table[column].max()) + 1 if table.height else 0  # type: ignore[arg-type]

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
            f"{part}: the store has {_name(self.described.get(part))}, this build has {_name(wanted.get(part))}"
            for part in ("codec", "tokenizer", "model", "whisper")
            if self.described.get(part) is not None
            and wanted.get(part) is not None
            and self.described[part] != wanted[part]
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

    def is_published(self, kind: ShardKind, shard: int, stamp_: str) -> bool:
        """Whether the shard is there as this plan wants it. One that differs is removed."""
        published = (self.root / shard_folder(kind, shard) / "shard.json").is_file()
        if self._noted(kind, shard).get("stamp") == stamp_:
            return published
        if published:
            shutil.rmtree(self.root / shard_folder(kind, shard))
        return False

    def note(
        self,
        kind: ShardKind,
        shard: int,
        stamp_: str,
        members: Sequence[str],
        refused: Sequence[Problem] = (),
    ) -> None:
        """Write down what the shard is about to hold, and which of its planned calls were refused."""
        path = self._note_path(kind, shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"stamp": stamp_, "members": list(members), "refused": [vars(problem) for problem in refused]}
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(body, ensure_ascii=False), encoding="utf-8")
        temporary.replace(path)

    def noted_members(self, kind: ShardKind, shard: int) -> list[str]:
        return list(self._noted(kind, shard).get("members", ()))

    def noted_refusals(self, kind: ShardKind, shard: int) -> list[Problem]:
        return [Problem(**problem) for problem in self._noted(kind, shard).get("refused", ())]

    def drop_beyond(self, kind: ShardKind, last: int) -> None:
        """Remove unlisted shards past this plan's last one: an interrupted build of a larger corpus left them."""
        for info in published_shards(self.root, kind):
            if info.shard > max(last, self.fixed[kind] - 1):
                shutil.rmtree(self.root / info.key)

    def _note_path(self, kind: ShardKind, shard: int) -> Path:
        return self._ledger.root / "shards" / f"{kind}-{shard:06d}.json"

    def _noted(self, kind: ShardKind, shard: int) -> dict[str, Any]:
        try:
            found = json.loads(self._note_path(kind, shard).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def refuse_foreign(root: Path) -> None:
    """Raise UsageError for a folder that holds something, but no store; it is not touched."""
    if (root / "store.json").exists() or not root.exists():
        return
    if not root.is_dir() or any(path.name != LEDGER for path in root.iterdir()):
        raise UsageError(
            "the folder is not empty, but holds no store",
            where=str(root),
            next_step="Choose another folder for -o.",
        )


def open_target(root: Path, recipe: Recipe) -> Target:
    """Open the folder that a build writes into, which need not exist.

    Raises ConfigError for a store of another recipe, naming the keys that differ, and StoreError for one
    of another format.
    """
    described = None
    if (root / "store.json").exists():
        described = read_description(root)
        _same_recipe(root, described, recipe)
    numbers = snapshot_numbers(root) if described else []
    fixed: dict[ShardKind, int] = dict.fromkeys(SHARD_KINDS, 0)
    if not numbers:
        empty: dict[str, pl.DataFrame] = {
            "calls": pl.DataFrame(
                schema={
                    "call_id": pl.String,
                    "call_ix": pl.Int64,
                    "family": pl.String,
                    "split": pl.String,
                    "audio_sha256": pl.String,
                }
            ),
            "recordings": pl.DataFrame(
                schema={"recording_id": pl.String, "recording_ix": pl.Int32, "content_sha256": pl.String}
            ),
            "prefixes": pl.DataFrame(schema={"prefix_id": pl.String}),
        }
        return Target(
            root, empty["calls"], empty["recordings"], empty["prefixes"], frozenset(), False, fixed, described
        )
    snapshot = read_snapshot(root)
    for ref in snapshot.shards:
        fixed[ref.kind] = max(fixed[ref.kind], ref.shard + 1)
    with open_store(root) as store:
        return Target(
            root,
            *_tables(store),
            frozenset(problem.call_id for problem in snapshot.refused),
            True,
            fixed,
            described,
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


def _tables(store: Store) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    return (
        store.calls().collect(),
        store.recordings().collect(),
        store.prefixes().collect(),
    )


def _same_recipe(root: Path, described: Mapping[str, Any], recipe: Recipe) -> None:
    wanted = recipe.model_dump(mode="json", exclude={"name"})
    stored = {key: value for key, value in described.get("configuration", {}).items() if key != "name"}
    with suppress(ValidationError):
        # A key that came after the store does what was done before it unless it is set.
        stored = Recipe.model_validate(stored).model_dump(mode="json", exclude={"name"})
    if stored == wanted:
        return
    faults = [
        f"{key}: the store has {old!r}, this build asks for {new!r}"
        for key, old, new in _differences(stored, wanted)
    ]
    raise ConfigError(
        "the store was built with a different recipe",
        where=str(root),
        faults=faults,
        next_step="Use the same recipe or another folder, or start again with --restart.",
    )


def _differences(stored: Any, wanted: Any, at: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(stored, dict) and isinstance(wanted, dict):
        found = []
        for key in sorted(stored.keys() | wanted.keys()):
            found += _differences(stored.get(key), wanted.get(key), f"{at}.{key}" if at else key)
        return found
    return [] if stored == wanted else [(at, stored, wanted)]


def _name(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    digest = f" ({str(part['sha256'])[:12]})" if part.get("sha256") else ""
    return f"{part.get('id') or part.get('name')}{digest}"
