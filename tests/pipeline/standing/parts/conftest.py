"""The corpus of `standing`, built as a whole and in parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from inkplex_data.pipeline.outcome import Summary
from inkplex_data.pipeline.parts.cut_corpus import PartName
from inkplex_data.pipeline.run import build_store
from tests.pipeline.standing.conftest import Standing

PARTS = 3


@dataclass(frozen=True)
class Parted:
    whole: Standing
    parts: tuple[Path, ...]


def build_part(standing: Standing, folder: Path, number: int, of: int = PARTS, **options: object) -> Summary:
    return build_store(
        standing.manifest, folder, recipe=standing.recipe, workers=1, part=PartName(number, of), **options
    )  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def parted(made: Standing, tmp_path_factory: pytest.TempPathFactory) -> Parted:
    """Not to be written to."""
    root = tmp_path_factory.mktemp("parted")
    folders = tuple(root / f"part-{number}" for number in range(1, PARTS + 1))
    for number, folder in enumerate(folders, 1):
        assert build_part(made, folder, number).exit_code == 0
    return Parted(made, folders)
