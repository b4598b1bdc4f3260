"""A sidecar's account of its waveform against the files that are there."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from inkplex_data.corpus.sidecars.against_audio import AudioFile, audio_differences
from inkplex_data.corpus.sidecars.sidecar_models import Audio

FILE = AudioFile("caf\u00e9.mp3", "a" * 64, 16_000, 1_000, slack_samples=10)
OTHER = AudioFile("b.wav", "b" * 64, 8_000, 500)
TRUE = {"path": "x/cafe\u0301.mp3", "sha256": "a" * 64, "sample_rate_hz": 16_000, "samples": 1_010}


@pytest.mark.parametrize(
    ("audio", "told"),
    [
        ({}, []),
        (TRUE, []),
        (TRUE | {"path": "c.mp3"}, ["it is about 'c.mp3', the audio is 'café.mp3'"]),
        (
            TRUE | {"sha256": "c" * 64},
            ["its sha256 cccccccccccc… is not aaaaaaaaaaaa…, which 'café.mp3' has"],
        ),
        (TRUE | {"sample_rate_hz": 8_000}, ["its 8,000 Hz are not the 16,000 Hz of 'café.mp3'"]),
        (TRUE | {"samples": 1_011}, ["its 1,011 samples are not the 1,000 of 'café.mp3'"]),
    ],
)
def test_each_field_is_compared(audio: dict[str, Any], told: list[str]) -> None:
    assert audio_differences(Audio.model_validate(audio), [FILE]) == told


def test_of_two_files_it_is_about_the_one_it_names_or_either() -> None:
    both = [FILE, OTHER]
    of_other = {"sha256": "b" * 64, "sample_rate_hz": 8_000, "samples": 500}
    assert audio_differences(Audio.model_validate(of_other), both) == []
    assert audio_differences(Audio.model_validate(of_other | {"path": "b.wav"}), both) == []
    assert len(audio_differences(Audio.model_validate(of_other | {"path": FILE.name}), both)) == 2
    lossless = dataclasses.replace(FILE, slack_samples=0)
    assert audio_differences(Audio.model_validate(TRUE), [lossless])
