"""`import trace` and `import states`: recordings out of other people's logs and captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from inkplex_data.cli.bars import progress_bar
from inkplex_data.cli.exchange import import_app


def register(app: typer.Typer) -> None:
    """Adds to the group that `exchange` registers."""
    del app
    import_app.command("trace")(trace)
    import_app.command("states")(states)


def trace(
    path: Path = typer.Argument(
        ..., metavar="PATH", help="JSON or JSONL: chat messages with tool calls, or ABCD dialogues."
    ),
    out: Path = typer.Option(..., "-o", "--out", metavar="DIR", help="Folder for the recordings."),
    tokenizer: str | None = typer.Option(
        None,
        help="Folder or hub id of a checkpoint, whose chat template is applied, or a tokenizer.json. "
        "Offline: o200k (the default) or bytes.",
    ),
    setting: list[str] | None = typer.Option(
        None,
        "--schedule",
        metavar="KEY=VALUE",
        help="A part of the schedule that stands in for missing times, e.g. --schedule tool_latency_s=2.",
    ),
    form: str | None = typer.Option(
        None, "--format", help="Format of the file, where content is not to tell."
    ),
) -> None:
    """Recorded agent sessions become recordings, one for each dialogue.

    A model request for every answer; what it shares with the one before is cached. Without recorded times a
    declared schedule is used, and the recording says `times: constructed`. Exits with 3 where some dialogues
    could not be read.
    """
    from inkplex_data.corpus.traces.arrival_schedule import schedule_of
    from inkplex_data.corpus.traces.importer import import_traces

    schedule = schedule_of(_settings(setting or []))
    with progress_bar("dialogues") as advance:
        result = import_traces(
            path, out, tokenizer=tokenizer, schedule=schedule, format_name=form, progress=advance
        )
    tokens = sum(one.tokens for one in result.written)
    requests = sum(one.requests for one in result.written)
    times = " and ".join(sorted({one.times for one in result.written})) or "no"
    typer.echo(
        f"{out}: {len(result.written)} recordings from {result.format}, {requests:,} requests, "
        f"{tokens:,} tokens of {result.tokenizer}, {times} times"
    )
    for problem in result.refused:
        typer.echo(f"  refused {problem.call_id}: [{problem.code}] {problem.message}")
    raise typer.Exit(0 if not result.refused else 3 if result.written else 1)


def states(
    recording: Path = typer.Argument(..., metavar="RECORDING", help="A recording.jsonl."),
    folder: Path = typer.Argument(
        ..., metavar="STATES_FOLDER", help="Safetensors, one for each request, its number in the name."
    ),
    out: Path = typer.Option(
        ..., "-o", "--out", metavar="DIR", help="Folder for the recording and its states."
    ),
) -> None:
    """Captures of a serving engine join a recording: three rows for every computed token, checked and copied."""
    from inkplex_data.memory.capture.recordings_with_states import attach_states

    with progress_bar("tokens") as advance:
        result = attach_states(recording, folder, out, progress=advance)
    typer.echo(
        f"{result.path}: states of {result.tokens:,} tokens in {result.requests} requests, width {result.width}"
    )


def _settings(settings: list[str]) -> dict[str, Any]:
    from inkplex_data.errors import UsageError

    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--schedule takes KEY=VALUE (got {setting!r})")
        try:
            found[key.strip()] = float(value)
        except ValueError as error:
            raise UsageError(f"--schedule {key} takes a number (got {value!r})") from error
    return found
