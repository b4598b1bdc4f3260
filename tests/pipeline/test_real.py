"""Builds of real audio: a telephone call of four minutes, and a folder of files that are each odd in their way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile
import soxr
import torch
from typer.testing import CliRunner

import inkplex_data as ink
from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.cli.app import app
from inkplex_data.config.recipe import load_recipe
from inkplex_data.pipeline.run import build_store
from tests.pipeline.conftest import plain_loop, write_manifest

WORDS = {"alignments": [["Hello", [0.3, 0.6], "SPEAKER_MAIN"], ["there", [0.7, 1.0], "SPEAKER_MAIN"]]}


@pytest.mark.slow
def test_a_real_call_of_two_mono_files(real_data: Path, tmp_path: Path) -> None:
    calls = real_data / "calls"
    stem = str(calls / "Auto_Repairs_40_UTC")
    line = {
        "id": "auto-repairs",
        "path": {"agent": f"{stem}_agent.wav", "caller": f"{stem}_caller.wav"},
        "words": f"{stem}_agent.json",
    }
    recipe = load_recipe("moshi_stereo", {"codec.id": "untrained:0"})
    manifest = write_manifest(tmp_path, [line])
    summary = build_store(manifest, tmp_path / "store", recipe=recipe, workers=1, root=real_data)
    assert summary.exit_code == 0, summary.text()
    call = ink.open_store(tmp_path / "store").call("auto-repairs")
    torch.set_num_threads(1)
    audio = resolve_channels({"agent": Path(f"{stem}_agent.wav"), "caller": Path(f"{stem}_caller.wav")})
    for side, name in enumerate(("agent", "caller")):
        original, rate = soundfile.read(f"{stem}_{name}.wav", dtype="float32")
        assert (rate, call.row["samples"]) == (8_000, len(original) * 3)
        assert call.frames == -(-len(original) * 3 // 1920)
        samples = np.concatenate(list(audio.stream("agent" if side == 0 else "caller")))
        np.testing.assert_allclose(samples, soxr.resample(original, rate, 24_000, quality="VHQ"), atol=1e-6)
        np.testing.assert_array_equal(call.codes[8 * side : 8 * side + 8], plain_loop(samples))


def test_a_folder_of_odd_files_publishes_the_good_ones_and_names_the_others(
    real_data: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    given = [*(real_data / "odd_audio").iterdir(), *(real_data / "calls").glob("*.wav")]
    for path in given:
        shutil.copy(path, corpus / path.name)
    for stem in ("multi", "stereo_diarization"):
        (corpus / f"{stem}.json").write_text(json.dumps(WORDS))
    result = CliRunner().invoke(
        app, ["build", str(corpus), "-o", str(tmp_path / "store"), "--codec", "untrained:0", "--workers", "1"]
    )
    assert result.exit_code == 3, result.output
    assert "Traceback" not in result.output
    store = ink.open_store(tmp_path / "store")
    assert sorted(store.call_ids) == ["multi", "stereo_diarization"]
    refused = store.problems().filter(pl.col("severity") == "error").collect()
    assert refused.height == len(given) - 2
    assert refused["call_id"].n_unique() == len(given) - 2
    for row in refused.iter_rows(named=True):
        assert len(row["message"].split()) > 8, row
        assert row["call_id"] in result.output
