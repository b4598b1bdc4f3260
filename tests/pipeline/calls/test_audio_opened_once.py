"""A build opens and decodes the files of a call once for the scan and once for the encoding."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import inkplex_data as ink
from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.audio.files import audio_source
from inkplex_data.config.recipe import load_recipe
from inkplex_data.pipeline.run import build_store
from inkplex_data.speech.codec import load_codec
from tests.pipeline.conftest import RATE_HZ, voice, write_manifest
from tests.quick_codec import QUICK

WATCHED = {
    "probe_soundfile": "open",
    "probe_av": "open",
    "scan_packets": "walk",
    "soundfile_pieces": "decode",
    "av_pieces": "decode",
}


def opened(folder: Path, audio: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[str]:
    """Build one call of `folder`: what is done to its files, in order. There is no other audio in this build."""
    done: list[str] = []

    def watched(name: str, what: str) -> Callable[..., Any]:
        original = getattr(audio_source, name)

        def watching(path: Path, *given: Any, **more: Any) -> Any:
            done.append(f"{what} {path.name}")
            return original(path, *given, **more)

        return watching

    words = [["Hello", [0.3, 0.6], "SPEAKER_MAIN"], ["there", [0.7, 1.0], "SPEAKER_MAIN"]]
    (folder / "words.json").write_text(json.dumps({"alignments": words}))
    line = {"id": "call", "path": audio, "words": "words.json", "split": "train"}
    recipe = load_recipe(None, {"codec.id": QUICK, "prefix": None, **options})
    with monkeypatch.context() as patch:
        for name, what in WATCHED.items():
            patch.setattr(audio_source, name, watched(name, what))
        summary = build_store(write_manifest(folder, [line]), folder / "store", recipe=recipe, workers=1)
    assert summary.calls == ("call",), summary.text()
    return done


@pytest.fixture
def sides() -> np.ndarray:
    return np.stack([voice(1, 2.5, 120), voice(2, 2.5, 210)], axis=1)


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".mp3"])
def test_one_file(tmp_path: Path, sides: np.ndarray, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """A compressed file's packets are counted when it is opened, since its header may be wrong."""
    name = f"call{suffix}"
    soundfile.write(tmp_path / name, sides, RATE_HZ)
    once = [f"open {name}", *([] if suffix == ".wav" else [f"walk {name}"]), f"decode {name}"]
    if suffix == ".mp3":  # a damaged one is not shown to the library that would open it
        once[:2] = once[1::-1]
    assert opened(tmp_path, name, monkeypatch) == 2 * once


@pytest.mark.parametrize("caller_rate_hz", [RATE_HZ, 8_000])
def test_two_files(
    tmp_path: Path, sides: np.ndarray, monkeypatch: pytest.MonkeyPatch, caller_rate_hz: int
) -> None:
    """Also where their rates differ; and in step the codes are those of each side encoded alone."""
    paths = {"agent": tmp_path / "a.wav", "caller": tmp_path / "c.wav"}
    soundfile.write(paths["agent"], sides[:, 0], RATE_HZ)
    soundfile.write(paths["caller"], sides[:, 1], caller_rate_hz)
    done = opened(tmp_path, {side: path.name for side, path in paths.items()}, monkeypatch)
    assert done == 2 * ["open a.wav", "open c.wav", "decode a.wav", "decode c.wav"]
    codes, codec = ink.open_store(tmp_path / "store").call("call").codes.T, load_codec(QUICK)
    for index, samples in enumerate(zip(*resolve_channels(paths).streams(), strict=True)):
        assert np.array_equal(codes[:, 8 * index : 8 * index + 8], codec.encode(np.concatenate(samples)))


def test_an_augmented_call_is_listened_to_before(
    tmp_path: Path, sides: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides once to draw the changes, once to encode; the echo takes the agent's samples from the latter."""
    soundfile.write(tmp_path / "call.wav", sides, RATE_HZ)
    augment = {name: {"probability": 1.0} for name in ("gain", "noise", "room")}
    done = opened(tmp_path, "call.wav", monkeypatch, augment=augment)
    assert done == [*2 * ["open call.wav", "decode call.wav"], "decode call.wav"]
