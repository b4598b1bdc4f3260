"""Machines that are set up otherwise: few open files, no folder for temporary files, an old locale, private files,
a folder that cannot be written to. A verb either does its work there or says what it lacks, with a path and without a
traceback, and ends in the same bytes where it is run again as usual."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.outputs.verbs import BUILDS, VERBS, Inputs, leftovers

BY_NAME = {verb.name: verb for verb in (*BUILDS, *VERBS)}
CHECKED = ("build", "build with workers", "export moshi-finetune", "export hf", "train")
NOBODY = 65_534


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def private_files() -> None:
    os.umask(0o077)


PLACES: dict[str, tuple[dict[str, str], Callable[[], None] | None]] = {
    "few open files": ({}, few_files),
    "nowhere for temporary files": ({"TMPDIR": "/nowhere"}, None),
    "locale C": ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, None),
    "private files": ({}, private_files),
}
"""Environment variables, and what is done in the process before it begins."""


def command(
    *arguments: object,
    environment: dict[str, str] | None = None,
    first: Callable[[], None] | None = None,
    user: int | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "inkplex_data.cli.app", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", **(environment or {})},
        preexec_fn=first,
        user=user,
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CHECKED)
def test_a_machine_that_is_set_up_otherwise(name: str, inputs: Inputs, tmp_path: Path) -> None:
    verb = BY_NAME[name]
    (tmp_path / "usual").mkdir()
    usual = tmp_path / "usual" / "out"
    done = command(*verb.arguments(inputs, usual))
    assert done.returncode == verb.code, done.stderr
    content = verb.content(usual)
    for place, (environment, first) in PLACES.items():
        out = tmp_path / place / "out"
        out.parent.mkdir()
        arguments = verb.arguments(inputs, out)
        done = command(*arguments, environment=environment, first=first)
        assert "Traceback" not in done.stderr, (place, done.stderr)
        if done.returncode != verb.code:
            assert done.returncode in (1, 2), (place, done.stderr)
            assert "error: " in done.stderr and "/" in done.stderr, (place, done.stderr)
            print(f"{verb.name}, {place}: {done.stderr}")
            done = command(*arguments)
            assert done.returncode == verb.code, (place, done.stderr)
        assert verb.content(out) == content, place
        assert not leftovers(out), place
        if name.startswith("build"):
            checked = command("verify", out, environment=environment, first=first)
            assert checked.returncode == 0, (place, checked.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_a_folder_that_cannot_be_written_to(name: str, inputs: Inputs, tmp_path: Path) -> None:
    """As another user, for whom modes count: root may write everywhere."""
    user = NOBODY if os.geteuid() == 0 else None
    try:
        able = command("--version", user=user).returncode == 0
    except PermissionError:
        able = False
    if not able:
        pytest.skip("another user cannot run Python here")
    verb, closed = BY_NAME[name], tmp_path / "closed"
    closed.mkdir(mode=0o555)
    arguments = verb.arguments(inputs, closed / "out")
    for folder in (inputs.root, *inputs.root.parents):  # made for this test run alone
        if folder.owner() == tmp_path.owner() and folder.is_relative_to(tmp_path.parent.parent):
            folder.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.is_relative_to(tmp_path.parent.parent):
            folder.chmod(0o755)
    done = command(*arguments, user=user)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "error: " in done.stderr and str(closed) in done.stderr, done.stderr
    closed.chmod(0o755)
    assert list(closed.iterdir()) == []
    assert command(*arguments).returncode == verb.code
