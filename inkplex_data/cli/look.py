"""`inspect`, `stats`, `report`: ways to look at a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

if TYPE_CHECKING:
    from inkplex_data.report.call_sound import SoundOf
    from inkplex_data.store.reader import Store

PANEL = "Look"
_SCORES = typer.Option(
    None,
    "--scores",
    metavar="FILE.parquet",
    help="What `soma score` wrote: also list the calls that surprise most.",
)
_OUTLIERS = 10


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
    scores: Path | None = _SCORES,
    json_output: bool = typer.Option(
        False, "--json", help="Print one JSON object per measure, then one per problem code and outlier."
    ),
) -> None:
    """Show turn-taking, pace and padding beside human figures, and the problems of all calls by code."""
    import json

    from inkplex_data.report.gather import store_summary
    from inkplex_data.store.reader import open_store
    from inkplex_data.store.statistics import store_statistics
    from inkplex_data.text_scores import outliers, read_scores

    scored = None if scores is None else read_scores(scores)

    with open_store(store, snapshot) as opened:
        table = store_statistics(opened, split=split)
        summary = store_summary(opened)
    if json_output:
        for row in [*table.iter_rows(named=True), *summary.problems.iter_rows(named=True)]:
            say(json.dumps(row))
        if scored is not None:
            for row in outliers(scored, _OUTLIERS).iter_rows(named=True):
                say(json.dumps({"outlier": row.pop("call_id"), **row}))
        return
    from rich.console import Console

    from inkplex_data.report.terminal_tables import render_outliers, render_problems, render_statistics

    console = Console()
    console.print(render_statistics(table))
    console.print(render_problems(summary))
    if scored is not None:
        console.print(render_outliers(scored, most=_OUTLIERS))


def report(
    store: str = typer.Argument(
        ...,
        metavar="STORE|RUN",
        help="Folder or fsspec URL of a store, or a run with a grounding evaluation.",
    ),
    out: Path = typer.Option(
        Path("report.html"),
        "-o",
        "--out",
        parser=output,
        metavar="PATH",
        help="One page (NAME.html, up to 20 drawn calls), or a folder with a page for each.",
    ),
    draw: int = typer.Option(20, min=0, help="Number of calls to draw; all are listed."),
    call: list[str] = typer.Option(
        [], metavar="ID", help="A call to draw, instead of the first ones; repeatable."
    ),
    audio: Path | None = typer.Option(
        None, metavar="CORPUS", help="Corpus to take the sound from; else the stored codes are decoded."
    ),
    codec: str | None = typer.Option(None, help="Where the codec's weights are now, to decode the codes."),
    silent: bool = typer.Option(False, "--silent", help="Leave the sound out: a small page, made at once."),
    snapshot: int | None = typer.Option(None, help="Number of the snapshot; the newest by default."),
    scores: Path | None = _SCORES,
) -> None:
    """Write pages with summary, distributions, problems, and timelines that can be heard. They need no network.

    inkplex-data report out/store -o report.html
    inkplex-data report out/store -o report --draw 100 --audio calls

    Of a run: the newest grounding evaluation, for a reviewer, who hears the recordings that lie beside it.
    """
    from inkplex_data.cli.bars import progress_bar
    from inkplex_data.report.grounding_page import find_cases, write_grounding_page
    from inkplex_data.report.write_report import write_report
    from inkplex_data.store.reader import open_store
    from inkplex_data.text_scores import read_scores

    if (cases := find_cases(Path(store))) is not None:
        say(write_grounding_page(cases, out))
        return
    scored = None if scores is None else read_scores(scores)
    with open_store(store, snapshot) as opened:
        sound, reason = (None, "") if silent else _sound(opened, audio, codec)
        if reason:
            say(reason)
        with progress_bar("calls") as progress:
            page = write_report(
                opened,
                out,
                draw=draw,
                calls=call,
                sound=sound,
                silent_because=reason,
                scores=scored,
                progress=progress,
            )
    say(page)


def _sound(store: Store, corpus: Path | None, codec: str | None) -> tuple[SoundOf | None, str]:
    """What makes the sound of calls, or why nothing does. Only what the user asked for is an error."""
    from inkplex_data.errors import CheckpointError, ConfigError, MissingLibraryError
    from inkplex_data.report.call_sound import sound_of_codes, sound_of_sources
    from inkplex_data.speech.codec import codec_of

    if corpus is not None:
        return sound_of_sources(corpus, is_single=store.is_single_stream), ""
    try:
        return sound_of_codes(codec_of(store.description["codec"], codec, where=store.root)), ""
    except (CheckpointError, ConfigError, MissingLibraryError) as error:
        if codec is not None:
            raise
        return None, f"No sound, as the codes cannot be decoded: {error}"


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
