"""File names of calls: every one can be made in one folder, and none of them leaves it."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.export.file_names import FileNames


@given(st.lists(st.text(min_size=1, max_size=120), unique=True, max_size=8))
def test_names_are_alike_on_no_file_system(ids: list[str]) -> None:
    names = FileNames()
    made = [names.of(call_id) for call_id in ids]
    assert len({unicodedata.normalize("NFC", name.casefold()) for name in made}) == len(ids)
    for name in made:
        assert len(name.encode()) <= 110 and name[:1] not in {"", ".", "-"}
        assert not set(name) & set('/\\:*?"<>|\0 ')


@pytest.mark.parametrize("call_id", ["call-0042", "é", "sim.delivery", "通話"])
def test_plain_ids_stay_as_they_are(call_id: str) -> None:
    assert FileNames().of(call_id) == call_id


@pytest.mark.parametrize("call_id", ["..", "a/b", "NUL.wav", "-rf", "通" * 90, "a" * 300])
def test_other_ids_keep_what_can_be_read(call_id: str, tmp_path: Path) -> None:
    name = FileNames().of(call_id)
    assert name != call_id
    (tmp_path / f".{name}.agent.json.1234567.tmp").touch()


def test_case_and_accents_make_no_other_name() -> None:
    names = FileNames()
    made = [names.of(call_id) for call_id in ("Anna", "anna", "é", "e\u0301")]
    assert made[0] == "Anna" and made[1].startswith("anna-")
    assert made[2] == "é" and made[3] != "e\u0301"
