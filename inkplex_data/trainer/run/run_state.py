"""A training run's state as a checkpoint, and the folder in which its checkpoints lie."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from inkplex_data.checkpoint_sidecar import meta_path, read_profile
from inkplex_data.errors import CheckpointError
from inkplex_data.store.format import FORMAT
from inkplex_data.trainer.memory.connector import MemoryReaders
from inkplex_data.trainer.model.speech_model import SpeechModel, StoreIdentity
from inkplex_data.trainer.run.checkpoint import (
    SUFFIX,
    Checkpoint,
    load_checkpoint,
    remove_leftovers,
    save_checkpoint,
    write_meta,
)
from inkplex_data.trainer.run.sharding.parts import divided_like
from inkplex_data.trainer.run.sharding.shard_files import all_shards, remove_shards

MODEL = "model."
OPTIMIZER = "optimizer."
RANDOM_CPU = "random.cpu"
RANDOM_CUDA = "random.cuda"
CHECKPOINTS = "checkpoints"
SELECTED_FILE = "selected.json"
_MAX_SELECTED_BYTES = 1 << 20

_NAME = re.compile(r"update-(\d{6,})\.safetensors")

log = logging.getLogger(__name__)


def compatibility(speech: SpeechModel, store: StoreIdentity, memory: MemoryReaders | None) -> dict[str, Any]:
    """The fields that a checkpoint must share with a run: the identity of the model before training and sizes, tokenizer,
    codec, store format, and where there are writer and readers whose states they read, and their widths."""
    fields = {
        "model": speech.identity,
        "model_sizes": asdict(speech.lm.config),
        "tokenizer_sha256": store.tokenizer_sha256,
        "codec": store.codec,
        "store_format": FORMAT,
    }
    if memory is None:
        return fields
    writer = memory.writer
    return {
        **fields,
        "model_states": store.model_states,
        "state_inputs": writer.hidden.in_features,
        "text_width": writer.text.in_features,
        "slot_width": writer.slot_width,
        "readers": len(memory.readers),
        "reader_heads": [int(getattr(reader, "heads")) for reader in memory.readers],  # noqa: B009
    }


def capture(
    module: nn.Module, optimizer: Optimizer, schedule: LRScheduler | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, JSON values) of the parameters that train, their optimiser state, the schedule and torch's
    random state. Optimiser state is filed under parameter names."""
    names = {id(value): name for name, value in module.named_parameters()}
    tensors: dict[str, Tensor] = {
        MODEL + name: value for name, value in module.named_parameters() if value.requires_grad
    }
    plain: dict[str, dict[str, Any]] = {}
    for parameter, state in optimizer.state.items():
        name = names[id(parameter)]
        for key, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"{OPTIMIZER}{key}.{name}"] = value
            else:
                plain.setdefault(name, {})[key] = value
    groups = [
        {**{key: value for key, value in group.items() if key != "params"}, "params": _names(group, names)}
        for group in optimizer.param_groups
    ]
    tensors[RANDOM_CPU] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors[RANDOM_CUDA] = torch.cuda.get_rng_state()
    values: dict[str, Any] = {"optimizer": {"groups": groups, "plain": plain}}
    if schedule is not None:
        values["schedule"] = schedule.state_dict()
    return tensors, values


def restore(
    checkpoint: Checkpoint, module: nn.Module, optimizer: Optimizer, schedule: LRScheduler | None = None
) -> None:
    """Put a captured state back, bit for bit. Raises CheckpointError where names or shapes differ."""
    restore_module(checkpoint, module)
    names = {id(value): name for name, value in module.named_parameters()}
    saved = checkpoint.progress["optimizer"]
    if [group["params"] for group in saved["groups"]] != [_names(g, names) for g in optimizer.param_groups]:
        raise CheckpointError("the checkpoint's optimiser holds other parameters, or in another order")
    for group, values in zip(optimizer.param_groups, saved["groups"], strict=True):
        for key, value in values.items():
            if key != "params":
                # JSON has no tuples; betas must be one again.
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
    optimizer.state.clear()
    by_name = {name: value for name, value in module.named_parameters() if value.requires_grad}
    for name, parameter in by_name.items():
        state: dict[str, Any] = dict(saved["plain"].get(name, {}))
        for key in ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer"):
            value = checkpoint.tensors.get(f"{OPTIMIZER}{key}.{name}")
            if value is not None:
                # A step count stays on the CPU, as the optimiser keeps it; moments go to their parameter.
                state[key] = value.clone() if key == "step" else divided_like(value, parameter).clone()
        if state:
            optimizer.state[parameter] = state
    if schedule is not None:
        schedule.load_state_dict(checkpoint.progress["schedule"])
    torch.set_rng_state(checkpoint.tensors[RANDOM_CPU].cpu())
    if torch.cuda.is_available() and RANDOM_CUDA in checkpoint.tensors:
        torch.cuda.set_rng_state(checkpoint.tensors[RANDOM_CUDA].cpu())


@torch.no_grad()
def restore_module(checkpoint: Checkpoint, module: nn.Module, *, some: bool = False) -> None:
    """Only the parameters that train, for evaluation; `some`: a checkpoint of fewer parts leaves the others as they
    are. Raises CheckpointError where names or shapes differ."""
    wanted = {name: value for name, value in module.named_parameters() if value.requires_grad}
    have = {
        name.removeprefix(MODEL): value
        for name, value in checkpoint.tensors.items()
        if name.startswith(MODEL)
    }
    faults = [f"missing {name}" for name in sorted(set(wanted) - set(have)) if not some]
    faults += [f"unexpected {name}" for name in sorted(set(have) - set(wanted))]
    faults += [
        f"{name} is {list(have[name].shape)}, should be {list(value.shape)}"
        for name, value in wanted.items()
        if name in have and have[name].shape != value.shape
    ]
    if faults:
        raise CheckpointError("the checkpoint does not fit the model:\n  - " + "\n  - ".join(faults[:12]))
    for name, value in have.items():
        wanted[name].copy_(divided_like(value, wanted[name]))


class CheckpointFolder:
    """The checkpoints of one run: `update-000100.safetensors` and so on, each with its sidecar."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, update: int) -> Path:
        """Where the checkpoint after `update` updates lies."""
        return self.folder / f"update-{update:06d}{SUFFIX}"

    def updates(self) -> list[int]:
        """Updates that have a checkpoint, rising."""
        if not self.folder.is_dir():
            return []
        found = (_NAME.fullmatch(entry.name) for entry in self.folder.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def save(self, update: int, checkpoint: Checkpoint, revision: str | None = None) -> Path:
        """Save the state after `update` updates. What people wrote beside the newest checkpoint goes along."""
        path = self.path(update)
        checkpoint.profile = self.profile(checkpoint.profile)
        save_checkpoint(path, checkpoint, revision)
        return path

    def complete(self, update: int, checkpoint: Checkpoint) -> None:
        """Finish what a save of `checkpoint`, the newest, left undone when it was killed: leftovers, and a sidecar."""
        remove_leftovers(self.folder)
        if not meta_path(self.path(update)).exists():
            write_meta(self.path(update), checkpoint)

    def load_latest(
        self, *, divided: bool = False, but: Collection[int] = ()
    ) -> tuple[int, Checkpoint] | None:
        """(update, checkpoint) of the newest that can be read, None where there is none.

        divided: see `load_checkpoint`. but: updates whose checkpoint is known to be damaged.

        A damaged file is passed over with a warning. Raises CheckpointError where all are damaged: a run that
        holds work is never begun anew unasked.
        """
        updates = self.updates()
        for update in reversed(updates):
            try:
                if update in but:
                    continue
                checkpoint = load_checkpoint(self.path(update), divided=divided)
            except CheckpointError as error:
                log.warning("passing over a checkpoint: %s", error)
                continue
            checkpoint.profile = self.profile(checkpoint.profile)
            return update, checkpoint
        if updates:
            raise CheckpointError(
                f"none of its {len(updates)} checkpoints can be read",
                where=str(self.folder),
                next_step="Restore one of them from a copy, or start the run in another folder.",
            )
        return None

    def profile(self, otherwise: dict[str, Any]) -> dict[str, Any]:
        """What people wrote beside the newest checkpoint that has a sidecar (a killed save leaves none)."""
        for update in reversed(self.updates()):
            if meta_path(self.path(update)).exists():
                return read_profile(self.path(update), otherwise)
        return otherwise

    def prune(self, keep: int, *, spare: tuple[int, ...] = (), upto: int | None = None) -> None:
        """Remove all but the newest `keep` checkpoints and those in `spare`, with their sidecars.

        upto: later updates neither count nor go: a run that stands at `upto` has passed them over as damaged.
        """
        updates = [update for update in self.updates() if upto is None or update <= upto]
        for update in updates[: -keep or None]:
            if update not in spare:
                meta_path(self.path(update)).unlink(missing_ok=True)
                self.path(update).unlink(missing_ok=True)
                for shards in all_shards(self.folder, self.path(update).stem):
                    remove_shards(shards)


def _names(group: dict[str, Any], names: dict[int, str]) -> list[str]:
    return [names[id(parameter)] for parameter in group["params"]]


def find_checkpoint(path: Path) -> Path:
    """`path` itself where it is a checkpoint; in a run's folder the selected checkpoint, else the newest.

    Raises CheckpointError where there is none.
    """
    if path.name.endswith(SUFFIX):
        return path
    folder = CheckpointFolder(path / CHECKPOINTS)
    updates = folder.updates()
    if not updates:
        raise CheckpointError(
            "there is no checkpoint here",
            where=str(path),
            next_step=f"Give a run's folder, or one of its {CHECKPOINTS}/update-…{SUFFIX}.",
        )
    update = _selected(path / SELECTED_FILE)
    return folder.path(update if update in updates else updates[-1])


def _selected(path: Path) -> int | None:
    try:
        if path.stat().st_size > _MAX_SELECTED_BYTES:
            return None
        update = json.loads(path.read_bytes())["update"]
        return update if isinstance(update, int) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
