"""What reads the files of others, each with sound files to start from and the way in that users take."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "examples" / "corpus"


@dataclass(frozen=True)
class Target:
    """`make` writes sound inputs as folders into the one given; `read` reads what lies in such a folder, changed.

    `injured`: a pattern of the files that are changed.
    """

    name: str
    make: Callable[[Path], None]
    read: Callable[[Path], object]
    injured: str = "*"


def _one(folder: Path, name: str, data: bytes) -> None:
    """An input of one file."""
    place = folder / f"{len(list(folder.iterdir())):03d}"
    place.mkdir()
    (place / name).write_bytes(data)


def _only(folder: Path) -> Path:
    [path] = folder.iterdir()
    return path


def _every(things: Iterator[Callable[[], object]]) -> None:
    """Do each thing, though others are refused."""
    from inkplex_data.errors import InkplexError

    for thing in things:
        with contextlib.suppress(InkplexError):
            thing()


def _make_transcripts(folder: Path) -> None:
    from tests.conformance import test_transcript_formats as samples
    from tests.conformance.transcripts import kinds

    assert samples
    for kind in kinds():
        # Formats that no ending names are told by their content.
        _one(folder, f"{kind.file_name}{'' if '.' in kind.file_name else '.json'}", kind.sample)


def _read_transcript(folder: Path) -> None:
    from inkplex_data.corpus.transcripts import load_words, read_transcript
    from inkplex_data.problems import ProblemLog

    load_words(_only(folder), duration_us=60_000_000, log=ProblemLog("call"))
    read_transcript(_only(folder))


def _make_documents(folder: Path) -> None:
    for path in sorted(EXAMPLES.rglob("*.json*")):
        _one(folder, path.name, path.read_bytes()[:40_000])


def _validate(folder: Path) -> None:
    from inkplex_data.corpus.validate import validate_path

    validate_path(_only(folder))


def _make_corpora(folder: Path) -> None:
    import soundfile

    for name in ("manifest", "moshi"):
        place = folder / name
        shutil.copytree(EXAMPLES, place, ignore=shutil.ignore_patterns("*.flac"))
        for path in EXAMPLES.rglob("*.flac"):
            soundfile.write(place / path.relative_to(EXAMPLES), np.zeros((240, 2)), 24_000)
        if name == "moshi":
            (place / "manifest.jsonl").unlink()
        for path in place.rglob("*.recording.jsonl"):
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))


def _read_corpus(folder: Path) -> None:
    from inkplex_data.corpus.call_text import CallText
    from inkplex_data.corpus.read_corpus import read_corpus
    from inkplex_data.corpus.sidecars.loss_mask import frame_mask
    from inkplex_data.corpus.sidecars.sidecar import heard_spans

    def sides(text: CallText) -> None:
        if text.sidecar is not None:
            heard_spans(text.sidecar)
            frame_mask(text.sidecar, 100)

    def uses() -> Iterator[Callable[[], object]]:
        for path in (folder, folder / "moshi.jsonl"):
            for entry in read_corpus(path).entries if path.exists() else ():
                text = CallText.of(entry)
                yield partial(getattr, text, "transcript")
                yield partial(sides, text)

    _every(uses())


def _make_recordings(folder: Path) -> None:
    for path in sorted(EXAMPLES.rglob("*.recording.jsonl")):
        _one(folder, path.name, b"".join(path.read_bytes().splitlines(keepends=True)[:6]))


def _read_recording(folder: Path) -> None:
    from inkplex_data.corpus.recordings.recording import read_recording
    from inkplex_data.memory.ownership import tabulate

    tabulate(list(read_recording(_only(folder))))


def _make_traces(folder: Path) -> None:
    _one(folder, "abcd.json", (ROOT / "tests" / "pipeline" / "dialogues.json").read_bytes())
    call = {"id": "1", "type": "function", "function": {"name": "bill", "arguments": '{"of": 3}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You answer calls about bills."},
        {"role": "user", "content": [{"type": "text", "text": "Why is it so high?"}]},
        {"role": "assistant", "thinking": "Look it up.", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "name": "bill", "content": "eighty pounds"},
        {"role": "assistant", "content": "Eighty pounds."},
    ]
    _one(folder, "chat.json", json.dumps([messages, {"id": "b", "messages": messages}]).encode())
    _one(folder, "chat.jsonl", "\n".join(json.dumps({"messages": messages}) for _ in range(3)).encode())


def _import_trace(folder: Path) -> None:
    from inkplex_data.corpus.traces.importer import import_traces

    import_traces(_only(folder), folder / "written")


def _make_recipes(folder: Path) -> None:
    for path in sorted((ROOT / "pipelines").glob("*.yaml")):
        _one(folder, path.name, path.read_bytes())
    _one(
        folder,
        "own.yaml",
        b"codec: {id: untrained:0}\nprefix: null\naudio:\n  agent: left\nstore: {shard_bytes: 4000}\n",
    )


def _set(given: str) -> None:
    from inkplex_data.cli.key_value import key_values
    from inkplex_data.config.recipe import load_recipe

    load_recipe(None, key_values("--set", [given]))


def _read_recipe(folder: Path) -> None:
    from inkplex_data.config.recipe import load_recipe
    from inkplex_data.trainer.run.train_config import load_train_recipe

    path = _only(folder)
    text = path.read_bytes().decode("utf-8", "surrogateescape")

    def uses() -> Iterator[Callable[[], object]]:
        yield lambda: load_recipe(str(path))
        yield lambda: load_train_recipe(str(path))
        for line in text.splitlines()[:20]:
            key, _, value = line.partition(":")
            given = f"{key.strip() or 'name'}={value}"
            yield partial(_set, given)

    _every(uses())


def _tone(seconds: float = 0.3, rate_hz: int = 16_000) -> np.ndarray:
    at = np.arange(int(seconds * rate_hz)) / rate_hz
    return np.stack([0.3 * np.sin(2 * math.pi * hz * at) for hz in (220.0, 330.0)], axis=1).astype(np.float32)


def _make_audio(folder: Path) -> None:
    import av
    import soundfile

    for name, form, subtype in (
        ("a.wav", "WAV", "PCM_16"), ("a.flac", "FLAC", None), ("a.ogg", "OGG", "VORBIS"), ("a.aiff", "AIFF", None),
        ("a.au", "AU", None), ("a.mp3", "MP3", None), ("a.w64", "W64", None), ("a.caf", "CAF", None),
    ):  # fmt: skip
        buffer = io.BytesIO()
        soundfile.write(buffer, _tone(), 16_000, format=form, subtype=subtype)
        _one(folder, name, buffer.getvalue())
    for name, form, codec, rate_hz in (
        ("a.webm", "webm", "libopus", 48_000), ("a.mka", "matroska", "flac", 44_100), ("a.m4a", "mp4", "aac", 16_000),
    ):  # fmt: skip
        buffer = io.BytesIO()
        tone = (_tone(0.3, rate_hz).reshape(1, -1) * 32_767).astype(np.int16)
        with av.open(buffer, "w", format=form) as container:
            stream: Any = container.add_stream(codec, rate=rate_hz, layout="stereo")
            frame = av.AudioFrame.from_ndarray(tone, format="s16", layout="stereo")
            frame.rate, frame.pts = rate_hz, 0
            for part in av.AudioResampler(
                stream.format, "stereo", rate_hz, stream.frame_size or None
            ).resample(frame):
                container.mux(stream.encode(part))
            container.mux(stream.encode(None))
        _one(folder, name, buffer.getvalue())


def _read_audio(folder: Path) -> None:
    from inkplex_data.audio.files.audio_source import open_audio

    for _ in open_audio(_only(folder)).blocks():
        pass


def _make_states(folder: Path) -> None:
    import torch
    from safetensors.torch import save

    states = torch.randn(12, 3, 8, generator=torch.Generator().manual_seed(0))
    _one(folder, "000000.safetensors", save({"states": states.bfloat16()}))
    _one(folder, "000000.safetensors", save({"states": states}))


def _read_states(folder: Path) -> None:
    from inkplex_data.memory.capture.imported_states import open_states_file

    for _ in open_states_file(_only(folder), tokens=12, where="made").blocks():
        pass


def _make_tokenizer(folder: Path) -> None:
    from inkplex_data.speech.tokenizer import SMALL_MODEL

    _one(folder, "own.model", SMALL_MODEL.read_bytes())


def _read_tokenizer(folder: Path) -> None:
    from inkplex_data.speech.tokenizer import TextTokenizer

    TextTokenizer.load(_only(folder)).encode("Good morning.")


def _make_checkpoints(folder: Path) -> None:
    import torch

    from inkplex_data.trainer.run.checkpoint import Checkpoint, save_checkpoint

    place = folder / "run"
    place.mkdir()
    save_checkpoint(
        place / "update-000001.safetensors",
        Checkpoint(tensors={"a": torch.zeros(3, 4), "b": torch.ones(2)}, compatibility={"codec": "made"}),
    )


def _read_checkpoint(folder: Path) -> None:
    from inkplex_data.trainer.run.checkpoint import load_checkpoint

    load_checkpoint(folder / "update-000001.safetensors")


def _make_store(folder: Path) -> None:
    from inkplex_data.store.describe import write_description, write_pieces
    from inkplex_data.store.publish_snapshot import publish_snapshot
    from tests.store.made import Made, add_calls, add_prefixes, add_recordings, call_part

    made = Made(str(folder / "store"))
    write_description(made.root, {"codec": {"id": "made"}})
    write_pieces(made.root, [f"▁piece{i}" for i in range(40)])
    memory: dict[str, Any] = {"recording_id": "task", "recording_starts_at_us": 20_000_000, "prefix_id": "p0"}
    add_calls(made, 0, [call_part("first", 60, **memory), call_part("second", 40, words=0, versions=0)])
    add_calls(made, 1, [call_part("third", 30, split="test", prefix_id="p1")])
    add_recordings(made, 0, {"task": 50})
    add_prefixes(made)
    publish_snapshot(made.root)


def _read_store(folder: Path) -> None:
    import inkplex_data as ink
    from inkplex_data.store.verify import verify_store

    def table(store: ink.Store, name: str) -> None:
        getattr(store, name)().collect()

    def part(store: ink.Store, call_id: str, name: str) -> None:
        getattr(store.call(call_id), name)

    def uses() -> Iterator[Callable[[], object]]:
        yield partial(verify_store, folder)
        with ink.open_store(folder) as store:
            for name in (
                "calls",
                "recordings",
                "prefixes",
                "words",
                "versions",
                "evidence",
                "claims",
                "problems",
                "tokens",
                "frames",
            ):
                yield partial(table, store, name)
            for call_id in ("first", "second", "third"):
                for name in ("codes", "text", "words", "versions", "evidence", "claims", "states"):
                    yield partial(part, store, call_id, name)

    _every(uses())


TARGETS: Final = (
    Target("transcript", _make_transcripts, _read_transcript),
    Target("validate", _make_documents, _validate),
    Target("corpus", _make_corpora, _read_corpus, "*.json*"),
    Target("recording", _make_recordings, _read_recording),
    Target("trace", _make_traces, _import_trace),
    Target("recipe", _make_recipes, _read_recipe),
    Target("audio", _make_audio, _read_audio),
    Target("states", _make_states, _read_states),
    Target("tokenizer", _make_tokenizer, _read_tokenizer),
    Target("checkpoint", _make_checkpoints, _read_checkpoint),
    Target("store", _make_store, _read_store),
)
