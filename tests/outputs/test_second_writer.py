"""The same command twice at once: the second says so, ends with 1, and does not disturb the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.atomic import new_folder, only_writer
from tests.outputs.verbs import VERBS, Inputs, Verb, run

ONE_FILE = ("schema export", "report", "split", "encode")
"""What these write takes its place at once, so that two of them disturb nobody."""
SLOW = ("import states", "capture", "align", "generate")


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(verb, id=verb.name, marks=[pytest.mark.slow] if verb.name in SLOW else [])
        for verb in VERBS
        if verb.name not in ONE_FILE
    ],
)
def test_the_second_is_refused(
    verb: Verb, inputs: Inputs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    held = out / "talk-0000.states" if verb.name in ("capture", "import states") else out
    arguments = verb.arguments(inputs, out)
    with new_folder(out) if verb.whole else only_writer(held):
        assert run(*arguments) == 1
    said = capsys.readouterr().err
    assert f"error: {held}: another process is writing here" in said and "Wait for it" in said
