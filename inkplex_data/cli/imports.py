"""`import trace` and `import states`: recordings from other tools' logs and captures."""

from __future__ import annotations

from pathlib import Path

import typer

from inkplex_data.cli.bars import progress_bar
from inkplex_data.cli.exchange import import_app
from inkplex_data.cli.key_value import key_values, number
from inkplex_data.cli.output import output
from inkplex_data.cli.say import say
from inkplex_data.plural import counted


def register(app: typer.Typer) -> None:
    """Add to the group that `exchange` registers."""
    del app
    import_app.command("trace")(trace)
    import_app.command("states")(states)


def trace(
    path: Path = typer.Argument(
        ...,
        metavar="PATH",
        help="JSON or JSONL: chat messages, logs of OpenAI or Anthropic requests, OpenTelemetry, LangSmith or Langfuse "
        "exports, tau-bench, SWE-agent, ShareGPT or ABCD files, Realtime, LiveKit or Pipecat logs.",
    ),
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder for the recordings."
    ),
    tokenizer: str | None = typer.Option(
        None,
        help="Folder or hub id of a checkpoint, whose chat template is applied, or a tokenizer.json. "
        "Offline: o200k (the default) or bytes.",
    ),
    setting: list[str] | None = typer.Option(
        None,
        "--schedule",
        metavar="KEY=VALUE",
        help="A setting of the schedule that replaces missing times, e.g. --schedule tool_latency_s=2.",
    ),
    times: str = typer.Option(
        "end", help="What a message's time is if it has only one: end (when it was complete) or start."
    ),
    form: str | None = typer.Option(
        None, "--format", help="Format of the file, if its content does not show it."
    ),
) -> None:
    """Turn recorded agent sessions into recordings, one per dialogue.

    Each answer becomes a model request; what it shares with the request before is cached. If no times were
    recorded, a declared schedule is used, and the recording says `times: constructed`. Exits with 3 if some
    dialogues could not be read.
    """
    from inkplex_data.corpus.traces.arrival_schedule import schedule_of
    from inkplex_data.corpus.traces.importer import import_traces
    from inkplex_data.errors import UsageError
    from inkplex_data.export.calls import told_refused

    if times not in ("start", "end"):
        raise UsageError(f"--times takes start or end (got {times!r})")
    schedule = schedule_of(key_values("--schedule", setting, read=number))
    with progress_bar("dialogues") as advance:
        result = import_traces(
            path,
            out,
            tokenizer=tokenizer,
            schedule=schedule,
            format_name=form,
            moments="start" if times == "start" else "end",
            progress=advance,
        )
    tokens = sum(one.tokens for one in result.written)
    requests = sum(one.requests for one in result.written)
    made = " and ".join(sorted({one.times for one in result.written})) or "no"
    say(
        f"{out}: {counted(len(result.written), 'recording')} from {result.format}, "
        f"{counted(requests, 'request')}, {counted(tokens, 'token')} of {result.tokenizer}, {made} times"
    )
    for problem in result.unread:
        say(f"  {problem}")
    for line in told_refused(result.refused, out):
        say(line)
    raise typer.Exit(0 if not result.refused else 3 if result.written else 1)


def states(
    recording: Path = typer.Argument(..., metavar="RECORDING", help="A recording.jsonl."),
    folder: Path = typer.Argument(
        ...,
        metavar="STATES_FOLDER",
        help="Safetensors files, one per request, named by their metadata or by the number in the file's name; "
        "or what an engine wrote (--from).",
    ),
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder for the recording and its states."
    ),
    accept_unidentified_states: bool = typer.Option(
        False,
        "--accept-unidentified-states",
        help="Take files that do not say which model computed them; the recording marks them for ever.",
    ),
    engine: str | None = typer.Option(
        None,
        "--from",
        metavar="ENGINE",
        help="vllm: the folder holds what its hidden-state connector wrote, a file a request.",
    ),
    model: str | None = typer.Option(
        None, help="With --from: folder or hub id of the checkpoint that was served, for its final norm."
    ),
    revision: str | None = typer.Option(
        None, help="With --from: commit of the weights; else their files are digested."
    ),
    layers: str = typer.Option("29,35,42", help="With --from: the layer ids that the engine was asked for."),
) -> None:
    """Add a serving engine's captures to a recording: three rows per computed token, checked and copied."""
    from inkplex_data.errors import UsageError
    from inkplex_data.memory.capture.recordings_with_states import attach_states

    with progress_bar("tokens") as advance:
        if engine is None:
            result = attach_states(
                recording, folder, out, accept_unidentified=accept_unidentified_states, progress=advance
            )
        else:
            from inkplex_data.memory.engines import engine_layers, open_engine
            from inkplex_data.memory.engines.final_norm import read_final_norm
            from inkplex_data.memory.engines.vllm_import import attach_dumps

            dumps = open_engine(engine)(folder, engine_layers(layers))
            if model is None:
                raise UsageError(
                    "the engine writes the last layer before the final norm, which the checkpoint has",
                    where="--model",
                    next_step="Give --model the folder or hub id of the checkpoint that the engine served.",
                )
            norm = read_final_norm(model, revision=revision)
            result = attach_dumps(recording, dumps, norm, out, progress=advance)
    say(result.text())
