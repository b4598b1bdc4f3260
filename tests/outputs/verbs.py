"""Every verb that writes, with small inputs, and what it means that two of its outputs are the same.

A new verb that writes more than one file is one more row of `VERBS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import yaml

from inkplex_data.cli.app import main
from inkplex_data.speech.codec import load_codec
from inkplex_data.trainer.run.checkpoint import load_checkpoint
from tests.export.made import make_corpus, noise
from tests.pipeline.conftest import make_corpus as make_voices
from tests.store.made import make_store
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import make_task_store

TEMPORARY = ("*.tmp", ".*.inkplex-partial", ".*.inkplex-marked", ".inkplex-unfinished", ".tmp-*", ".build")
"""What lies about only while something is written."""
CHAT = [
    {"role": "user", "content": "What about my bill of last month?"},
    {"role": "assistant", "content": "It is eighty pounds, and was paid on the third."},
]


def run(*arguments: object) -> int:
    """The command in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


class Inputs:
    """What the verbs read, made when it is first asked for. Not to be written to."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def corpus(self) -> Path:
        return make_corpus(self.root / "corpus")

    @cached_property
    def voices(self) -> Path:
        return make_voices(self.root / "voices")

    @cached_property
    def store(self) -> Path:
        return Path(make_store(self.root / "store").root)

    @cached_property
    def parts(self) -> list[Path]:
        """Stores of two parts of a corpus."""
        folders = [self.root / f"part-{number}" for number in (1, 2)]
        for number, folder in enumerate(folders, 1):
            assert run(*_build(self, folder, "--workers", 1, "--part", f"{number}/2")) == 0
        return folders

    @cached_property
    def dataset(self) -> Path:
        assert run("export", "hf", self.corpus, "-o", self.root / "dataset") == 3
        return self.root / "dataset"

    @cached_property
    def transcripts(self) -> list[Path]:
        return [self.corpus.parent / f"{name}.json" for name in ("one", "two", "turned")]

    @cached_property
    def chat(self) -> Path:
        path = self.root / "chat.json"
        path.write_text(json.dumps([CHAT] * 4))
        return path

    @cached_property
    def recording(self) -> Path:
        """Three requests that compute tokens."""
        path = self.root / "talk.json"
        path.write_text(json.dumps([CHAT * 3]))
        run("import", "trace", path, "-o", self.root / "recordings", "--tokenizer", "bytes")
        return self.root / "recordings" / "talk-0000.recording.jsonl"

    @cached_property
    def states(self) -> Path:
        run("capture", self.recording, "-o", self.root / "captured", "--model", "small:0")
        return self.root / "captured" / "talk-0000.states"

    @cached_property
    def mono(self) -> Path:
        """Two recordings of one channel, and who speaks when."""
        folder = self.root / "mono"
        folder.mkdir()
        for seed, name in enumerate(("ann", "bob")):
            soundfile.write(folder / f"{name}.wav", noise(seed, 16_000), 8_000, subtype="PCM_16")
            turns = f"SPEAKER {name} 1 0.0 1.0 <NA> <NA> x <NA> <NA>\nSPEAKER {name} 1 0.9 1.1 <NA> <NA> y <NA> <NA>\n"
            (folder / f"{name}.rttm").write_text(turns)
        return folder

    @cached_property
    def texts(self) -> Path:
        """Two calls with real speech and captions; a test is skipped where the recordings are not there."""
        from tests.conftest import NO_REAL_DATA, REAL_DATA

        source = REAL_DATA / "calls" / "stereo_diarization.wav"
        if not source.is_file():
            pytest.skip(NO_REAL_DATA)
        both, rate_hz = soundfile.read(source, dtype="float32")
        folder = self.root / "texts"
        folder.mkdir()
        said = "He began a confused complaint against the wizard, who had vanished behind the curtain on the left."
        for name in ("first", "second"):
            stereo = np.stack([both[: 5 * rate_hz, 0], np.zeros(5 * rate_hz, np.float32)], axis=1)
            soundfile.write(folder / f"{name}.wav", stereo, rate_hz, subtype="PCM_16")
            (folder / f"{name}.srt").write_text(f"1\n00:00:00,000 --> 00:00:05,000\nAgent: {said}\n")
        return folder

    @cached_property
    def tasks(self) -> tuple[Path, Path]:
        """A store to train on, and a recipe of four updates, a checkpoint and a check after every second one."""
        folder = self.root / "tasks"
        codec = load_codec("untrained:0").identity.sha256
        make_task_store(folder / "store", train=4, validation=3, codec_sha256=codec)
        recipe = small_recipe(checks={"tasks": 3, "every_updates": 2, "resamples": 100})
        path = folder / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe.model_dump(mode="json", exclude={"name"})))
        return folder / "store", path

    @cached_property
    def trained(self) -> Path:
        assert run(*_train(self, self.root / "run")) == 0
        return self.root / "run"


def tree(folder: Path) -> dict[str, bytes]:
    """Every file by its path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass(frozen=True)
class Verb:
    """`arguments(inputs, out)` is the command line. `whole`: the output is one folder that appears by one rename.

    `content(out)` stands for what two outputs must share. `code` is the exit code when all goes well."""

    name: str
    arguments: Callable[[Inputs, Path], tuple[object, ...]]
    whole: bool = False
    content: Callable[[Path], Any] = tree
    code: int = 0
    before: Callable[[Inputs, Path], object] = lambda inputs, out: None


def leftovers(folder: Path) -> list[str]:
    """What only an unfinished process needs, in `folder` and beside it."""
    found = {path for name in TEMPORARY for path in folder.parent.rglob(name)}
    return sorted(str(path) for path in found)


def _rows(out: Path) -> Any:
    """The rows of a dataset: its files name a moment and the place of a cache."""
    datasets = pytest.importorskip("datasets")
    found = datasets.load_from_disk(str(out))
    undecoded = {
        split: rows.cast_column("audio", datasets.Audio(decode=False)) for split, rows in found.items()
    }
    return {split: list(rows) for split, rows in undecoded.items()}


def run_folder(out: Path, *, at_end: bool = False) -> Any:
    """What a training run found, without how long it took and the ids that every save draws. at_end: of its checkpoints the
    last one. A run that is told to stop saves itself where that happens, so which earlier ones are kept depends on it."""
    checkpoints = sorted((out / "checkpoints").glob("*.safetensors"))
    kept = list((out / "checkpoints").iterdir())
    if at_end:
        checkpoints = checkpoints[-1:]
        kept = [path for path in kept if path.name.startswith(checkpoints[0].stem)]
    files = {path.name for path in [*out.iterdir(), *kept]}
    rows = []
    for name in ("metrics.jsonl", "checks.jsonl"):
        for line in (out / name).read_text().splitlines():
            row = json.loads(line)
            rows.append(
                {key: row[key] for key in row if key not in ("seconds", "wait_fraction", "bytes_per_s")}
            )
    tensors = {
        path.name: {
            name: value.tolist()
            for name, value in load_checkpoint(path).tensors.items()
            if not name.startswith("random.")  # the generator's state, from which training draws nothing
        }
        for path in checkpoints
    }
    return files, rows, tensors, (out / "selected.json").read_bytes(), (out / "panel.json").read_bytes()


def _train(inputs: Inputs, out: Path) -> tuple[object, ...]:
    store, recipe = inputs.tasks
    torch.set_num_threads(1)
    return (
        "train", store, "-o", out, "-p", recipe, "--device", "cpu", "--workers", 0, "--resume",
        "--allow-untrained-codec",
    )  # fmt: skip


def _build(inputs: Inputs, out: Path, *more: object) -> tuple[object, ...]:
    shards = ("--set", "store.shard_bytes=4000")
    return ("build", inputs.voices, "-o", out, "--codec", "untrained:0", *shards, *more)


def _one_call(inputs: Inputs, out: Path) -> object:
    """A store of the corpus's first call, to which the others are added."""
    corpus = inputs.voices.parent / "first.jsonl"
    corpus.write_text(inputs.voices.read_text().splitlines(keepends=True)[0])
    built = _build(inputs, out, "--workers", 1)
    return run(built[0], corpus, *built[2:])


BUILDS = (
    Verb("build", lambda inputs, out: _build(inputs, out, "--workers", 1)),
    Verb("build with workers", lambda inputs, out: _build(inputs, out, "--workers", 2)),
    Verb("build --add", lambda inputs, out: _build(inputs, out, "--workers", 1, "--add"), before=_one_call),
    Verb("merge", lambda inputs, out: ("merge", *inputs.parts, "-o", out)),
)
"""`tests/pipeline` injures builds at every file operation; here they are killed as a whole."""

VERBS = (
    Verb(
        "export moshi-finetune",
        lambda inputs, out: ("export", "moshi-finetune", inputs.corpus, "-o", out),
        whole=True,
        code=3,
    ),
    Verb(
        "export moshi-finetune of a store",
        lambda inputs, out: ("export", "moshi-finetune", inputs.store, "-o", out),
        whole=True,
    ),
    Verb(
        "export hf",
        lambda inputs, out: ("export", "hf", inputs.corpus, "-o", out),
        whole=True,
        code=3,
        content=_rows,
    ),
    Verb(
        "export hf as parquet",
        lambda inputs, out: ("export", "hf", inputs.corpus, "-o", out, "--form", "parquet"),
        whole=True,
        code=3,
    ),
    Verb("import hf", lambda inputs, out: ("import", "hf", inputs.dataset, "-o", out), whole=True),
    Verb("import words", lambda inputs, out: ("import", "words", *inputs.transcripts, "-o", out)),
    Verb(
        "import trace",
        lambda inputs, out: ("import", "trace", inputs.chat, "-o", out, "--tokenizer", "bytes"),
    ),
    Verb(
        "import states", lambda inputs, out: ("import", "states", inputs.recording, inputs.states, "-o", out)
    ),
    Verb("capture", lambda inputs, out: ("capture", inputs.recording, "-o", out, "--model", "small:0")),
    Verb("align", lambda inputs, out: ("align", inputs.texts, "-o", out)),
    Verb("diarize", lambda inputs, out: ("diarize", inputs.mono, "--rttm", inputs.mono, "-o", out)),
    Verb("schema export", lambda inputs, out: ("schema", "export", "-o", out)),
    Verb("report", lambda inputs, out: ("report", inputs.store, "-o", out / "report.html")),
    Verb("split", lambda inputs, out: ("split", inputs.corpus, "-o", out / "splits.json")),
    Verb(
        "encode",
        lambda inputs, out: (
            "encode",
            inputs.corpus.parent / "one.wav",
            "-o",
            out / "codes.npz",
            "--codec",
            "untrained:0",
        ),
    ),
    Verb("train", _train, content=run_folder),
    Verb(
        "evaluate",
        lambda inputs, out: (
            "evaluate",
            inputs.trained,
            inputs.tasks[0],
            "-o",
            out,
            "--resamples",
            100,
            "--device",
            "cpu",
        ),
    ),
    Verb(
        "generate",
        lambda inputs, out: (
            "generate",
            inputs.trained,
            inputs.tasks[0],
            "-o",
            out,
            "--seconds",
            0.4,
            "--limit",
            1,
            "--device",
            "cpu",
        ),
    ),
)
