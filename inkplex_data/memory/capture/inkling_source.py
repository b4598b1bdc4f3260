"""From what a recipe says under `memory.capture.model` to a folder with an Inkling checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from inkplex_data.corpus.model_config import model_config
from inkplex_data.errors import ConfigError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.libraries import HUB_ID, hub_snapshot, seed_of

WHERE: Final = "memory.capture.model"
WAYS_ON: Final = (
    "Name a local folder with config.json and Inkling's .safetensors weights, or try the pipeline with the "
    "small untrained model, `small:0`."
)
BLOCKS: Final = 42
"""Rows 28 and 34 are outputs of blocks, row 42 is the final norm's, which follows the last of 42 blocks."""
TEXT_MODEL: Final = "inkling_text"
FULL_MODEL: Final = "inkling_mm_model"


@dataclass(frozen=True)
class InklingCheckpoint:
    """A folder with `config.json` and weights; `id` is the hub id or the folder's name, `quantised` the method of
    quantised weights."""

    id: str
    folder: Path
    model_type: str
    quantised: str | None = None


def small_seed(spec: str) -> int | None:
    """The seed of `small:SEED`, or None for any other spec.

    Raises ConfigError where SEED is no integer from 0 to 2^63 − 1.
    """
    hint = "Write a number, for example small:0."
    return seed_of(spec, "small", what="the small model", where=WHERE, next_step=hint)


def find_checkpoint(spec: str) -> InklingCheckpoint:
    """The checkpoint that `spec` names: a folder, or a hub id, downloaded or taken from the cache.

    Raises ConfigError where there is none, or it is no Inkling of 42 blocks.
    """
    path = Path(spec).expanduser()
    if path.is_dir():
        return _checked(path.resolve().name, path)
    if HUB_ID.fullmatch(spec):
        return _checked(spec, _download(spec))
    raise ConfigError(
        f"{spec!r} is neither a folder nor a hub id (owner/name)", where=WHERE, next_step=WAYS_ON
    )


def _checked(model_id: str, folder: Path) -> InklingCheckpoint:
    config = model_config(folder, where=model_id, next_step=WAYS_ON)
    if not isinstance(config, dict):
        what = (
            "the folder holds no model: config.json is missing"
            if config is None
            else "config.json cannot be read: not a JSON object"
        )
        raise ConfigError(what, where=model_id, next_step=WAYS_ON)
    model_type = config.get("model_type")
    if model_type not in (TEXT_MODEL, FULL_MODEL):
        raise ConfigError(
            f"config.json says model_type {model_type!r}; Inkling's is {FULL_MODEL} or {TEXT_MODEL}",
            where=model_id,
            next_step=WAYS_ON,
        )
    text = config.get("text_config") if model_type == FULL_MODEL else config
    blocks = text.get("num_hidden_layers") if isinstance(text, dict) else None
    if blocks != BLOCKS:
        raise ConfigError(
            f"the model has {blocks} blocks; rows {', '.join(map(str, STATE_ROWS))} need {BLOCKS}",
            where=model_id,
            next_step="Use Inkling Small, which has 42 blocks.",
        )
    quantised = config.get("quantization_config")
    method = str(quantised.get("quant_method")) if isinstance(quantised, dict) else None
    return InklingCheckpoint(model_id, folder, str(model_type), method)


def _download(hub_id: str) -> Path:
    fetch = partial(hub_snapshot, hub_id, what="model", extra="memory", where=WHERE, next_step=WAYS_ON)
    # The configuration alone first: another model's weights need not be fetched to be refused.
    _checked(hub_id, fetch(["config.json"]))
    return fetch(["*.json", "*.safetensors"])
