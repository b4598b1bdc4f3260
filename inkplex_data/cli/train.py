"""`train`: from stores to checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from inkplex_data.cli import trained
from inkplex_data.cli.interrupts import going_on
from inkplex_data.cli.key_value import key_values
from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

if TYPE_CHECKING:
    from inkplex_data.trainer.run.train_config import TrainRecipe

PANEL = "Train"

_DEVICE = typer.Option("auto", help="cpu, cuda, cuda:1 … or auto, which uses a GPU if there is one.")


def register(app: typer.Typer) -> None:
    app.command("train", rich_help_panel=PANEL)(train)
    trained.register(app)


def train(
    stores: list[str] = typer.Argument(
        ...,
        metavar="STORE…",
        help="Folder or fsspec URL of a store, or of several that are read by the weights of data.mix.",
    ),
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
    gpus: int = typer.Option(1, min=1, help="With --plan and --shard: GPUs that share the model."),
    shard: bool = typer.Option(
        False,
        "--shard",
        help="Divide weights, gradients and optimiser among the processes, block by block (FSDP2).",
    ),
    compile_blocks: bool = typer.Option(
        False, "--compile", help="Let torch compile each block; losses differ by rounding."
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
    log: list[str] | None = typer.Option(
        None, metavar="TRACKER", help="Also send metrics to wandb or mlflow; may be repeated."
    ),
    patience_s: float = typer.Option(
        300.0, min=1, help="Seconds that processes wait for one before it is named."
    ),
    json_events: bool = typer.Option(False, "--json", help="Print events and the summary as JSON lines."),
) -> None:
    """Train on a store: memory for a frozen speech model, adapters (LoRA) on it, or the speech model itself.

    The recipe says what trains; only that is saved. After an interruption, the same command with --resume continues
    from the newest checkpoint and gives the losses that the run would have had. For several processes, run
    torchrun --nproc-per-node N -m inkplex_data.cli.app train …
    """
    from inkplex_data.trainer.run.logs.run_progress import JsonEvents, ProgressLine
    from inkplex_data.trainer.run.loop import train as run_training
    from inkplex_data.trainer.run.run_options import RunOptions
    from inkplex_data.trainer.run.train_config import load_train_recipe

    overrides = key_values("--set", setting)
    if model is not None:
        overrides["model.weights"] = model
    recipe = load_train_recipe(pipeline, overrides)
    if plan:
        say(_plan(recipe, stores[0], gpu_gib, gpus if shard else 1))
        return
    options = RunOptions(
        device=device,
        workers=workers,
        prefetch_bytes=prefetch_mib * 2**20,
        allow_untrained_codec=allow_untrained_codec,
        resume=resume,
        tensorboard=tensorboard,
        begin_from=begin_from,
        shard=shard,
        compile=compile_blocks,
        log=tuple(log or ()),
        patience_s=patience_s,
    )
    with going_on("Run the same command with --resume; it goes on from the newest checkpoint."):
        summary = run_training(recipe, stores, run, options, JsonEvents() if json_events else ProgressLine())
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


def _plan(recipe: TrainRecipe, store: str, gpu_gib: float | None, gpus: int) -> str:
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
    plan = plan_memory(recipe, architecture, state_width=identity.state_width, gpu_bytes=size, gpus=gpus)
    return plan.text()
