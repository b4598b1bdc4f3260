"""The final RMSNorm of a checkpoint, applied to what an engine wrote before it.

Row 42 is the norm's output (seeds/000, "Current sequence memory", sections 1 and 3). Engines tap the residual stream, so
its row is made here, in the arithmetic of the model that the dump comes from.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inkplex_data.corpus.model_config import model_config
from inkplex_data.errors import ConfigError, RecordingError
from inkplex_data.libraries import HUB_ID, hub_snapshot
from inkplex_data.memory.capture.inkling_source import BLOCKS
from inkplex_data.memory.capture.state_bits import DTYPE_NAMES, from_float32, to_float32
from inkplex_data.memory.capture.tensor_file import open_tensors

HEADER_BYTES: Final = 100 << 20
"""Longest header of a checkpoint's shard: what safetensors itself allows."""
WAYS_ON: Final = "Give --model the folder or hub id of the checkpoint that the engine served."
_NAMES: Final = frozenset(
    (
        "norm.weight",
        "model.norm.weight",
        "language_model.norm.weight",
        "model.language_model.norm.weight",
        "language_model.model.norm.weight",
        "model.llm.norm.weight",
    )
)
"""What checkpoints call it: a language model alone, or within a model of several media."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class FinalNorm:
    """The norm of the checkpoint `model`, whose weights are `revision`: float32 `weight` [D] and `eps`."""

    model: str
    revision: str
    weight: NDArray[np.float32]
    eps: float

    def rows(self, values: NDArray[np.float32], dtype: str) -> NDArray[np.uint16]:
        """Normalised rows, bfloat16 bits, uint16 [n, D]. `values` float32 [n, D] are what the model had in `dtype`, and as
        it does, the norm is computed in float32, rounded to `dtype`, and then weighted."""
        variance = np.square(values, dtype=np.float32).mean(axis=-1, keepdims=True, dtype=np.float64)
        normal = values / np.sqrt(variance + self.eps)
        return from_float32(_rounded(_rounded(normal.astype(np.float32), dtype) * self.weight, dtype))


def _rounded(values: NDArray[np.float32], dtype: str) -> NDArray[np.float32]:
    if dtype == "F32":
        return values
    if dtype == "F16":
        with np.errstate(over="ignore"):  # infinite as in the model; refused with the row
            return values.astype(np.float16).astype(np.float32)
    return to_float32(from_float32(values).tobytes(), "BF16").reshape(values.shape)


def read_final_norm(spec: str, *, revision: str | None = None) -> FinalNorm:
    """The final norm of a checkpoint: a folder, or a hub id whose files are downloaded or in the cache.

    `revision` names the weights; without it that is the commit of a hub snapshot, or the SHA-256 of all their files.
    Raises ConfigError where there is no such norm, or the model has other than 42 blocks.
    """
    path = Path(spec).expanduser()
    if not path.is_dir():
        if not HUB_ID.fullmatch(spec):
            raise ConfigError(
                f"{spec!r} is neither a folder nor a hub id (owner/name)", where="--model", next_step=WAYS_ON
            )
        path = hub_snapshot(
            spec,
            ["*.json", "*.safetensors"],
            what="model",
            extra="memory",
            where="--model",
            next_step=WAYS_ON,
        )
        name = spec
    else:
        path = path.resolve()
        name = path.name
    config = _text_config(path, name)
    if config.get("num_hidden_layers") != BLOCKS:
        raise ConfigError(
            f"the model has {config.get('num_hidden_layers')} blocks; rows 28, 34 and 42 need {BLOCKS}",
            where=name,
            next_step=WAYS_ON,
        )
    eps = config.get("rms_norm_eps", 1e-6)
    if not isinstance(eps, (int, float)) or isinstance(eps, bool) or not 0 < eps < 1:
        raise ConfigError(f"config.json says rms_norm_eps {eps!r}", where=name, next_step=WAYS_ON)
    weight = _weight(path, name)
    return FinalNorm(name, revision or _revision(path), weight, float(eps))


def _text_config(folder: Path, name: str) -> dict[str, Any]:
    config = model_config(folder, where=name, next_step=WAYS_ON)
    if isinstance(config, dict):
        text = config.get("text_config")
        return text if isinstance(text, dict) else config
    raise ConfigError("the folder holds no model: config.json is missing", where=name, next_step=WAYS_ON)


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _weight(folder: Path, name: str) -> NDArray[np.float32]:
    found = []
    for shard in _shards(folder):
        try:
            file = open_tensors(shard, where=f"{name}/{shard.name}", most_bytes=HEADER_BYTES)
            for tensor in (file.tensor(named) for named in file.described if named in _NAMES):
                if tensor.dtype not in DTYPE_NAMES or len(tensor.shape) != 1 or not tensor.shape[0]:
                    raise ConfigError(
                        f"tensor {tensor.name!r} is {tensor.dtype} {list(tensor.shape)}, not the weight of a norm",
                        where=name,
                        next_step=WAYS_ON,
                    )
                file.check_bytes(tensor)
                data = file.read(tensor.begin, tensor.end - tensor.begin, tensor.name)
                found.append(to_float32(data, tensor.dtype))
        except RecordingError as error:
            raise ConfigError(error.what, where=f"{name}/{shard.name}", next_step=WAYS_ON) from error
    if len(found) != 1:
        raise ConfigError(
            f"the checkpoint has {len(found)} final norms named {', '.join(sorted(_NAMES))}",
            where=name,
            next_step=WAYS_ON,
        )
    return found[0]


def _revision(folder: Path) -> str:
    if folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name):
        return folder.name
    digest = hashlib.sha256()
    for shard in _shards(folder):
        digest.update(f"{shard.name}\n".encode())
        with shard.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
