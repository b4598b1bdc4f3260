"""A store with everything that an audit looks at, and a bench on which it is tampered with."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import zarr

import inkplex_data as ink
from inkplex_data.audit.stored_requests import request_rows
from inkplex_data.config.recipe import CaptureConfig, Recipe
from inkplex_data.pipeline.run import build_store
from inkplex_data.store.digests import digest_file
from inkplex_data.store.parquet import TableWriter
from inkplex_data.store.publish_snapshot import publish_snapshot
from tests.pipeline.conftest import tree, write_call
from tests.pipeline.memory_made import DIALOGUES, WINDOW, make_memory_corpus

TURNS = 8
"""Of each dialogue, so that its states are soon computed."""
LONG_S = {"amy-0": 5.0, "amy-1": 2.5}


@dataclass(frozen=True)
class Audited:
    corpus: Path
    store: Path


def make_audited(folder: Path, recipe: Recipe) -> Audited:
    """Calls over dialogues, twins with sidecars, and two calls of one voice; states by the small untrained model."""
    begun = [{**one, "original": one["original"][:TURNS]} for one in json.loads(DIALOGUES.read_text())]
    (folder / DIALOGUES.name).write_text(json.dumps(begun))
    manifest = make_memory_corpus(folder / "corpus", folder / DIALOGUES.name)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    for name, seconds in LONG_S.items():
        write_call(folder / "corpus", name, sum(name.encode()), seconds)
        words = folder / "corpus" / f"{name}.json"
        words.write_text(words.read_text().replace("eighty", "caf\\u00e9"))
        told = {"voice": "amy", "role": "You are kind.", "split": "train", "family": name}
        lines.append({"id": name, "path": f"{name}.wav", **told})
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capture = CaptureConfig(model="small:0")
    memory = recipe.memory.model_copy(update={"window": WINDOW, "capture": capture})  # type: ignore[union-attr]
    store = recipe.store.model_copy(update={"shard_bytes": 10**8})
    ours = recipe.model_copy(update={"memory": memory, "store": store})
    summary = build_store(manifest, folder / "store", recipe=ours, workers=1)
    assert summary.exit_code == 0, summary.text()
    bench = Bench(folder / "store")
    bench.change_table("recordings", _with_digests(bench))
    bench.mend()
    shutil.rmtree(bench.root / "snapshots")
    (bench.root / "newest.json").unlink()
    publish_snapshot(bench.root)
    return Audited(manifest, folder / "store")


def _with_digests(bench: Bench) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Add what the states of each request were when they were made, where a build does not say it itself."""
    kind = pl.List(pl.Struct({"request": pl.Int32, "rows": pl.Int64, "sha256": pl.String}))

    def change(table: pl.DataFrame) -> pl.DataFrame:
        if "state_digests" in table.columns:
            return table
        digests = []
        with ink.open_store(bench.root) as store:
            for row in table.iter_rows(named=True):
                tokens = store.tokens().filter(pl.col("recording_id") == row["recording_id"]).collect()
                states = store.states(row["shard"]).read_rows(
                    row["token_offset"], row["token_offset"] + row["tokens"]
                )
                digests.append(
                    [
                        {
                            "request": number,
                            "rows": stop - first,
                            "sha256": hashlib.sha256(states[first:stop].astype("<u2").tobytes()).hexdigest(),
                        }
                        for number, first, stop in request_rows(tokens)
                    ]
                )
        return table.with_columns(pl.Series("state_digests", digests, dtype=kind))

    return change


class Bench:
    """A store in which tables and arrays are changed as a buggy writer would: what is published fits its digests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._changed: set[Path] = set()
        with ink.open_store(root) as store:
            self.calls = {row["call_id"]: row for row in store.calls().collect().iter_rows(named=True)}
            self.recordings = {
                row["recording_id"]: row for row in store.recordings().collect().iter_rows(named=True)
            }

    @classmethod
    def copy(cls, store: Path, folder: Path) -> Bench:
        """A store without a snapshot, as one whose first build is not over: its shards speak for themselves."""
        shutil.copytree(store, folder, ignore=shutil.ignore_patterns("snapshots", "newest.json"))
        for name in ("calls", "recordings", "prefixes", "problems", "splits"):
            (folder / f"{name}.parquet").unlink()
        return cls(folder)

    def change_table(self, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Change a table of every shard that has it."""
        for path in sorted(self.root.glob(f"*/*/{name}.parquet")):
            old = pl.read_parquet(path)
            new = change(old)
            if not new.equals(old):
                with TableWriter(path, new.schema) as writer:
                    writer.write(new)
                self._changed.add(path)

    def change_array(self, place: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Change an array, `KIND/SHARD/NAME`."""
        kind, shard, name = place.split("/")
        path = self.root / kind / shard / "arrays.zarr" / name
        array = zarr.open_array(path, mode="r+")
        old = np.asarray(array[...])
        new = change(old.copy())
        assert not np.array_equal(old, new), place
        array[...] = new
        self._changed |= {file for file in path.rglob("*") if file.is_file()}

    def stream(self, call_id: str, name: str, change: Callable[[np.ndarray], Any]) -> None:
        """Change a stream of a call in place, [F] or [F, width]."""
        row = self.calls[call_id]
        own = slice(row["frame_offset"], row["frame_offset"] + row["frames"])
        self._part(f"calls/{row['shard']:06d}/{name}", own, change)

    def states(self, recording_id: str, change: Callable[[np.ndarray], Any]) -> None:
        """Change a recording's states in place, [N, 3, D]."""
        row = self.recordings[recording_id]
        own = slice(row["token_offset"], row["token_offset"] + row["tokens"])
        self._part(f"recordings/{row['shard']:06d}/states", own, change)

    def prefix(self, call_id: str, name: str, change: Callable[[np.ndarray], Any]) -> None:
        """Change a stream of a call's prefix in place, [P] or [P, width]."""
        with ink.open_store(self.root) as store:
            row = store.prefix_by_id(self.calls[call_id]["prefix_id"]).row
        own = slice(row["frame_offset"], row["frame_offset"] + row["frames"])
        self._part(f"prefixes/{row['shard']:06d}/{name}", own, change)

    def _part(self, place: str, own: slice, change: Callable[[np.ndarray], Any]) -> None:
        def whole(array: np.ndarray) -> np.ndarray:
            made = change(array[own])
            if made is not None:
                array[own] = made
            return array

        self.change_array(place, whole)

    def mend(self) -> None:
        """Mend every digest of what was changed, as whoever writes a shard writes its digests too."""
        for path in self._changed:
            shard = next(parent for parent in path.parents if (parent / "shard.json").is_file())
            document = json.loads((shard / "shard.json").read_bytes())
            name = path.relative_to(shard).as_posix()
            document["files"][name] = vars(digest_file(path))
            if path.stem in document["counts"]:
                document["counts"][path.stem] = pq.read_metadata(path).num_rows
            (shard / "shard.json").write_text(json.dumps(document))
        self._changed.clear()

    @contextmanager
    def tampered(self, tamper: Callable[[Bench], None]) -> Iterator[None]:
        """The store with `tamper` done to it; afterwards it is as it was."""
        sound = tree(self.root)
        try:
            tamper(self)
            self.mend()
            assert tree(self.root) != sound
            yield
        finally:
            self._changed.clear()
            for name in tree(self.root).keys() - sound.keys():
                (self.root / name).unlink()
            for name, data in sound.items():
                if (self.root / name).read_bytes() != data:
                    (self.root / name).write_bytes(data)
