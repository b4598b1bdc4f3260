"""`evaluate`, `generate`: the losses of a checkpoint, and what it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

if TYPE_CHECKING:
    import polars as pl

    from inkplex_data.pipeline.progress import Reporter
    from inkplex_data.store.reader import Store
    from inkplex_data.trainer.evaluate.generate import Generator
    from inkplex_data.trainer.run.run_files import TrainedModel

PANEL = "Train"
EXIT_PARTLY = 3

_RUN = typer.Argument(..., metavar="RUN", help="Folder of a run, or one of its checkpoints.")
_STORE = typer.Argument(..., metavar="STORE", help="Folder or fsspec URL of a store.")
_DEVICE = typer.Option("auto", help="cpu, cuda, cuda:1 … or auto, which uses a GPU if there is one.")
_PREFIX = typer.Option(
    "own",
    help="What stands before each call: own, random-voice (of the same role), or the id of a stored prefix.",
)
_WEIGHTS = typer.Option(
    None,
    "--model",
    metavar="PATH",
    help="The speech model's weights, if they are not where the recipe says.",
)


def register(app: typer.Typer) -> None:
    app.command("evaluate", rich_help_panel=PANEL)(evaluate)
    app.command("generate", rich_help_panel=PANEL)(generate)


def evaluate(
    run: Path = _RUN,
    store: str = _STORE,
    split: str = typer.Option("validation", help="Split to evaluate."),
    out: Path | None = typer.Option(
        None,
        "-o",
        "--out",
        parser=output,
        metavar="FOLDER",
        help="Folder for the tables; in the run by default.",
    ),
    call: list[str] | None = typer.Option(None, help="Evaluate only this call; may be repeated."),
    panel: bool = typer.Option(False, "--panel", help="Evaluate only the calls of the run's frozen panel."),
    only: list[str] | None = typer.Option(
        None,
        metavar="COLUMN=VALUE",
        help="Evaluate only calls of this agent_origin, caller_origin, decisions, target_statuses or target_writers; "
        "may be repeated.",
    ),
    memory: list[str] | None = typer.Option(
        None, help="none, own or wrong; may be repeated. All three by default."
    ),
    prefix: str = _PREFIX,
    generations: bool = typer.Option(
        False, "--generate", help="Also generate each call's response, and report what is said."
    ),
    grounding: bool = typer.Option(
        False,
        "--grounding",
        help="Also ask whether the agent says what it could know, when it could know it: in branches of each call, "
        "beside baselines, with a page for a reviewer.",
    ),
    listen: str | None = typer.Option(
        None,
        metavar="WHISPER",
        help="With --grounding: also write WAV files, and hear them with this Whisper model (packaged: the one that is installed).",
    ),
    reviewed: Path | None = typer.Option(
        None,
        metavar="FILE.jsonl",
        help="With --grounding: a reviewer's verdicts, to compare with the automatic ones.",
    ),
    seconds: float = typer.Option(20.0, help="With --generate, --grounding: length of the free window."),
    limit: int | None = typer.Option(
        None, min=1, help="With --generate, --grounding: largest number of calls."
    ),
    codec: str | None = typer.Option(
        None, help="With --generate, --grounding: where the codec's weights are now."
    ),
    seed: int = typer.Option(0, min=0, help="Seed of the bootstrap and of generation."),
    resamples: int = typer.Option(10_000, min=1, help="Number of bootstrap draws over families."),
    model: str | None = _WEIGHTS,
    device: str = _DEVICE,
    json_output: bool = typer.Option(False, "--json", help="Print the results as one JSON object."),
) -> None:
    """Score a checkpoint with no memory, with the call's own, and with another task's; twins are scored as pairs.

    A checkpoint that reads no memory is scored as it is.

    Tables are written as Parquet files. --generate adds empty responses, words, repeats and delays.
    """
    from inkplex_data.atomic import only_writer
    from inkplex_data.pipeline.progress import SilentReporter, reporter_for
    from inkplex_data.store.call_groups import parse_filter
    from inkplex_data.store.reader import open_store
    from inkplex_data.trainer.evaluate import evaluate as evaluation
    from inkplex_data.trainer.evaluate.generate import Generator, generations_text
    from inkplex_data.trainer.evaluate.render import store_codec
    from inkplex_data.trainer.evaluate.replay import ReplayOptions
    from inkplex_data.trainer.evaluate.scores import MEMORIES
    from inkplex_data.trainer.evaluate.scoring import chosen_calls, scorable
    from inkplex_data.trainer.grounding.whole_test import ground_run
    from inkplex_data.trainer.run.panel import read_panel
    from inkplex_data.trainer.run.run_files import PANEL_FILE

    with ExitStack() as stack:
        opened = stack.enter_context(open_store(store))
        trained = _open(run, opened, split=split, device=device, weights=model)
        memories = _memories(memory, MEMORIES, trained)
        calls = call or None
        if panel:
            chosen = read_panel(trained.run / PANEL_FILE)
            calls, split = list(chosen.calls), chosen.split
        folder = out or trained.run / f"evaluation-{split}-update-{trained.update:06d}"
        stack.enter_context(only_writer(folder))
        reporter = SilentReporter() if json_output else reporter_for()
        if only:
            calls = chosen_calls(opened, split, parse_filter(only), calls)
        counts = [len(scorable(opened, split, name, calls)) for name in memories]
        reporter.stage("score", sum(counts))
        found = evaluation.evaluate(
            trained,
            opened,
            split=split,
            calls=calls,
            memories=memories,
            prefix=prefix,
            resamples=resamples,
            seed=seed,
            advance=lambda: reporter.advance("score"),
        )
        said = refused = None
        if generations or grounding:
            replays = ReplayOptions(seconds=seconds, seed=seed)
            generator = Generator(trained, opened, store_codec(opened, codec), replays, prefix=prefix)
        if generations:
            said, refused = _generated(generator, split, memories, calls, limit, reporter)
        reporter.finish()
        about = {
            "split": split,
            "store": opened.root,
            "snapshot": opened.snapshot.number,
            "checkpoint": str(trained.path),
            **trained.provenance(),
            "memories": memories,
            "prefix": prefix,
            "resamples": resamples,
            "seed": seed,
        }
        body = evaluation.write_evaluation(folder, found, about=about, generations=said)
        grounded = (
            ground_run(
                generator,
                folder / "grounding",
                split=split,
                calls=calls,
                limit=limit,
                resamples=resamples,
                seed=seed,
                listen=listen,
                reviewed=reviewed,
                about=about,
            )
            if grounding
            else ""
        )
    if json_output:
        say(json.dumps(body))
    else:
        say(f"{trained.path} on {opened.root}, split {split}")
        lacking = (name for name, count in zip(memories, counts, strict=True) if not count)
        notes = [f"no call here has {name} memory, so that is not scored" for name in lacking]
        texts = [
            found.text(),
            *trained.store.marks(),
            *notes,
            "" if said is None else generations_text(said),
            grounded,
        ]
        say("\n".join([*filter(None, texts), f"tables: {folder}"]))
    _complain_of(refused or {})


def _generated(
    generator: Generator,
    split: str,
    memories: list[str],
    calls: list[str] | None,
    limit: int | None,
    reporter: Reporter,
) -> tuple[pl.DataFrame, dict[str, str]]:
    """As `measure_generations` gives it, of the calls that have the memories."""
    from inkplex_data.trainer.evaluate.generate import measure_generations
    from inkplex_data.trainer.evaluate.scoring import scorable

    needed = "none" if memories == ["none"] else "own"
    names = scorable(generator.store, split, needed, calls)[:limit]
    reporter.stage("generate", len(names) * len(memories))
    return measure_generations(generator, names, memories, advance=lambda: reporter.advance("generate"))


def generate(
    run: Path = _RUN,
    store: str = _STORE,
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="FOLDER", help="Folder for the files."
    ),
    call: list[str] | None = typer.Option(None, help="Id of a call; may be repeated."),
    split: str = typer.Option("validation", help="Split to generate from if no call is named."),
    limit: int | None = typer.Option(None, min=1, help="Largest number of calls of the split."),
    memory: list[str] | None = typer.Option(
        None, help="none (the baseline), own or wrong; may be repeated. Both none and own by default."
    ),
    prefix: str = _PREFIX,
    seconds: float = typer.Option(20.0, help="Length of the free window."),
    seed: int = typer.Option(0, min=0, help="Seed of the draws; every memory gets the same ones."),
    force_cue: bool = typer.Option(
        False, "--force-cue", help="Also force the end-of-padding frame before the response."
    ),
    text_temperature: float = typer.Option(0.7, min=0, help="0 is greedy."),
    text_top_k: int = typer.Option(25, min=0, help="0 keeps all."),
    audio_temperature: float = typer.Option(0.8, min=0, help="0 is greedy."),
    audio_top_k: int = typer.Option(250, min=0, help="0 keeps all."),
    exact_ring: bool = typer.Option(
        False,
        "--exact-ring",
        help="Let attention see exactly what it sees in training, one frame more than in the released ring.",
    ),
    codec: str | None = typer.Option(None, help="Where the codec's weights are now."),
    audio: bool = typer.Option(True, help="Decode to WAV; otherwise only JSON files are written."),
    model: str | None = _WEIGHTS,
    device: str = _DEVICE,
) -> None:
    """Let a checkpoint answer: each call is replayed up to its response, then the model runs freely.

    Writes CALL/trained.wav (agent left, caller right, no prefix) and CALL/trained.json with the text and each
    word's time, and the same for the baseline without memory, which hears the same and draws with the same seed.
    """
    from inkplex_data.atomic import only_writer
    from inkplex_data.store.reader import open_store
    from inkplex_data.trainer.evaluate.generate import (
        Generation,
        Generator,
        generations_text,
        measure_generations,
    )
    from inkplex_data.trainer.evaluate.render import store_codec
    from inkplex_data.trainer.evaluate.replay import ReplayOptions
    from inkplex_data.trainer.evaluate.scoring import scorable
    from inkplex_data.trainer.model.sampling import Sampling

    options = ReplayOptions(
        seconds=seconds,
        seed=seed,
        sampling=Sampling(text_temperature, text_top_k, audio_temperature, audio_top_k),
        cue="forced" if force_cue else "free",
        ring="exact" if exact_ring else "released",
    )
    with open_store(store) as opened:
        if call:
            split = str(opened.call(call[0]).split)
        trained = _open(run, opened, split=split, device=device, weights=model)
        memories = _memories(memory, ("none", "own"), trained)
        generator = Generator(trained, opened, store_codec(opened, codec), options, prefix=prefix)
        if generator.codec.identity.untrained:
            say("the codec is untrained: the WAV files are noise; only the text can be read", err=True)
        names = call or scorable(opened, split, "none" if memories == ["none"] else "own")[:limit]

        def keep(made: Generation) -> None:
            for path in generator.write(made, out, audio=audio):
                say(path)

        with only_writer(out):
            said, refused = measure_generations(generator, names, memories, keep=keep)
    if said.height:
        say(generations_text(said), err=True)
    _complain_of(refused)


def _open(run: Path, store: Store, *, split: str, device: str, weights: str | None) -> TrainedModel:
    from inkplex_data.trainer.run.processes.ranks import usable_device
    from inkplex_data.trainer.run.run_files import load_trained

    return load_trained(run, store, split=split, device=usable_device(device), weights=weights)


def _complain_of(refused: dict[str, str]) -> None:
    """Name the calls that could not be generated, and exit with 3 if there are any."""
    for call_id, reason in refused.items():
        say(f"not generated: {call_id}: {reason}", err=True)
    if refused:
        raise typer.Exit(EXIT_PARTLY)


def _memories(named: list[str] | None, default: Sequence[str], trained: TrainedModel) -> list[str]:
    """What is asked for, or the default; a model without readers has only `none`."""
    from inkplex_data.errors import UsageError
    from inkplex_data.trainer.evaluate.scores import MEMORIES

    if unknown := sorted(set(named or ()) - set(MEMORIES)):
        raise UsageError(f"--memory takes none, own or wrong (got {', '.join(unknown)})")
    if trained.model.memory is None:
        if set(named or ()) - {"none"}:
            raise UsageError(
                f"a run that trains {trained.recipe.trains} reads no memory",
                where=str(trained.path),
                next_step="Leave --memory out.",
            )
        return ["none"]
    return named or list(default)
