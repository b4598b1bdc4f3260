"""The commands and the Python of README and docs run as they are written, in one working folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

FENCE = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Why a command is not run here; everything else is.
NOT_RUN = {
    "make": "it installs or tests; the demo target's command is run by this test",
    ".": "it activates the environment that this test already runs in",
    "CALLS": "it stands for the reader's own calls",
    "STORE": "it stands for the reader's own store",
    "TRACES": "it stands for the reader's own transcripts",
    "ENGINE": "it stands for the reader's own engine, and the proxy runs until it is stopped",
    "MODEL": "it stands for the reader's own model",
    "RUN": "it stands for the reader's own run on a GPU; the tutorial has one that runs anywhere",
}


def blocks(page: str) -> list[tuple[str, str]]:
    return FENCE.findall((ROOT / page).read_text(encoding="utf-8"))


def commands(page: str) -> list[str]:
    lines = [
        line.split(" #")[0].strip()
        for kind, body in blocks(page)
        if kind == "sh"
        for line in body.splitlines()
    ]
    return [line for line in lines if line and not set(shlex.split(line)) & NOT_RUN.keys()]


PAGES = [
    page
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if blocks(page := path.relative_to(ROOT).as_posix())
]


def test_every_command_is_in_a_fence_that_is_read() -> None:
    """`bash` or an indented line would pass unseen."""
    for page in PAGES:
        text = re.sub(FENCE, "", (ROOT / page).read_text(encoding="utf-8"))
        assert not re.search(r"^(\$ )?(inkplex-data|torchrun|make) ", text, re.MULTILINE), page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder that looks like a checkout after `make demo`."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("examples", "pipelines"):
        (folder / name).symlink_to(ROOT / name)
    run("inkplex-data demo --workers 1", folder)
    return folder


def run(command: str, folder: Path) -> str:
    program, *arguments = shlex.split(command)
    assert program == "inkplex-data", f"this test does not know how to run {command!r}"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "inkplex_data.cli.app", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# docs/extending.md changes the package: test_extending.py carries it out in a copy.
@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/extending.md"])
def test_what_a_page_shows_runs(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in commands(page):
        run(command, folder)
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    for kind, body in blocks(page):
        if kind == "python":
            exec(compile(body, page, "exec"), names)
