"""The model that a training goes on with, or a fresh one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from inkplex_data.errors import UsageError
from inkplex_data.libraries import require
from inkplex_data.soma.learner.soma_checkpoint import load_learner
from inkplex_data.soma.tokens.soma_tokenizer import SHA256

if TYPE_CHECKING:
    from inkplex_data.soma.learner.learner import Learner


def made_learner(path: Path, shape: Mapping[str, int | None], *, decimation: float | None) -> Learner:
    """The model at `path` (`….pt`), or a fresh one where there is none yet.

    shape: bands, depth and seed of a fresh one, None for the usual; decimation: see `SomaConfig`. Raises UsageError for another shape
    than a model that exists was made with, CheckpointError for a file that is no model, MissingLibraryError without torch.
    """
    require("torch", extra="soma", needed_for="soma")
    from inkplex_data.soma.learner.learner import Learner
    from inkplex_data.soma.learner.soma_config import SomaConfig

    if path.suffix != ".pt":
        raise UsageError("a model's name ends in .pt", where=str(path), next_step=f"Name it {path.stem}.pt.")
    given = {name: value for name, value in shape.items() if value is not None}
    if path.exists():
        learner = load_learner(path)
        if other := [
            f"{name} {value}" for name, value in given.items() if getattr(learner.config, name) != value
        ]:
            raise UsageError(
                f"this model was not made with {', '.join(other)}",
                where=str(path),
                next_step="Leave the option out, or name a new model.",
            )
    else:
        learner = Learner.fresh(SomaConfig(**given), SHA256)
    if decimation is not None:
        learner.config = replace(learner.config, decimation=decimation)
    return learner
