"""Where a speech model's weights are: a folder, one safetensors file, or a model on the Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inkplex_data.corpus.model_config import model_config
from inkplex_data.errors import CheckpointError
from inkplex_data.libraries import HUB_ID, hub_snapshot
from inkplex_data.trainer.model.load_weights import RELEASED, WEIGHTS_FILE
from inkplex_data.trainer.model.moshi_config import sizes_of
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig

_NEXT = (
    f"Accept the licence of {RELEASED['personaplex']} on the hub and log in, or give the folder or file of weights that are "
    "on this machine: --model PATH."
)


@dataclass(frozen=True)
class ModelFiles:
    """weights: a safetensors file. config: what `config.json` beside it says, None without one that has sizes."""

    weights: Path
    config: dict[str, Any] | None

    @property
    def folder(self) -> Path:
        return self.weights.parent

    def sizes(self, *, dep_q: int) -> PersonaPlexConfig | None:
        """The sizes that `config.json` names, predicting `dep_q` codebooks; None where it names none.

        Raises ConfigError for another architecture.
        """
        if self.config is None:
            return None
        return replace(sizes_of(self.config, where=str(self.folder / "config.json")), dep_q=dep_q)


def find_model(name: str) -> ModelFiles:
    """The files of a model: a path, or an `owner/name` of the hub where neither it nor a folder `name` is here.

    Raises CheckpointError where there are none, ConfigError for a hub model that can be had neither from the cache nor
    from the net, or a `config.json` that cannot be read.
    """
    path = Path(name)
    beside = Path(path.name)
    if not path.exists() and HUB_ID.fullmatch(name) and (beside / WEIGHTS_FILE).is_file():
        path = beside
    elif not path.exists() and HUB_ID.fullmatch(name):
        path = hub_snapshot(
            name,
            [WEIGHTS_FILE, "config.json", "tokenizer*.model"],
            what="speech model",
            extra="codec",
            where="model.weights",
            next_step=_NEXT,
        )
    folder = path if path.is_dir() else path.parent
    body = model_config(folder, where=str(folder), next_step="Remove it, or put the model's own there.")
    named = isinstance(body, dict) and "dim" in body
    weights = path / WEIGHTS_FILE if path.is_dir() else path
    if not weights.is_file():
        raise CheckpointError(
            "there are no model weights here",
            where=str(weights),
            next_step=f"Download {' or '.join(RELEASED.values())}, or give the folder that holds {WEIGHTS_FILE}.",
        )
    return ModelFiles(weights, body if named else None)
