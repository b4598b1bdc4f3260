"""The voice sample and the past conversation that a sidecar names are in the call's prefix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import soundfile

import inkplex_data as ink
from inkplex_data.audio.loudness import normalise_lufs
from inkplex_data.config.recipe import CodecConfig, load_recipe
from inkplex_data.corpus.entry import Clip
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.export.cropped_corpus import crop_corpus
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.planning.prefix_voices import VoiceSample, role_text
from inkplex_data.pipeline.run import build_store
from tests.pipeline.conftest import RATE_HZ, voice, write_call, write_manifest

PAST = [{"speaker": "caller", "text": "Hi."}, {"speaker": "agent", "text": "Hello."}]
PROMPTS: dict[str, dict[str, Any]] = {
    "one": {"voice_prompt": {"path": "../voices/ann.wav"}, "past": PAST},
    "two": {"voice_segment": {"call": "one", "start_s": 0.2, "end_s": 0.7}},
    "same": {"voice_segment": {"call": "same", "start_s": 0.2, "end_s": 0.7}},
}
ROLE = "Be kind.\nCaller: Hi.\nAgent: Hello."


def test_the_prompt_of_a_sidecar_is_the_prefix(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    for part in ("calls", "voices"):
        (folder / part).mkdir(parents=True)
    said = voice(9, 0.5, 150)
    soundfile.write(folder / "voices" / "ann.wav", said, RATE_HZ, subtype="FLOAT")
    lines = []
    for seed, (name, prompt) in enumerate(PROMPTS.items()):
        write_call(folder / "calls", name, seed, 0.8)
        document = {"schema": "inkplex/sidecar@1", "identity": {"clip_id": name}, "prompt": prompt}
        (folder / "calls" / f"{name}.sidecar.json").write_text(json.dumps(document))
        lines.append({"id": name, "path": f"calls/{name}.wav", "split": "train", "family": "f"})
    lines[0]["role"] = "Be kind."
    manifest = write_manifest(folder, lines)
    recipe = load_recipe(None, {"codec.id": "untrained:0", "prefix.past": True})
    summary = build_store(manifest, tmp_path / "store", recipe=recipe, workers=1)
    assert summary.exit_code == 0, summary.text()
    store = ink.open_store(tmp_path / "store")

    one, two = store.call("one").with_prefix(), store.call("two").with_prefix()
    codec = tools.codec(CodecConfig(id="untrained:0"), "cpu")
    expected = codec.encode([normalise_lufs(said, RATE_HZ)])
    assert (one.prefix.row["voice_source"], one.prefix.row["voice"]) == ("corpus:voices/ann.wav", "ann")
    np.testing.assert_array_equal(one.codes[:8, : len(expected)], expected.T)
    assert one.prefix.row["role"] == role_text("Be kind.", [("caller", "Hi."), ("agent", "Hello.")]) == ROLE
    pieces = tools.tokenizer(recipe.text.tokenizer).encode(f"<system> {ROLE} <system>")
    start = len(expected) + 6
    assert one.text[start : start + len(pieces)].tolist() == pieces
    assert not one.mask[: one.prefix_frames].any()
    assert two.prefix.row["voice_source"] == "call:one@200000-700000us"
    agent = soundfile.read(folder / "calls" / "one.wav", dtype="float32")[0].T[0, 4_800:16_800]
    own = codec.encode([normalise_lufs(agent, RATE_HZ)])
    np.testing.assert_array_equal(two.codes[:8, : len(own)], own.T)
    told = store.problems().filter(pl.col("code") == "prefix-no-voice").collect()
    assert dict(told.select("call_id", "message").rows()) == {
        "same": "its voice segment is of 'same', which is no other call built in split 'train'",
    }
    assert store.call("same").with_prefix().prefix.row["voice"] is None

    for name, sound in (("one", said), ("two", agent)):  # a crop brings both along, as files
        crop_corpus(read_corpus(manifest), name, Clip(0, 400_000), tmp_path / name)
        [entry] = read_corpus(tmp_path / name).entries
        assert entry.voice_prompt is not None and entry.voice_segment is None
        np.testing.assert_array_equal(soundfile.read(entry.voice_prompt, dtype="float32")[0], sound)


def test_a_description_reads_back() -> None:
    for sample in (
        VoiceSample("amy", "train", "one:two@3", None, 0, 80_000),
        VoiceSample("amy", None, path="voices/a.wav", in_corpus=True),
        VoiceSample("amy", None, path="/voices/a:b.wav"),
    ):
        assert VoiceSample.of_description("amy", sample.split, sample.describe()) == sample
