"""kill -9 of every verb at any moment, and the same command again: the same output, no temporary file, no process.

Moments are drawn by a seed from the clock, which is printed: `INKPLEX_SEED=… pytest …` repeats them.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.atomic import unfinished
from tests.outputs.kills import finished, killed
from tests.outputs.verbs import BUILDS, VERBS, Inputs, Verb, leftovers

SEED = int(os.environ.get("INKPLEX_SEED") or time.time())
BY_NAME = {verb.name: verb for verb in (*BUILDS, *VERBS)}
KILLS = {
    "build": 8,
    "build with workers": 8,
    "build --add": 8,
    "merge": 8,
    "export moshi-finetune": 6,
    "export hf": 6,
    "import hf": 6,
    "import words": 10,
    "import trace": 10,
    "import states": 4,
    "capture": 4,
    "align": 6,
    "diarize": 8,
    "train": 8,
}
"""100 in all. A verb that others add gets a row here and one in `verbs.py`."""

MARKED = ("import words", "import trace", "diarize")
"""Verbs whose folders say that they are not complete."""


def whole(verb: Verb, inputs: Inputs, folder: Path) -> tuple[Any, int, float]:
    """What the verb makes when nothing stops it, the number of its file operations, and how long it takes."""
    folder.mkdir()
    verb.before(inputs, folder / "out")
    began = time.monotonic()
    done, operations = finished(verb.arguments(inputs, folder / "out"), folder)
    assert done.returncode == verb.code, done.stderr
    assert operations > 3
    return verb.content(folder / "out"), operations, time.monotonic() - began


def kill_and_run_again(verb: Verb, inputs: Inputs, folder: Path, content: Any, **moment: Any) -> None:
    folder.mkdir()
    out = folder / "out"
    verb.before(inputs, out)
    arguments = verb.arguments(inputs, out)
    told = f"seed {SEED}, {verb.name}, {moment}"
    print(told)
    killed(arguments, folder, **moment)
    if (
        verb.whole and out.exists()
    ):  # the kill came after its last step, and a folder that is there is not replaced
        assert verb.content(out) == content and not leftovers(out), told
        return
    if verb.name in MARKED and out.exists():
        assert unfinished(out) or verb.content(out) == content, told
    done, _ = finished(arguments, folder)
    assert done.returncode == verb.code, (told, done.stderr)
    assert verb.content(out) == content, told
    assert not leftovers(out), told


@pytest.mark.parametrize("name", ["import words", "diarize"])
def test_killed_and_run_again(name: str, inputs: Inputs, tmp_path: Path) -> None:
    content, operations, _ = whole(BY_NAME[name], inputs, tmp_path / "whole")
    count = random.Random(SEED).randint(2, operations)
    kill_and_run_again(BY_NAME[name], inputs, tmp_path / "killed", content, count=count)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", KILLS)
def test_killed_at_any_moment(name: str, inputs: Inputs, tmp_path: Path) -> None:
    """One half at file operations, the other by the clock, which also finds what libraries write by themselves."""
    verb, draw = BY_NAME[name], random.Random(f"{SEED} {name}")
    content, operations, seconds = whole(verb, inputs, tmp_path / "whole")
    for number in range(KILLS[name]):
        moment = (
            {"count": draw.randint(1, operations)}
            if number % 2
            else {"after_s": draw.uniform(0.3, 1) * seconds}
        )
        kill_and_run_again(verb, inputs, tmp_path / str(number), content, **moment)


def test_a_hundred_kills() -> None:
    assert sum(KILLS.values()) == 100 and KILLS.keys() <= BY_NAME.keys()
