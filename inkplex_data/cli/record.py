"""`record`: a proxy in front of an engine that writes what passes through it as recordings."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import typer

from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

PANEL = "Exchange"


def record(
    url: str = typer.Argument(..., metavar="URL", help="The engine, for example http://127.0.0.1:8000."),
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder for a recording of each session."
    ),
    tokenizer: str | None = typer.Option(
        None,
        help="The model's folder, tokenizer.json or hub id, whose chat template renders what is asked and answered; "
        "o200k (the default) or bytes without one.",
    ),
    port: int = typer.Option(0, min=0, max=65_535, help="Where to listen on 127.0.0.1; 0 takes a free port."),
) -> None:
    """Record a reasoning model at work: a proxy for OpenAI's and Anthropic's clients, on this machine.

    Give clients its address as their base URL. A recording is valid after each request; the states of its tokens join it
    with `import states`, or with `capture`. Ctrl-C ends it.
    """
    from inkplex_data.atomic import only_writer
    from inkplex_data.corpus.traces.importer import encoder_for
    from inkplex_data.memory.record.engine_proxy import EngineProxy, engine_url, without_secrets
    from inkplex_data.memory.record.proxy_sessions import ProxySessions
    from inkplex_data.plural import counted

    engine = engine_url(url)
    sessions = ProxySessions(out, encoder_for(tokenizer), engine=without_secrets(engine))
    with only_writer(out), EngineProxy(engine, sessions, port=port) as proxy:
        say(f"{proxy.url}/v1 → {without_secrets(engine)}: recording into {out}")
        with suppress(KeyboardInterrupt):
            proxy.serve_forever()
    written = [one.recorder for one in sessions.sessions if one.recorder is not None]
    tokens = sum(one.tokens for one in written)
    say(f"{out}: {counted(len(written), 'recording')}, {counted(tokens, 'token')}")
    for what, count in sorted(sessions.counts.items()):
        say(f"  {count:,} {what}")


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(rich_help_panel=PANEL)(record)
