"""`inspect`, `stats`, `report`: ways to look at a store."""

from __future__ import annotations

from pathlib import Path

import typer

from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

PANEL = "Look"


def register(app: typer.Typer) -> None:
    app.command("inspect", rich_help_panel=PANEL)(inspect)
    app.command("report", rich_help_panel=PANEL)(report)
    app.command("stats", rich_help_panel=PANEL)(stats)


def inspect(
    store: str = typer.Argument(..., metavar="STORE", help="Folder or fsspec URL of a store."),
    call: str | None = typer.Argument(
        None, metavar="[CALL]", help="Id of the call to draw; without one, the store's summary."
    ),
    snapshot: int | None = typer.Option(None, help="Number of the snapshot; the newest by default."),
    width: int | None = typer.Option(None, help="Width in columns; the terminal's by default."),
) -> None:
    """Show a store's summary, or draw one call with both channels, words, text pieces, prefix and memory."""
    if call is None:
        show_store(store, snapshot=snapshot, width=width)
    else:
        show_call(store, call, snapshot=snapshot, width=width)


def stats(
    store: str = typer.Argument(..., metavar="STORE", help="Folder or fsspec URL of a store."),
    split: str | None = typer.Option(None, help="Measure only this split: train, validation or test."),
    snapshot: int | None = typer.Option(None, help="Number of the snapshot; the newest by default."),
    json_output: bool = typer.Option(
        False, "--json", help="Print one JSON object per measure, then one per problem code."
    ),
) -> None:
    """Show turn-taking, pace and padding beside human figures, and the problems of all calls by code."""
    import json

    from inkplex_data.report.gather import store_summary
    from inkplex_data.store.reader import open_store
    from inkplex_data.store.statistics import store_statistics

    with open_store(store, snapshot) as opened:
        table = store_statistics(opened, split=split)
        summary = store_summary(opened)
    if json_output:
        for row in [*table.iter_rows(named=True), *summary.problems.iter_rows(named=True)]:
            say(json.dumps(row))
        return
    from rich.console import Console

    from inkplex_data.report.terminal_tables import render_problems, render_statistics

    console = Console()
    console.print(render_statistics(table))
    console.print(render_problems(summary))


def report(
    store: str = typer.Argument(
        ...,
        metavar="STORE|RUN",
        help="Folder or fsspec URL of a store, or a run with a grounding evaluation.",
    ),
    out: Path = typer.Option(
        Path("report.html"), "-o", "--out", parser=output, metavar="FILE.html", help="The page to write."
    ),
    draw: int = typer.Option(20, help="Number of calls to draw; all are listed."),
    snapshot: int | None = typer.Option(None, help="Number of the snapshot; the newest by default."),
) -> None:
    """Write a self-contained HTML page with summary, calls, problems and timelines.

    Of a run: the newest grounding evaluation, for a reviewer, who hears the recordings that lie beside it.
    """
    from inkplex_data.atomic import replacing
    from inkplex_data.cli.grounding import write_page
    from inkplex_data.report.grounding_page import find_cases

    if (cases := find_cases(Path(store))) is not None:
        say(write_page(cases, out))
        return
    from inkplex_data.report.gather import report_page
    from inkplex_data.store.reader import open_store

    with open_store(store, snapshot) as opened, replacing(out) as file:
        for piece in report_page(opened, draw=draw):
            file.write(piece.encode())
    say(out)


def show_store(store: str | Path, *, snapshot: int | None = None, width: int | None = None) -> None:
    """Print the summary of a store."""
    from rich.console import Console

    from inkplex_data.report.gather import store_summary
    from inkplex_data.report.terminal_tables import render_calls, render_summary
    from inkplex_data.store.reader import open_store

    console = Console(width=width)
    with open_store(store, snapshot) as opened:
        console.print(render_summary(store_summary(opened)))
        console.print(render_calls(opened.calls().collect()))


def show_call(
    store: str | Path, call_id: str, *, snapshot: int | None = None, width: int | None = None
) -> None:
    """Draw one call."""
    from rich.console import Console

    from inkplex_data.report.gather import call_view
    from inkplex_data.report.timeline import render_call
    from inkplex_data.store.reader import open_store

    console = Console(width=width)
    with open_store(store, snapshot) as opened:
        console.print(render_call(call_view(opened, call_id), console.width))
