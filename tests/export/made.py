"""A corpus of a few seconds in every audio layout: 16-bit stereo, float at 48 kHz, two files, swapped channels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import soundfile

WORDS = [
    ["Good", [0.12, 0.34], "SPEAKER_MAIN"],
    ["day,", [0.34, 0.567891], "SPEAKER_MAIN"],
    ["hi", [0.6, 0.7], "SPEAKER_CALLER"],
]


def noise(seed: int, samples: int) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(samples)).astype(np.float32)


def make_corpus(folder: Path) -> Path:
    """The manifest. Calls: "one" (16 bit, 8 kHz), "sub/two: ü" (float, 48 kHz), "pair" (two files of unequal
    length), "turned" (agent right), "broken" (no audio)."""
    folder.mkdir(parents=True)
    stereo = np.stack([noise(1, 8_000), noise(2, 8_000)], axis=1)
    soundfile.write(folder / "one.wav", stereo, 8_000, subtype="PCM_16")
    soundfile.write(
        folder / "two.wav", np.stack([noise(3, 48_001), noise(4, 48_001)], 1), 48_000, subtype="FLOAT"
    )
    soundfile.write(folder / "pair.agent.flac", noise(5, 16_000), 16_000, subtype="PCM_16")
    soundfile.write(folder / "pair.caller.flac", noise(6, 15_000), 16_000, subtype="PCM_16")
    soundfile.write(
        folder / "turned.flac", np.stack([noise(8, 24_000), noise(7, 24_000)], 1), 24_000, subtype="PCM_24"
    )
    (folder / "broken.wav").write_bytes(b"RIFF")
    document = {"alignments": WORDS, "confidence": [0.5, None, 1.0], "text_conditions": {"mood": "calm"}}
    for name in ("one", "two", "turned"):
        (folder / f"{name}.json").write_text(json.dumps(document))
    lines = [
        {"id": "one", "path": "one.wav", "family": "f", "split": "train", "voice": "amy", "role": "Be kind."},
        {"id": "sub/two: ü", "path": "two.wav", "split": "validation"},
        {"id": "pair", "path": {"agent": "pair.agent.flac", "caller": "pair.caller.flac"}, "split": "train"},
        {"id": "turned", "path": "turned.flac", "channels": {"agent": 1, "caller": 0}, "split": "train"},
        {"id": "broken", "path": "broken.wav", "split": "train"},
    ]
    path = folder / "manifest.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
