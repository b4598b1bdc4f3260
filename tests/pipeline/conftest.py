"""A small corpus made on the spot: three stereo calls of a few seconds whose words the text stream can place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from inkplex_data.config.recipe import CodecConfig, Recipe, load_recipe
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.run import build_store
from tests.quick_codec import QUICK

RATE_HZ = 24_000


def voice(seed: int, seconds: float, pitch_hz: float) -> np.ndarray:
    """Something like speech: a buzz whose level and colour change, with pauses. float32 [n]."""
    random = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    buzz = sum(np.sin(2 * np.pi * pitch_hz * k * t + random.uniform(0, 6)) / k for k in range(1, 20))
    level = np.interp(t, np.arange(0, seconds + 0.2, 0.1), random.uniform(0, 1, int(seconds / 0.1) + 2)) ** 2
    return (0.1 * buzz * level + 0.003 * random.standard_normal(len(t))).astype(np.float32)


def write_call(folder: Path, name: str, seed: int, seconds: float = 2.5) -> None:
    """`NAME.wav` and `NAME.json`: the agent says a few words on the left channel."""
    stereo = np.stack([voice(seed, seconds, 120), voice(seed + 1000, seconds, 210)], axis=1)
    soundfile.write(folder / f"{name}.wav", stereo, RATE_HZ, subtype="PCM_16")
    words = ["Good", "morning,", "your", "bill", "is", "eighty", "pounds."]
    alignments = [
        [word, [round(0.2 + 0.3 * index, 2), round(0.4 + 0.3 * index, 2)], "SPEAKER_MAIN"]
        for index, word in enumerate(words)
    ]
    alignments.append(["Hello?", [0.1, 0.3], "SPEAKER_CALLER"])
    (folder / f"{name}.json").write_text(json.dumps({"alignments": alignments}), encoding="utf-8")


def write_manifest(folder: Path, lines: list[dict[str, object]]) -> Path:
    path = folder / "manifest.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def make_corpus(folder: Path) -> Path:
    """Manifest of three calls: two of one voice in training, one in validation."""
    folder.mkdir(parents=True)
    for seed, name in enumerate(("one", "two", "three")):
        write_call(folder, name, seed)
    return write_manifest(
        folder,
        [
            {
                "id": "one",
                "path": "one.wav",
                "family": "f1",
                "split": "train",
                "voice": "amy",
                "role": "You are kind.",
            },
            {
                "id": "two",
                "path": "two.wav",
                "family": "f2",
                "split": "train",
                "voice": "amy",
                "role": "You are kind.",
            },
            {"id": "three", "path": "three.wav", "family": "f3", "split": "validation", "voice": "amy"},
        ],
    )


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return load_recipe(None, {"codec.id": QUICK, "store.shard_bytes": 4_000})


@pytest.fixture(scope="session")
def mimi_recipe() -> Recipe:
    """Of untrained weights, with a codec that other processes know too."""
    return load_recipe(None, {"codec.id": "untrained:0", "store.shard_bytes": 4_000})


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest; not to be written to."""
    return make_corpus(tmp_path_factory.mktemp("shared") / "corpus")


@pytest.fixture(scope="session")
def built(corpus: Path, recipe: Recipe) -> Path:
    """Its store, built in this process; not to be written to."""
    store = corpus.parent.parent / "store"
    summary = build_store(corpus, store, recipe=recipe, workers=1)
    assert summary.exit_code == 0, summary.text()
    assert summary.calls == ("one", "three", "two")
    return store


@pytest.fixture(scope="session")
def mimi_built(corpus: Path, mimi_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus's store with Mimi's codes; not to be written to."""
    store = tmp_path_factory.mktemp("mimi") / "store"
    assert build_store(corpus, store, recipe=mimi_recipe, workers=1).exit_code == 0
    return store


@pytest.fixture
def own_corpus(corpus: Path, tmp_path: Path) -> Path:
    """A copy of the corpus to change."""
    shutil.copytree(corpus.parent, tmp_path / "corpus")
    return tmp_path / "corpus" / corpus.name


@pytest.fixture
def own_store(built: Path, tmp_path: Path) -> Path:
    """A copy of the store to change."""
    shutil.copytree(built, tmp_path / "own-store")
    return tmp_path / "own-store"


def plain_loop(samples: np.ndarray) -> np.ndarray:
    """Codes [8, F] of one 24 kHz channel from `MimiModel.encode`, 25 frames at a time."""
    model = tools.codec(CodecConfig(id="untrained:0"), "cpu").model
    padded = np.pad(samples, (0, -len(samples) % 1920))
    cache = padding = None
    parts = []
    for start in range(0, len(padded), 48_000):
        chunk = torch.from_numpy(padded[start : start + 48_000].copy()).view(1, 1, -1)
        with torch.inference_mode():
            out = model.encode(
                chunk, num_quantizers=8, encoder_cache=cache, padding_cache=padding, use_streaming=True
            )
        cache, padding = out.encoder_cache, out.padding_cache
        parts.append(out.audio_codes[0].numpy())
    return np.concatenate(parts, axis=1)


def tree(store: Path) -> dict[str, bytes]:
    """Every file of a store, for comparison byte by byte."""
    return {
        str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()
    }
