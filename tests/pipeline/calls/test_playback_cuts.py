"""A built call remembers of the agent's speech what was heard of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import soundfile

import inkplex_data as ink
from inkplex_data.config.recipe import load_recipe
from inkplex_data.grid import MASK_AGENT, MASK_ALL, MASK_CALLER
from inkplex_data.pipeline.run import build_store
from tests.pipeline.conftest import RATE_HZ, plain_loop, voice, write_manifest

SIDECAR = {
    "schema": "inkplex/sidecar@1",
    "identity": {"clip_id": "call"},
    "history": {
        "segments": [
            {
                "id": "interrupted",
                "source": "agent_output",
                "generated": [{"start_s": 0.1, "end_s": 0.96}],
                "played": [{"start_s": 0.3, "end_s": 0.7}],
                "playback_ack": {"observation": "playback_device", "at_s": 1.0},
            },
            {
                "id": "unknown",
                "source": "agent_output",
                "generated": [{"start_s": 1.1, "end_s": 1.6}],
                "cancelled": [{"start_s": 1.3, "end_s": 1.6}],
            },
        ]
    },
}
WORDS = [
    ["So", [0.1, 0.3]],
    ["your", [0.4, 0.6]],
    ["bill", [0.7, 0.9]],
    ["is", [1.1, 1.3]],
    ["paid", [1.35, 1.6]],
]


def test_sound_and_text_end_where_the_device_did(tmp_path: Path) -> None:
    """0.4 s were played of what begins at 0.1 s, so what was heard ends at 0.5 s, within "your". Of the second segment
    nobody knows: its sound and text stay, without loss from 1.3 s on."""
    stereo = np.stack([voice(3, 1.8, 120)[:42_240], voice(4, 1.8, 210)[:42_240]])
    soundfile.write(tmp_path / "call.wav", stereo.T, RATE_HZ, subtype="PCM_16")
    words = [[text, times, "SPEAKER_MAIN"] for text, times in WORDS]
    (tmp_path / "call.json").write_text(json.dumps({"alignments": words}))
    (tmp_path / "call.sidecar.json").write_text(json.dumps(SIDECAR))
    manifest = write_manifest(tmp_path, [{"id": "call", "path": "call.wav", "split": "train"}])
    recipe = load_recipe(None, {"codec.id": "untrained:0", "prefix": None})
    summary = build_store(manifest, tmp_path / "store", recipe=recipe, workers=1)
    assert summary.exit_code == 0, summary.text()
    call = ink.open_store(tmp_path / "store").call("call")

    agent, caller = soundfile.read(tmp_path / "call.wav", dtype="float32")[0].T
    heard = agent.copy()
    heard[12_000:23_040] = 0
    heard[11_760:12_000] *= (np.arange(240, 0, -1) / 240).astype(
        np.float32
    )  # 10 ms, so that the cut does not click
    np.testing.assert_array_equal(call.codes, np.concatenate([plain_loop(heard), plain_loop(caller)]))
    known = call.words.select("text", "start_us", "end_us").rows()
    assert known == [
        ("So", 100_000, 300_000),
        ("your", 400_000, 500_000),
        ("is", 1_100_000, 1_300_000),
        ("paid", 1_350_000, 1_600_000),
    ]
    without = [frame for frame in range(call.frames) if not call.mask[frame] & MASK_AGENT]
    assert without == [*range(6, 12), *range(16, 20)]
    assert all(
        call.mask[frame] == (MASK_CALLER if frame in without else MASK_ALL) for frame in range(call.frames)
    )
    assert [row["segment"] for row in call.row["history"]] == ["interrupted", "unknown"]
    assert call.row["history"][0]["played"] == [{"start": 7_200, "end": 16_800}]
    assert call.row["history"][1]["played"] is None
    transforms = json.loads(call.row["sidecar"])["audio"]["transforms"]
    assert transforms == [{"name": "playback-cut", "settings": {"channel": "agent", "cuts_s": [[0.5, 0.96]]}}]
    codes = dict(call.problems.select("code", "message").rows())
    assert codes["playback-cut"].startswith("interrupted from 500000 to 960000")
    assert codes["playback-unknown"].startswith("unknown from 1300000 to 1600000")
