"""A call whose file lacks something inside: it is built, in step with its words, and what is missing carries no loss."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

import inkplex_data as ink
from inkplex_data.config.recipe import load_recipe
from inkplex_data.pipeline.run import build_store
from tests.audio.made import save_lossy
from tests.pipeline.conftest import voice

LOST = range(50, 100)  # 20 ms each, the first one from 0.994 s on


def test_what_is_missing_carries_no_loss_in_two_channels_and_in_one(tmp_path: Path) -> None:
    sides = np.stack([np.repeat(voice(seed, 3.0, 120.0 + seed), 2) for seed in (0, 90)])
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    save_lossy(corpus / "two.webm", sides, "libopus", lost=LOST)
    save_lossy(corpus / "one.webm", sides.sum(axis=0, keepdims=True), "libopus", lost=LOST)
    (corpus / "one.rttm").write_text(
        "SPEAKER one 1 0.0 2.5 <NA> <NA> A <NA> <NA>\nSPEAKER one 1 2.5 0.5 <NA> <NA> B <NA> <NA>\n"
    )
    words = {"alignments": [["before", [0.3, 0.6], "SPEAKER_MAIN"], ["after", [2.1, 2.4], "SPEAKER_MAIN"]]}
    for name in ("one", "two"):
        (corpus / f"{name}.json").write_text(json.dumps(words))
    recipe = load_recipe("moshi_mono", {"codec.id": "untrained:0"})
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
