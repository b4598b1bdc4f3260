"""`build` and `demo`: from a corpus to a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from inkplex_data.cli.interrupts import going_on
from inkplex_data.cli.key_value import key_values
from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

if TYPE_CHECKING:
    from inkplex_data.pipeline.outcome import Summary

PANEL = "Make a store"


def register(app: typer.Typer) -> None:
    app.command("build", rich_help_panel=PANEL)(build)
    app.command("merge", rich_help_panel=PANEL)(merge)
    app.command("demo", rich_help_panel=PANEL)(demo)


def build(
    corpus: Path = typer.Argument(
        ..., metavar="CORPUS", help="A manifest .jsonl, a Moshi fine-tuning .jsonl, or a folder of audio."
    ),
    out: Path = typer.Option(
        ...,
        "-o",
        "--out",
        parser=output,
        metavar="STORE",
        help="Folder of the store; created if it does not exist.",
    ),
    pipeline: str | None = typer.Option(
        None,
        "-p",
        "--pipeline",
        help="A recipe that comes with the package (demo, moshi_stereo, moshi_single, stage1 …) or a YAML file.",
    ),
    codec: str | None = typer.Option(
        None, help="Hub id, local folder, Moshi-format .safetensors, or untrained:SEED."
    ),
    words: str | None = typer.Option(None, help="Where the agent's words come from: given, whisper or none."),
    tokenizer: str | None = typer.Option(None, help="SentencePiece model for the text stream."),
    mono: bool = typer.Option(
        False,
        "--mono",
        help="Divide one-channel files into two streams by diarization (-p moshi_single: one stream).",
    ),
    agent: str | None = typer.Option(
        None, help="The agent's channel if the corpus names none: left, right or auto (guess)."
    ),
    swap_roles: bool = typer.Option(
        False, "--swap-roles", help="Also build each call with its sides exchanged, as ID~swapped."
    ),
    setting: list[str] | None = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="Override any recipe key, e.g. --set text.delay_s=0.2."
    ),
    device: str | None = typer.Option(
        None,
        help="Where models run: auto, cpu, cuda or cuda:N; cpu, or the store's, by default. Codes differ between classes.",
    ),
    workers: int | None = typer.Option(
        None, help="Local processes; all cores by default. 1 stays in this process."
    ),
    scheduler: str | None = typer.Option(
        None, metavar="ADDRESS", help="Address of a Dask scheduler, e.g. tcp://host:8786."
    ),
    wait: float | None = typer.Option(
        None,
        "--wait",
        metavar="SECONDS",
        min=0,
        help="With --scheduler: how long to wait while it has no worker; 300 by default.",
    ),
    add: bool = typer.Option(
        False, "--add", help="Add calls that are not yet in the store, as a new snapshot."
    ),
    update: bool = typer.Option(
        False,
        "--update",
        help="Follow the corpus in a new snapshot: add new calls, build changed ones anew, leave out those gone.",
    ),
    restart: bool = typer.Option(False, "--restart", help="Discard what the store holds and start again."),
    root: Path | None = typer.Option(
        None, help="Folder that the corpus's paths must stay inside; its own folder by default."
    ),
    part: str | None = typer.Option(
        None,
        "--part",
        metavar="K/N",
        help="Only the K-th of N parts of the corpus, into a store of its own; `merge` joins them.",
    ),
    strict: bool = typer.Option(False, "--strict", help="Refuse calls that would need a repair."),
    accept_unidentified_states: bool = typer.Option(
        False,
        "--accept-unidentified-states",
        help="Take states that do not say which model computed them; the store marks them for ever.",
    ),
    json_events: bool = typer.Option(False, "--json", help="Print events and the summary as JSON lines."),
) -> None:
    """Encode a corpus into a store. After an interruption, run it again and it continues where it stopped.

    A call that cannot be built never stops the others: it is listed with a code and a sentence, and the
    exit code is 3. An existing store keeps its recipe unless another is named. Calls that changed or went since they
    were published are named; --update follows them.
    """
    from inkplex_data.config.device import choose_device
    from inkplex_data.config.recipe import load_recipe
    from inkplex_data.pipeline.parts.cut_corpus import PartName
    from inkplex_data.pipeline.target import stored_recipe

    overrides = key_values("--set", setting)
    named = {
        "codec.id": codec,
        "words.source": words,
        "text.tokenizer": tokenizer,
        "audio.agent": agent,
    }
    overrides.update({key: value for key, value in named.items() if value is not None})
    if mono:
        overrides["audio.mono"] = "diarize"
    if swap_roles:
        overrides["audio.swap_roles"] = True
    if strict:
        overrides["strict"] = True
    if pipeline is None and not overrides and not restart:
        recipe = stored_recipe(out) or load_recipe(None)
    else:
        recipe = load_recipe(pipeline, overrides)
    if accept_unidentified_states and recipe.memory is not None:
        memory = recipe.memory.model_copy(update={"accept_unidentified_states": True})
        recipe = recipe.model_copy(update={"memory": memory})
    if device is not None:
        known = None if restart else stored_recipe(out)
        stored = known.device if known is not None else None
        device = choose_device(device, stored=stored, is_remote=scheduler is not None)
    summary = _build(
        corpus,
        out,
        json_events=json_events,
        recipe=recipe,
        device=device,
        workers=workers,
        scheduler=scheduler,
        wait_s=wait,
        add=add,
        update=update,
        restart=restart,
        root=root,
        part=PartName.parse(part) if part is not None else None,
    )
    raise typer.Exit(summary.exit_code)


def merge(
    stores: list[Path] = typer.Argument(
        ..., metavar="STORE...", help="Finished local stores of one recipe: all parts of a corpus, or any."
    ),
    out: Path = typer.Option(
        ...,
        "-o",
        "--out",
        parser=output,
        metavar="STORE",
        help="Folder of the new store; created if it does not exist.",
    ),
    json_events: bool = typer.Option(False, "--json", help="Print events and the summary as JSON lines."),
) -> None:
    """Join stores into one, by hard links where one file system has both. They stay as they are.

    Families, ids and partners are settled over all of them: of two calls with the same audio in different splits, the later
    one is left out and listed, and the exit code is 3. After an interruption, run it again.
    """
    from inkplex_data.pipeline.parts.merge_stores import merge_stores
    from inkplex_data.pipeline.progress import reporter_for

    reporter = reporter_for(json_events=json_events)
    with going_on("Run the same command again; it goes on from here."):
        try:
            summary = merge_stores(stores, out, reporter=reporter)
        finally:
            reporter.finish()
    _say(summary, json_events=json_events)
    raise typer.Exit(summary.exit_code)


def demo(
    out: Path = typer.Option(
        Path("out/demo"), "-o", "--out", parser=output, help="Folder of the demo store."
    ),
    workers: int | None = typer.Option(None, help="Local processes; all cores by default."),
) -> None:
    """Build the example corpus, then show a summary, a Polars table and one call's timeline."""
    from inkplex_data.cli.look import show_call, show_store
    from inkplex_data.config.recipe import load_recipe
    from inkplex_data.errors import UsageError

    corpus = Path(__file__).resolve().parents[2] / "examples" / "corpus" / "manifest.jsonl"
    if not corpus.is_file():
        raise UsageError(
            "the example corpus is not installed with the package",
            next_step="Run `make demo` in a checkout of the repository.",
        )
    summary = _build(corpus, out, json_events=False, recipe=load_recipe("demo"), workers=workers)
    show_store(out)
    if summary.calls or summary.already:
        call_id = _most_telling(out)
        _show_frames(out, call_id)
        show_call(out, call_id)
    say(
        f"\nNext: inkplex-data inspect {out} CALL · inkplex-data stats {out} · inkplex-data report {out} -o report.html"
    )
    raise typer.Exit(summary.exit_code)


def _most_telling(store: Path) -> str:
    """The call whose memory has the most versions, so that there is most to see."""
    from inkplex_data.store.reader import open_store

    with open_store(store) as opened:
        calls = opened.calls().sort("versions", "call_id", descending=[True, False])
        return str(calls.select("call_id").first().collect().item())


def _show_frames(store: Path, call_id: str) -> None:
    """Print a few frames as Polars sees them, below the expression that selects them."""
    import polars as pl

    from inkplex_data.store.reader import open_store

    with open_store(store) as opened:
        frames = opened.frames().filter(pl.col("call_id") == call_id, pl.col("piece").is_not_null())
        table = frames.select("frame", "time_s", "piece", "text_id", "agent", "caller").head(8).collect()
    say(f'\nopen_store("{store}").frames(), filtered to pieces of text in {call_id}:')
    say(table)


def _build(corpus: Path, out: Path, *, json_events: bool, **options: Any) -> Summary:
    """Build with the reporter that suits, and print the summary."""
    from inkplex_data.pipeline.progress import reporter_for
    from inkplex_data.pipeline.run import build_store

    reporter = reporter_for(json_events=json_events)
    restart = " without --restart" if options.get("restart") else ""
    with going_on(f"Run the same command again{restart}; it goes on from here."):
        try:
            summary = build_store(corpus, out, reporter=reporter, **options)
        finally:
            reporter.finish()
    _say(summary, json_events=json_events)
    return summary


def _say(summary: Summary, *, json_events: bool) -> None:
    event = {"event": "summary", **summary.as_json()}
    say(json.dumps(event) if json_events else summary.text())
