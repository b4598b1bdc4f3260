"""A built call on its way from the unit that made it to the shard that takes it: a folder of plain files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from inkplex_data.problems import Problem
from inkplex_data.store.format import ShardKind
from inkplex_data.store.frame_streams import stored_in
from inkplex_data.store.shard import CallPart


def save_streams(folder: Path, streams: Mapping[str, np.ndarray]) -> None:
    """Write streams into `folder`, which exists, one file each."""
    for name, values in streams.items():
        np.save(folder / f"{name}.npy", values, allow_pickle=False)


def load_streams(folder: Path, kind: ShardKind) -> dict[str, np.ndarray]:
    """What `save_streams` wrote of the streams that shards of `kind` have."""
    paths = {stream.name: folder / f"{stream.name}.npy" for stream in stored_in(kind)}
    return {name: np.load(path, allow_pickle=False) for name, path in paths.items() if path.exists()}


def save_part(folder: Path, part: CallPart) -> None:
    """Write `part` into `folder`, which exists."""
    save_streams(folder, part.streams)
    part.words.write_ipc(folder / "words.arrow")
    part.versions.write_ipc(folder / "versions.arrow")
    problems = [dataclasses.asdict(problem) for problem in part.problems]
    (folder / "part.json").write_text(
        json.dumps({"row": part.row, "problems": problems}, ensure_ascii=False), encoding="utf-8"
    )


def load_part(folder: Path) -> CallPart:
    """Read what `save_part` wrote."""
    document = json.loads((folder / "part.json").read_text(encoding="utf-8"))
    return CallPart(
        row=document["row"],
        streams=load_streams(folder, "calls"),
        words=pl.read_ipc(folder / "words.arrow"),
        versions=pl.read_ipc(folder / "versions.arrow"),
        problems=[Problem(**problem) for problem in document["problems"]],
    )
