"""`bench`: benchmarks that anyone can run on their own machine and store."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import typer

from inkplex_data.cli.say import say

PANEL = "Measure"


def register(app: typer.Typer) -> None:
    app.command(
        "bench",
        rich_help_panel=PANEL,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(bench)


def bench(
    context: typer.Context,
    name: str | None = typer.Argument(None, help="Name of a benchmark; without one, all are listed."),
) -> None:
    """Run one of the repository's benchmarks; options after the name are passed on to it. Each prints a ratio against a named baseline."""
    from inkplex_data.errors import UsageError

    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    scripts = {path.stem: path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")}
    if not scripts:
        raise UsageError(
            "the benchmarks are not installed with the package",
            next_step="Run this in a checkout of the repository.",
        )
    if name is None:
        for stem, path in scripts.items():
            say(f"{stem:24}{_subject(path)}")
        return
    if name not in scripts:
        raise UsageError(f"there is no benchmark {name!r}", next_step=f"Name one of {', '.join(scripts)}.")
    sys.argv = [str(scripts[name]), *context.args]
    runpy.run_path(str(scripts[name]), run_name="__main__")


def _subject(path: Path) -> str:
    """First line of the script's docstring."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.startswith('"""'):
                return line.strip().strip('"')
    return ""
