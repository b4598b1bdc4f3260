"""A built call on its way from the unit that made it to the shard that takes it: a folder of plain files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import polars as pl

from inkplex_data.problems import Problem
from inkplex_data.store.shard import CallPart

ARRAYS = ("codes", "text", "role", "mask", "level")


def save_part(folder: Path, part: CallPart) -> None:
    """Write `part` into `folder`, which exists."""
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", getattr(part, name), allow_pickle=False)
    part.words.write_ipc(folder / "words.arrow")
    part.versions.write_ipc(folder / "versions.arrow")
    problems = [dataclasses.asdict(problem) for problem in part.problems]
    (folder / "part.json").write_text(
        json.dumps({"row": part.row, "problems": problems}, ensure_ascii=False), encoding="utf-8"
    )


def load_part(folder: Path) -> CallPart:
    """Read what `save_part` wrote."""
    arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in ARRAYS}
    document = json.loads((folder / "part.json").read_text(encoding="utf-8"))
    return CallPart(
        row=document["row"],
        words=pl.read_ipc(folder / "words.arrow"),
        versions=pl.read_ipc(folder / "versions.arrow"),
        problems=[Problem(**problem) for problem in document["problems"]],
        **arrays,
    )
