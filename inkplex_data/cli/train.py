"""`train`, `evaluate`, `generate`: from a store to checkpoints, and what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from inkplex_data.cli.evaluation import (
    DEVICE,
    PANEL,
    PREFIX,
    RUN,
    STORE,
    WEIGHTS,
    complain_of,
    evaluate,
    open_trained,
)
from inkplex_data.cli.interrupts import going_on
from inkplex_data.cli.key_value import key_values
from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

if TYPE_CHECKING:
    from inkplex_data.trainer.run.train_config import TrainRecipe


def register(app: typer.Typer) -> None:
    app.command("train", rich_help_panel=PANEL)(train)
    app.command("evaluate", rich_help_panel=PANEL)(evaluate)
    app.command("generate", rich_help_panel=PANEL)(generate)


def train(
    store: str = STORE,
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
    device: str = DEVICE,
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


def generate(
    run: Path = RUN,
    store: str = STORE,
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="FOLDER", help="Folder for the files."
    ),
    call: list[str] | None = typer.Option(None, help="Id of a call; may be repeated."),
    split: str = typer.Option("validation", help="Split to generate from if no call is named."),
    limit: int | None = typer.Option(None, min=1, help="Largest number of calls of the split."),
    memory: list[str] | None = typer.Option(
        None, help="none (the baseline), own or wrong; may be repeated. Both none and own by default."
    ),
    prefix: str = PREFIX,
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
    model: str | None = WEIGHTS,
    device: str = DEVICE,
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
        trained = open_trained(run, opened, split=split, device=device, weights=model)
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
    complain_of(refused)
