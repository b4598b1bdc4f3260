"""Calls in lossy files. What is missing inside carries no loss, in step with the words; one recording is one however coded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

import inkplex_data as ink
from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.config.recipe import load_recipe
from inkplex_data.pipeline.run import build_store
from tests.audio.made import save_lossy
from tests.pipeline.conftest import voice, write_manifest
from tests.quick_codec import QUICK

LOST = range(50, 100)  # 20 ms each, the first one from 0.994 s on


def test_what_is_missing_carries_no_loss_in_two_channels_and_in_one(tmp_path: Path) -> None:
    sides = np.stack([np.repeat(voice(seed, 3.0, 120.0 + seed), 2) for seed in (0, 90)])
    alone = np.repeat(voice(7, 3.0, 170.0), 2)[None]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    save_lossy(corpus / "two.webm", sides, "libopus", lost=LOST)
    save_lossy(corpus / "one.webm", alone, "libopus", lost=LOST)
    (corpus / "one.rttm").write_text(
        "SPEAKER one 1 0.0 2.5 <NA> <NA> A <NA> <NA>\nSPEAKER one 1 2.5 0.5 <NA> <NA> B <NA> <NA>\n"
    )
    words = {"alignments": [["before", [0.3, 0.6], "SPEAKER_MAIN"], ["after", [2.1, 2.4], "SPEAKER_MAIN"]]}
    for name in ("one", "two"):
        (corpus / f"{name}.json").write_text(json.dumps(words))
    recipe = load_recipe("moshi_mono", {"codec.id": QUICK})
    summary = build_store(corpus, tmp_path / "store", recipe=recipe, workers=1)
    assert summary.exit_code == 0, summary.text()
    with ink.open_store(tmp_path / "store") as store:
        told = store.problems().filter(pl.col("code") == "audio-damaged").collect()
        assert told["call_id"].to_list() == ["one", "two"]
        assert all("1.000 s inside (0.994 to 1.994 s)" in message for message in told["message"])
        expected = np.full(38, 7, np.uint8)
        expected[12:25] = 0
        for name in ("one", "two"):
            call = store.call(name)
            assert np.array_equal(call.mask, expected)
            frames = store.words().filter(pl.col("text") == "after").collect()["frame"]
            assert set(frames.to_list()) == {26}


def test_a_recording_in_another_coding_joins_its_families(real_data: Path, tmp_path: Path) -> None:
    """Beside it and beside a published one; where that would put one recording into two splits it is refused."""
    source = open_audio(real_data / "calls" / "stereo_diarization.wav")
    sides = np.concatenate(list(source.blocks()), axis=1)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    save_lossy(corpus / "one.flac", sides, "flac", rate=16_000)
    save_lossy(corpus / "two.mp3", sides[::-1] * np.float32(0.5), "libmp3lame", rate=16_000)
    recipe = load_recipe("moshi_stereo", {"codec.id": QUICK, "words.source": "none"})
    lines: list[dict[str, object]] = [
        {"id": "one", "path": "one.flac", "family": "f1", "split": "test"},
        {"id": "two", "path": "two.mp3", "family": "f2"},
    ]

    def built(*, add: bool = False) -> tuple[dict[str, tuple[str, str]], dict[str, set[str]]]:
        build_store(write_manifest(corpus, lines), tmp_path / "store", recipe=recipe, workers=1, add=add)
        with ink.open_store(tmp_path / "store") as store:
            rows = store.calls().select("call_id", "family", "split").collect().rows()
            told: dict[str, set[str]] = {}
            for call_id, code in store.problems().select("call_id", "code").collect().iter_rows():
                told.setdefault(call_id, set()).add(code)
            return {call_id: (family, split) for call_id, family, split in rows}, told

    calls, told = built()
    assert calls == {"one": ("f1", "test"), "two": ("f1", "test")}
    assert "family-joined" in told["two"]
    save_lossy(corpus / "three.m4a", sides, "aac", rate=16_000)
    save_lossy(corpus / "four.mp3", sides, "libmp3lame", rate=16_000)
    lines += [
        {"id": "three", "path": "three.m4a", "family": "f3"},
        {"id": "four", "path": "four.mp3", "family": "f4", "split": "train"},
    ]
    calls, told = built(add=True)
    assert calls == dict.fromkeys(("one", "two", "three"), ("f1", "test"))
    assert "audio-in-two-families" in told["four"]
