from __future__ import annotations

import json
from pathlib import Path

import pytest

from inkplex_data.errors import CheckpointError, UsageError
from inkplex_data.soma.app.model_shelf import MAX_PROFILE, described, edit_profile, list_models

FIELDS = {
    "parameters": 12_345,
    "n_bands": 4,
    "depth": 2,
    "source_bytes": 99,
    "bits_per_byte": 1.5,
    "history": [{"bits_per_byte": 3.0}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / f"{name}.pt").touch()
    (tmp_path / "a.meta.json").write_text(json.dumps({**FIELDS, "profile": {"name": "Anna", "mood": "calm"}}))
    return tmp_path


def test_models_are_listed_with_what_their_sidecars_say(folder: Path) -> None:
    anna, other = list_models(folder)
    assert anna.to_json()["course"] == [3.0]
    assert anna.to_json()["profile"] == {
        "name": "Anna",
        "tagline": "",
        "art": "",
        "about": "",
        "mood": "calm",
    }
    assert "12,345 parameters, 4 bands" in anna.text() and "Anna" in anna.text()
    assert (other.fields, other.to_json()["file"]) == ({}, "b.pt")


def test_an_edit_changes_the_profile_alone(folder: Path) -> None:
    edit_profile(folder / "a.pt", {"tagline": "speaks"})
    body = json.loads((folder / "a.meta.json").read_text())
    assert body == {**FIELDS, "profile": {"name": "Anna", "mood": "calm", "tagline": "speaks"}}
    for changes in ({"species": "x"}, {"name": 5}, {"about": "x" * (MAX_PROFILE + 1)}):
        with pytest.raises(UsageError):
            edit_profile(folder / "a.pt", changes)  # type: ignore[arg-type]
    for wrong in ("[]", "{", '"x"'):
        (folder / "b.meta.json").write_text(wrong)
        with pytest.raises(CheckpointError, match="cannot be read"):
            described(folder / "b.pt")
        assert list_models(folder)[1].fields == {}
