"""docs/extending.md is carried out, step by step, in a copy of the checkout: it does what it says, and no step is missing."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"# (\S+/\S+\.py)\n")
SECTIONS: dict[str, str] = dict(SECTION.findall(PAGE))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Code, tests and docs to change; what is only read is linked."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("inkplex_data", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "examples", "pipelines", "pyproject.toml", "schemas"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_every_step_works(checkout: Path) -> None:
    """The page's tests run together when all its steps are done: each process that imports the tools costs seconds."""
    tests: list[list[str]] = []
    for line in carry_out(checkout):
        if line.startswith("pytest "):
            tests.append(shlex.split(line, comments=True)[1:])
        else:
            run(command(line), checkout)
    program = f"import pytest, sys; sys.exit(max(pytest.main(arguments) for arguments in {tests!r}))"
    run([sys.executable, "-c", program], checkout)


@pytest.mark.slow
def test_every_step_works_where_it_stands_on_the_page(checkout: Path) -> None:
    for line in carry_out(checkout):
        run(command(line), checkout)


def carry_out(checkout: Path) -> Iterator[str]:
    """Do the page's changes in its order; the shell lines are for the caller to run, each at its place."""
    for body in SECTIONS.values():
        for kind, block in FENCE.findall(body):
            path = PATH.match(block)
            if kind == "diff":
                assert path is not None, block
                apply(block[path.end() :], checkout / path.group(1))
            elif kind == "python" and path is not None:
                target = checkout / path.group(1)
                assert not target.exists(), f"{target.name} is no new file"
                target.write_text(block, encoding="utf-8")
            elif kind == "python":
                run([sys.executable, "-c", block], checkout)
            else:
                assert kind == "sh", kind
                yield from block.splitlines()


def apply(diff: str, path: Path) -> None:
    """Replace the lines of a diff that stand in the file, exactly once, by those that shall stand there."""
    lines = diff.splitlines(keepends=True)
    assert all(line[0] in " +-" for line in lines), diff
    old = "".join(line[1:] for line in lines if line[0] != "+")
    new = "".join(line[1:] for line in lines if line[0] != "-")
    text = path.read_text(encoding="utf-8")
    if not old:
        path.write_text(f"{text}\n\n{new}", encoding="utf-8")
        return
    assert text.count(old) == 1, f"{path.name} does not hold these lines once:\n{old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def command(line: str) -> list[str]:
    program, *arguments = shlex.split(line, comments=True)
    modules = {"inkplex-data": "inkplex_data.cli.app", "pytest": "pytest"}
    if program == "python":
        return [sys.executable, *arguments]
    return [sys.executable, "-m", modules[program], *arguments]


def run(arguments: list[str], checkout: Path) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "120", "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        arguments, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"


def test_every_test_that_the_page_names_exists() -> None:
    """A file, or a function of some file."""
    named = re.findall(r"`(?:(tests/[\w/]+\.py)|(test_\w+))`", PAGE)
    assert len(named) > 10
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for path, function in named:
        assert (ROOT / path).is_file() if path else f"def {function}(" in sources, path or function


def test_every_kind_has_its_section() -> None:
    linked = re.findall(r"\(#([\w-]+)\)", PAGE)
    assert linked == [re.sub(r"\W", "-", name.lower().replace("'", "")) for name in SECTIONS][:-1]
