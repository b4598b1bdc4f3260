"""`train`, `evaluate`, `generate`: from a store to checkpoints, their losses, and what they say."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from inkplex_data.cli.interrupts import going_on
from inkplex_data.cli.key_value import key_values
from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

if TYPE_CHECKING:
    from inkplex_data.store.reader import Store
    from inkplex_data.trainer.run.run_files import TrainedModel
    from inkplex_data.trainer.run.train_config import TrainRecipe

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
    app.command("train", rich_help_panel=PANEL)(train)
    app.command("evaluate", rich_help_panel=PANEL)(evaluate)
    app.command("generate", rich_help_panel=PANEL)(generate)


def train(
    store: str = _STORE,
    run: Path = typer.Option(..., "-o", "--out", parser=output, metavar="RUN", help="Folder of the run."),
    pipeline: str = typer.Option(
        "train_stage1",
        "-p",
        "--pipeline",
        help="What trains: finetune_lora, finetune_full, memory, memory_and_lora, or a YAML file.",
    ),
    model: str | None = typer.Option(
        None,
        "--model",
        metavar="WEIGHTS",
        help="Hub id, folder or file of released weights, or seeded:SEED; the recipe's by default.",
    ),
    setting: list[str] | None = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="Override any recipe key, e.g. --set data.passes=2."
    ),
    resume: bool = typer.Option(
        False, "--resume", help="Continue from the newest checkpoint, or start if there is none."
    ),
    begin_from: Path | None = typer.Option(
        None,
        "--from",
        metavar="RUN",
        help="Begin with what another run has trained: its folder, or one of its checkpoints.",
    ),
    plan: bool = typer.Option(
        False,
        "--plan",
        help="Print what each GPU's memory must hold, and the largest window that fits; load nothing.",
    ),
    gpu_gib: float | None = typer.Option(
        None, min=1, help="With --plan: memory of a GPU; by default that of the one here, else 80."
    ),
    device: str = _DEVICE,
    workers: int = typer.Option(2, min=0, help="Threads that read ahead, per process."),
    prefetch_mib: int = typer.Option(2048, min=1, help="MiB that may be read ahead, per process."),
    allow_untrained_codec: bool = typer.Option(
        False,
        "--allow-untrained-codec",
        help="Train on codes or states that mean nothing, to try the machinery.",
    ),
    tensorboard: bool = typer.Option(True, help="Write TensorBoard logs beside metrics.jsonl."),
    json_events: bool = typer.Option(False, "--json", help="Print events and the summary as JSON lines."),
) -> None:
    """Train on a store: memory for a frozen speech model, adapters (LoRA) on it, or the speech model itself.

    The recipe says what trains; only that is saved. After an interruption, the same command with --resume continues
    from the newest checkpoint and gives the losses that the run would have had. For several processes, run
    torchrun --nproc-per-node N -m inkplex_data.cli.app train …
    """
    from inkplex_data.trainer.run.loop import RunOptions
    from inkplex_data.trainer.run.loop import train as run_training
    from inkplex_data.trainer.run.run_progress import JsonEvents, ProgressLine
    from inkplex_data.trainer.run.train_config import load_train_recipe

    overrides = key_values("--set", setting)
    if model is not None:
        overrides["model.weights"] = model
    recipe = load_train_recipe(pipeline, overrides)
    if plan:
        say(_plan(recipe, store, gpu_gib))
        return
    options = RunOptions(
        device=device,
        workers=workers,
        prefetch_bytes=prefetch_mib * 2**20,
        allow_untrained_codec=allow_untrained_codec,
        resume=resume,
        tensorboard=tensorboard,
        begin_from=begin_from,
    )
    with going_on("Run the same command with --resume; it goes on from the newest checkpoint."):
        summary = run_training(recipe, store, run, options, JsonEvents() if json_events else ProgressLine())
    if summary.rank != 0:
        return
    selected = None if summary.selected is None else summary.selected.update
    if json_events:
        event = {
            "event": "summary",
            "run": str(run),
            "update": summary.update,
            "updates": summary.updates,
            "selected": selected,
            "checkpoint": str(summary.checkpoint),
        }
        say(json.dumps(event))
        return
    why = (
        f"selected at update {selected}"
        if selected is not None
        else "the newest"
        if recipe.checks is None
        else "the newest; none is selected, because no check kept the agent's voice"
    )
    say(f"{run}: {summary.update} of {summary.updates} updates\n  {summary.checkpoint} ({why})")


def _plan(recipe: TrainRecipe, store: str, gpu_gib: float | None) -> str:
    import torch

    from inkplex_data.store.reader import open_store
    from inkplex_data.trainer.model.speech_model import planned_architecture, store_identity
    from inkplex_data.trainer.run.memory_plan import GIB, plan_memory

    with open_store(store) as opened:
        identity = store_identity(
            opened, split=recipe.data.split, allow_untrained_codec=True, memory=recipe.reads_memory
        )
    architecture = planned_architecture(recipe.model, text_card=identity.text_pieces)
    size = int((gpu_gib or 80.0) * GIB)
    if gpu_gib is None and torch.cuda.is_available():
        size = torch.cuda.get_device_properties(0).total_memory
    return plan_memory(recipe, architecture, state_width=identity.state_width, gpu_bytes=size).text()


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
        None, metavar="FILE.jsonl", help="With --grounding: a reviewer's verdicts, to compare with the automatic ones."
    ),
    seconds: float = typer.Option(20.0, help="With --generate, --grounding: length of the free window."),
    limit: int | None = typer.Option(None, min=1, help="With --generate, --grounding: largest number of calls."),
    codec: str | None = typer.Option(None, help="With --generate, --grounding: where the codec's weights are now."),
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
    from inkplex_data.cli.grounding import ground_run
    from inkplex_data.pipeline.progress import SilentReporter, reporter_for
    from inkplex_data.store.call_groups import parse_filter
    from inkplex_data.store.reader import open_store
    from inkplex_data.trainer.evaluate import evaluate as evaluation
    from inkplex_data.trainer.evaluate.generate import Generator, generations_text, measure_generations
    from inkplex_data.trainer.evaluate.render import store_codec
    from inkplex_data.trainer.evaluate.replay import ReplayOptions
    from inkplex_data.trainer.evaluate.scores import MEMORIES
    from inkplex_data.trainer.evaluate.scoring import chosen_calls, scorable
    from inkplex_data.trainer.run.panel import read_panel
    from inkplex_data.trainer.run.run_files import PANEL_FILE

    with ExitStack() as stack:
        opened = stack.enter_context(open_store(store))
        trained = _open(run, opened, split=split, device=device, weights=model)
        memories = evaluation.chosen_memories(memory, MEMORIES, trained)
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
            names = scorable(opened, split, "none" if memories == ["none"] else "own", calls)[:limit]
            reporter.stage("generate", len(names) * len(memories))
            said, refused = measure_generations(
                generator, names, memories, advance=lambda: reporter.advance("generate")
            )
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
        grounded = None
        if grounding:
            grounded = ground_run(
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
    if json_output:
        say(json.dumps(body))
    else:
        say(f"{trained.path} on {opened.root}, split {split}")
        say("\n".join([found.text(), *trained.store.marks()]))
        for name, count in zip(memories, counts, strict=True):
            if not count:
                say(f"no call here has {name} memory, so that is not scored")
        if said is not None:
            say(generations_text(said))
        if grounded is not None:
            say(grounded)
        say(f"tables: {folder}")
    _complain_of(refused or {})


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
    from inkplex_data.trainer.evaluate.evaluate import chosen_memories
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
        memories = chosen_memories(memory, ("none", "own"), trained)
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
    from inkplex_data.trainer.run.ranks import usable_device
    from inkplex_data.trainer.run.run_files import load_trained

    return load_trained(run, store, split=split, device=usable_device(device), weights=weights)


def _complain_of(refused: dict[str, str]) -> None:
    """Name the calls that could not be generated, and exit with 3 if there are any."""
    for call_id, reason in refused.items():
        say(f"not generated: {call_id}: {reason}", err=True)
    if refused:
        raise typer.Exit(EXIT_PARTLY)
