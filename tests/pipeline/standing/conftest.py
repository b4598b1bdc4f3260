"""A corpus of short calls with memory, voices and roles over several shards, its store, copies of both to change, and
the same corpus built in parts."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.pipeline.outcome import Summary
from inkplex_data.pipeline.parts.cut_corpus import PartName
from inkplex_data.pipeline.parts.merge_stores import merge_stores
from inkplex_data.pipeline.run import build_store
from tests.memory.identified import identify_files
from tests.pipeline.conftest import write_call, write_manifest
from tests.quick_codec import QUICK

SECONDS = 1.0
PARTS = 3
CALLS = (
    ("a", "train", "amy", "red"),
    ("b", "train", "amy", "red"),
    ("c", "validation", "bob", "blue"),
    ("d", "validation", "bob", "green"),
    ("e", "validation", None, "pink"),
    ("f", "train", None, None),
)
"""Id, split, voice, recording."""


def write_recording(path: Path, name: str, text: str) -> None:
    """A recording of a few tokens, with imported states of its own."""
    tokens = [
        {"id": at + 5, "kind": "user", "text": f" {word}", "at": 0.1 * at}
        for at, word in enumerate(text.split())
    ]
    states = np.random.default_rng(len(text)).standard_normal((len(tokens), 3, 8)).astype(np.float32)
    write_states(path.with_suffix(".safetensors"), states)
    header = {"schema": "inkplex/recording@1", "recording": name}
    request = {"call": 0, "cached": None, "tokens": tokens, "states": f"{path.stem}.safetensors"}
    path.write_text(f"{json.dumps(header)}\n{json.dumps(request)}\n")
    identify_files(path)


def write_states(path: Path, states: np.ndarray) -> None:
    from safetensors.numpy import save_file

    save_file({"states": states}, path)


def line(name: str, split: str, voice: str | None, recording: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"id": name, "path": f"{name}.wav", "family": f"family {name}", "split": split}
    if voice:
        found |= {"voice": voice, "role": "Be kind."}
    if recording:
        found |= {"recording": f"{recording}.jsonl", "recording_starts_at": 0.1}
    return found


@dataclass
class Standing:
    """A corpus and a store that was built from it."""

    manifest: Path
    store: Path
    recipe: Recipe

    @property
    def folder(self) -> Path:
        return self.manifest.parent

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(one) for one in self.manifest.read_text().splitlines()]

    def write(self, lines: list[dict[str, Any]]) -> None:
        self.manifest.write_text("".join(f"{json.dumps(one)}\n" for one in lines))

    def without(self, *names: str) -> None:
        self.write([one for one in self.lines if one["id"] not in names])

    def say(self, name: str, word: str) -> None:
        """Another transcript."""
        path = self.folder / f"{name}.json"
        path.write_text(path.read_text().replace("Hello?", word))

    def build(self, **options: Any) -> Summary:
        return build_store(self.manifest, self.store, recipe=self.recipe, workers=1, **options)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Standing:
    """Not to be written to."""
    root = tmp_path_factory.mktemp("standing")
    folder = root / "corpus"
    folder.mkdir()
    for name in ("red", "blue", "green", "pink"):
        write_recording(folder / f"{name}.jsonl", name, f"the {name} bill is late again")
    for seed, (name, *_) in enumerate(CALLS):
        write_call(folder, name, seed + 40, SECONDS)
    manifest = write_manifest(folder, [line(*call) for call in CALLS])
    recipe = load_recipe(None, {"codec.id": QUICK, "store.shard_bytes": 4_000})
    standing = Standing(manifest, root / "store", recipe)
    summary = standing.build()
    assert summary.exit_code == 0, summary.text()
    return standing


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


@pytest.fixture(scope="session")
def joined(parted: Parted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store of the parts. Not to be written to."""
    store = tmp_path_factory.mktemp("joined") / "store"
    summary = merge_stores(parted.parts[::-1], store)
    assert summary.exit_code == 0 and len(summary.calls) == 6
    return store


@pytest.fixture
def standing(made: Standing, tmp_path: Path) -> Standing:
    """A copy to change; its files keep their times."""
    shutil.copytree(made.folder, tmp_path / "corpus")
    shutil.copytree(made.store, tmp_path / "store")
    return Standing(tmp_path / "corpus" / made.manifest.name, tmp_path / "store", made.recipe)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache is left alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"
