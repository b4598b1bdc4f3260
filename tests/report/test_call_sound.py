from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from inkplex_data.config.recipe import load_recipe
from inkplex_data.errors import UsageError
from inkplex_data.pipeline.run import build_store
from inkplex_data.report.call_sound import CallSound, ogg_opus, sound_of_codes, sound_of_sources
from inkplex_data.store.reader import Store, open_store
from tests.pipeline.conftest import RATE_HZ, voice, write_call
from tests.quick_codec import QUICK, QuickCodec


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One call whose agent is on the right channel, and a part of another."""
    folder = tmp_path_factory.mktemp("heard")
    write_call(folder, "two", 3)
    long = np.stack([voice(7, 4, 120), voice(8, 4, 210)], axis=1)
    soundfile.write(folder / "long.wav", long, RATE_HZ, subtype="PCM_16")
    (folder / "long.json").write_text(json.dumps({"alignments": [["now", [2.0, 2.4], "SPEAKER_MAIN"]]}))
    lines = [
        {"id": "two", "path": "two.wav", "channels": {"agent": 1, "caller": 0}},
        {"id": "long", "path": "long.wav", "clips": [[1.0, 3.0]]},
    ]
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    recipe = load_recipe("moshi_stereo", {"codec.id": QUICK})
    summary = build_store(folder, folder / "out", recipe=recipe, workers=1)
    assert summary.exit_code == 0, summary.text()
    return open_store(folder / "out")


def heard(sound: CallSound) -> np.ndarray:
    """float32 [2, samples] at 24 kHz."""
    samples, rate_hz = soundfile.read(io.BytesIO(sound.ogg), dtype="float32", always_2d=True)
    assert rate_hz == RATE_HZ
    return samples.T


def likeness(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def test_a_sources_sound_has_the_agent_left_and_is_the_stored_part(store: Store) -> None:
    sound_of = sound_of_sources(Path(store.root).parent)
    stereo = soundfile.read(Path(store.root).parent / "two.wav", dtype="float32")[0].T
    two = heard(sound_of(store.call("two")))
    assert two.shape == stereo.shape
    assert likeness(two[0], stereo[1]) > 0.95 and likeness(two[1], stereo[0]) > 0.95
    whole = soundfile.read(Path(store.root).parent / "long.wav", dtype="float32")[0].T
    (part,) = [call_id for call_id in store.call_ids if call_id != "two"]
    clip = heard(sound_of(store.call(part)))
    assert clip.shape == (2, 2 * RATE_HZ)
    assert likeness(clip[0], whole[0, RATE_HZ : 3 * RATE_HZ]) > 0.95


def test_a_corpus_without_the_call_is_named(store: Store, tmp_path: Path) -> None:
    write_call(tmp_path, "other", 1)
    with pytest.raises(UsageError, match="no call 'two'"):
        sound_of_sources(tmp_path)(store.call("two"))


def test_codes_are_decoded_side_by_side_and_their_codec_is_named(store: Store) -> None:
    call = store.call("two")
    sound = sound_of_codes(QuickCodec())(call)
    assert QUICK in sound.source and "untrained" in sound.source
    voices = heard(sound)
    assert voices.shape == (2, call.frames * 1_920)
    for side, own in enumerate(voices):
        # Steps are no sound that Opus was made for, but each side is told from the other.
        likes = [likeness(own, QuickCodec().decode(call.codes[8 * of : 8 * of + 8])) for of in range(2)]
        assert likes[side] > 0.6 > 0.3 > likes[1 - side]


def test_the_file_is_as_long_as_the_call() -> None:
    voices = np.stack([voice(1, 1.3, 150)] * 2)
    assert heard(CallSound(ogg_opus(voices), "")).shape == voices.shape
