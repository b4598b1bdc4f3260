"""`bench`: the benchmarks that anyone can run on their own machine and store."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import typer

PANEL = "Measure"


def register(app: typer.Typer) -> None:
    app.command(
        "bench",
        rich_help_panel=PANEL,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(bench)


def bench(
    context: typer.Context,
    name: str | None = typer.Argument(None, help="A benchmark's name; without one they are listed."),
) -> None:
    """Run a benchmark of the repository; options after the name go to it. Each prints a ratio against a named baseline."""
    from inkplex_data.errors import UsageError

    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    scripts = {path.stem: path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")}
    if not scripts:
        raise UsageError(
            "the benchmarks are not installed with the package",
            next_step="run this in a checkout of the repository",
        )
    if name is None:
        for stem, path in scripts.items():
            typer.echo(f"{stem:24}{_subject(path)}")
        return
    if name not in scripts:
        raise UsageError(f"there is no benchmark {name!r}", next_step=f"one of {', '.join(scripts)}")
    sys.argv = [str(scripts[name]), *context.args]
    runpy.run_path(str(scripts[name]), run_name="__main__")


def _subject(path: Path) -> str:
    """First line of the script's docstring."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.startswith('"""'):
                return line.strip().strip('"')
    return ""
