"""Times of a clip's source become times of the clip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.corpus.sidecars.clip_time import in_clip_time
from inkplex_data.corpus.sidecars.crop import crop
from inkplex_data.corpus.sidecars.sidecar import read_sidecar
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.errors import CallRefused


def sidecar(**audio: Any) -> Sidecar:
    return Sidecar.model_validate(
        {
            "schema": "inkplex/sidecar@1",
            "identity": {"clip_id": "c"},
            "audio": audio,
            "words": {"items": [{"text": "a", "start_s": 5.1, "end_s": 5.4, "uncertainty_s": 0.1}]},
            "private_updates": {
                "mapping": {"kind": "measured", "recording_starts_at_s": 5.0},
                "updates": [{"id": "u", "available_at_s": 4.0, "ready_at_s": 6.0, "rows": [0, 1]}],
            },
            "targets": {"response_start_s": 5.1},
            "history": {
                "segments": [
                    {
                        "id": "h",
                        "source": "teacher",
                        "played": [{"start_s": 1, "end_s": 2}],
                        "playback_ack": {"observation": "none", "at_s": 2},
                    }
                ]
            },
        }
    )


def test_every_group_moves_and_session_time_stays() -> None:
    moved = in_clip_time(sidecar(offset_s=5.05)).to_json()
    assert moved["audio"] == {"offset_s": 5.05, "times": "clip"}
    (word,) = moved["words"]["items"]
    assert (word["start_s"], word["end_s"], word["uncertainty_s"]) == (0.05, 0.35, 0.1)
    updates = moved["private_updates"]
    assert updates["mapping"]["recording_starts_at_s"] == 5.0
    assert (updates["updates"][0]["available_at_s"], updates["updates"][0]["ready_at_s"]) == (-1.05, 0.95)
    assert moved["targets"]["response_start_s"] == 0.05
    (segment,) = moved["history"]["segments"]
    assert (
        segment["played"] == [{"start_s": -4.05, "end_s": -3.05}] and segment["playback_ack"]["at_s"] == -3.05
    )


def test_what_is_on_the_clip_already_stays() -> None:
    for audio in ({}, {"offset_s": 5.05, "times": "clip"}):
        assert in_clip_time(sidecar(**audio)) is not None
        assert in_clip_time(sidecar(**audio)) == sidecar(**audio)
    once = in_clip_time(sidecar(offset_s=5.05))
    assert in_clip_time(once) == once


def test_a_crop_written_and_read_again_is_the_same(tmp_path: Path) -> None:
    """Its `offset_s` is not taken off a second time."""
    part = crop(sidecar(offset_s=5), 50_000, 500_000)
    path = tmp_path / "part.sidecar.json"
    path.write_text(json.dumps(part.to_json()))
    assert read_sidecar(path) == part
    assert part.words is not None and part.words.items[0].start_s == 0.05
    # Sidecars of a source's beginning, as those of the example corpus, mean the same by either name.
    assert crop(sidecar(times="clip"), 10, 20) == crop(sidecar(), 10, 20)


def test_a_time_that_cannot_be_moved_refuses_the_call(tmp_path: Path) -> None:
    document = sidecar(offset_s=9.2e12).to_json()
    document["targets"]["response_start_s"] = -9.2e12
    path = tmp_path / "far.sidecar.json"
    path.write_text(json.dumps(document))
    with pytest.raises(CallRefused, match="/response_start_s is too long before the clip") as caught:
        read_sidecar(path)
    assert caught.value.code == "sidecar-invalid"
