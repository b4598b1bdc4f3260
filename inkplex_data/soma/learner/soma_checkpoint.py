"""soma's checkpoints: one `.pt` file that is replaced whole, and its `.meta.json` (seeds/001, section 11).

The file holds tensors and plain values only and is loaded as such, never as code. Places in corpora lie in it, so that they
advance with the weights or not at all. They count for the checkpoint under the name that it was saved by: a copy
under another name begins every corpus anew.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from inkplex_data.atomic import replacing
from inkplex_data.checkpoint_sidecar import (
    EMPTY_PROFILE,
    check_compatibility,
    new_id,
    read_profile,
    tensor_checksum,
    write_sidecar,
)
from inkplex_data.errors import CheckpointError
from inkplex_data.reading import open_file
from inkplex_data.soma.learner.learner import Counts, Learner
from inkplex_data.soma.learner.soma_config import RUNTIME_VERSION, SPECIES, SomaConfig
from inkplex_data.soma.learner.soma_network import WIDTH, SomaNetwork
from inkplex_data.soma.tokens.soma_tokenizer import NAME, SHA256, VOCABULARY

SUFFIX: Final = ".pt"
MOST_HISTORY: Final = 1000
"""Saves that the history of a model goes back."""

_NEXT_STEP: Final = "Use the runtime and the tokenizer that it was made with, or begin a fresh model."
_DAMAGED: Final = "Restore the file from a copy."


def save_learner(learner: Learner, path: Path) -> str:
    """Write or replace the checkpoint at `path` (`….pt`) and its sidecar; returns the new revision id.

    A reader, also after a kill at any moment, finds the old file or the new one. The profile in an existing sidecar is
    kept. Raises CheckpointError for another name, OutputError for a full disk.
    """
    if path.suffix != SUFFIX:
        raise CheckpointError(f"the name of a soma checkpoint ends in {SUFFIX}", where=str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    revision = new_id()
    counts = learner.counts
    history = [
        *learner.history[1 - MOST_HISTORY :],
        {**asdict(counts), "bits_per_byte": learner.io2.bits_per_byte, "revision_id": revision},
    ]
    body = _body(learner) | {"revision_id": revision, "parent": learner.revision_id, "history": history}
    body["cursors"] = {path.name: learner.cursors}
    body["crc32c"] = {name: tensor_checksum(value) for name, value in _tensors(body)}
    # In memory first: torch's writer does not tell a full disk from its own errors.
    buffer = io.BytesIO()
    torch.save(body, buffer)
    with replacing(path, size_bytes=buffer.tell()) as file:
        file.write(buffer.getbuffer())
    learner.parent, learner.revision_id, learner.history = learner.revision_id, revision, history
    write_meta(learner, path)
    return revision


def write_meta(learner: Learner, path: Path) -> None:
    """Write the sidecar of a learner that is saved at `path`; the profile in an existing one wins."""
    learner.profile = write_sidecar(path, meta_fields(learner), learner.profile)


def meta_fields(learner: Learner) -> dict[str, Any]:
    """What the sidecar tells of a model besides its profile, as of its last save."""
    return {
        **_identity(learner),
        "parent": learner.parent,
        "description": learner.description,
        "batch": learner.config.batch,
        "gradclip": learner.config.gradclip,
        "learning_rate": learner.config.learning_rate,
        "decimation_gain": learner.config.decimation,
        "parameters": sum(value.numel() for value in learner.network.parameters()),
        **asdict(learner.counts),
        "bits_per_byte": learner.io2.bits_per_byte,
        "bytes_per_token": learner.bytes_per_token,
        "cursors": learner.cursors,
        "history": learner.history,
    }


def load_learner(path: Path) -> Learner:
    """Read and verify a checkpoint. Its next batch gives the losses that it would have given before the save.

    A checkpoint of the first v12.3 release, whose error traces are scalars, begins them anew. Raises CheckpointError where
    the file is not there, is damaged, or is of another species or tokenizer.
    """
    body = _read(path)
    wanted = {
        "species": SPECIES,
        "tokenizer_name": NAME,
        "tokenizer_sha256": SHA256,
        "vocab_size": VOCABULARY,
        "token_dim": WIDTH,
    }
    check_compatibility(
        {name: _plain(body.get(name)) for name in wanted}, wanted, where=str(path), next_step=_NEXT_STEP
    )
    for name, value in _tensors(body):
        # A tensor may claim to be larger than what the file holds of it; a contiguous one is not.
        if not value.is_contiguous() or body.get("crc32c", {}).get(name) != tensor_checksum(value):
            raise CheckpointError(
                f"the bytes of {name} are not those that were saved", where=str(path), next_step=_DAMAGED
            )
    try:
        learner = _learner(body)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise CheckpointError(
            f"it does not hold what a soma checkpoint holds: {error}", where=str(path), next_step=_DAMAGED
        ) from error
    learner.cursors = body["cursors"].get(path.name, {})
    learner.profile = read_profile(path, dict(EMPTY_PROFILE))
    return learner


def _identity(learner: Learner) -> dict[str, Any]:
    config = learner.config
    return {
        "species": SPECIES,
        "runtime_version": RUNTIME_VERSION,
        "checkpoint_id": learner.checkpoint_id,
        "revision_id": learner.revision_id,
        "tokenizer_name": NAME,
        "tokenizer_sha256": learner.tokenizer_sha256,
        "vocab_size": VOCABULARY,
        "token_dim": WIDTH,
        "n_bands": config.bands,
        "hidden_dim": config.width,
        "depth": config.depth,
        "base": config.base,
    }


def _body(learner: Learner) -> dict[str, Any]:
    config, io2 = learner.config, learner.io2
    return {
        **_identity(learner),
        "batch": config.batch,
        "gradclip": config.gradclip,
        "learning_rate": config.learning_rate,
        "decimation_gain": config.decimation,
        "decimation_range": config.decimation,
        "seed": config.seed,
        "description": learner.description,
        "network": dict(learner.network.state_dict()),
        "optimizer": learner.optimizer.state_dict(),
        "row_norms": list(learner.compressor.norms),
        "compressor": {"updates": learner.compressor.updates, "compression": learner.compressor.compression},
        "token_traces": learner.bank.traces,
        "error_traces": learner.errors.traces,
        "since_residual": learner.since_residual,
        "controller": {"loss": io2.loss, "bits_per_byte": io2.bits_per_byte, "power": io2.power},
        "counts": asdict(learner.counts),
        "bytes_per_token": learner.bytes_per_token,
    }


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise CheckpointError("there is no checkpoint here", where=str(path))
    try:
        with open_file(path) as file:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in zipfile.ZipFile(file).infolist()):
                raise ValueError("a compressed file may be of any size")
            file.seek(0)
            body = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"the checkpoint cannot be read: {error}", where=str(path)) from error
    except (
        pickle.UnpicklingError,
        RuntimeError,
        ValueError,
        EOFError,
        KeyError,
        TypeError,
        AttributeError,
        zipfile.BadZipFile,
    ) as error:
        raise CheckpointError(
            "it is damaged, or holds something else than tensors and plain values",
            where=str(path),
            next_step=_DAMAGED,
        ) from error
    if not isinstance(body, dict):
        raise CheckpointError("it is not a checkpoint of soma", where=str(path), next_step=_NEXT_STEP)
    return body


def _learner(body: dict[str, Any]) -> Learner:
    """Raises KeyError, TypeError, ValueError or RuntimeError for values that are missing or of another kind or shape."""
    gain = body["decimation_gain"] if "decimation_gain" in body else body["decimation_range"]
    config = SomaConfig(
        bands=int(body["n_bands"]),
        depth=int(body["depth"]),
        base=float(body["base"]),
        hidden=int(body["hidden_dim"]),
        batch=int(body["batch"]),
        gradclip=float(body["gradclip"]),
        learning_rate=float(body["learning_rate"]),
        decimation=float(gain),
        seed=int(body["seed"]),
    )
    # Sizes that the file claims allocate nothing: only tensors that it really holds do.
    with torch.device("meta"):
        network = SomaNetwork(VOCABULARY, config.bands, config.width, config.depth)
    expected = {name: value.shape for name, value in network.state_dict().items()}
    _same_shapes(body["network"], expected, torch.float32)
    network.load_state_dict(body["network"], assign=True)
    learner = Learner(config, str(body["tokenizer_sha256"]), network)
    _load_optimizer(learner, body["optimizer"])
    _put(learner.compressor.norms, body["row_norms"])
    learner.compressor.updates = int(body["compressor"]["updates"])
    learner.compressor.compression = float(body["compressor"]["compression"])
    learner.bank.traces.copy_(_shaped(body["token_traces"], learner.bank.traces))
    if body["error_traces"].shape != (config.bands,):
        learner.errors.traces.copy_(_shaped(body["error_traces"], learner.errors.traces))
    learner.since_residual = int(body["since_residual"])
    io2 = body["controller"]
    learner.io2.loss, learner.io2.bits_per_byte = float(io2["loss"]), float(io2["bits_per_byte"])
    learner.io2.power = _shaped(io2["power"], learner.io2.power).clone()
    learner.counts = Counts(**{field.name: body["counts"][field.name] for field in fields(Counts)})
    learner.bytes_per_token = float(body["bytes_per_token"])
    learner.description, learner.history = str(body["description"]), list(body["history"])
    learner.checkpoint_id = str(body["checkpoint_id"])
    learner.revision_id, learner.parent = str(body["revision_id"]), body["parent"]
    return learner


def _load_optimizer(learner: Learner, saved: dict[str, Any]) -> None:
    parameters = [value for group in learner.optimizer.param_groups for value in group["params"]]
    for number, state in saved["state"].items():
        for name in ("exp_avg", "exp_avg_sq"):
            _shaped(state[name], parameters[number])
    learner.optimizer.load_state_dict(saved)


def _put(places: list[Tensor], values: list[Tensor]) -> None:
    for place, value in zip(places, values, strict=True):
        place.copy_(_shaped(value, place))


def _shaped(value: Tensor, like: Tensor) -> Tensor:
    if value.shape != like.shape or value.dtype != like.dtype:
        raise ValueError(
            f"a tensor is {value.dtype} {list(value.shape)}, should be {like.dtype} {list(like.shape)}"
        )
    return value


def _same_shapes(have: Mapping[str, Tensor], wanted: Mapping[str, torch.Size], dtype: torch.dtype) -> None:
    found = {name: value.shape for name, value in have.items() if value.dtype == dtype}
    if found != dict(wanted):
        names = sorted(name for name in {*have, *wanted} if found.get(name) != wanted.get(name))
        raise ValueError(f"the network's {', '.join(names[:6])} have other shapes than its sizes say")


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """All tensors of a checkpoint, by the path to each."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _tensors(part, f"{name}/{key}")
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _tensors(part, f"{name}/{number}")


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else str(value)
