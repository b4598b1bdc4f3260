"""Metrics to a tracker that is installed beside this package: Weights & Biases, or MLflow.

Where they go is the tracker's own matter: its environment variables and login are read as always. Without any, both
write into the run's folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from inkplex_data.errors import UsageError
from inkplex_data.libraries import require

PROJECT: Final = "inkplex-data"


class Tracker(Protocol):
    """What takes a run's numbers."""

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Values by name, of one update."""

    def close(self) -> None: ...


class _WandbTracker:
    """A run of Weights & Biases, resumed under the same id where the run is."""

    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        wandb = require("wandb", extra="wandb", needed_for="--log wandb")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=folder.name,
            id=_identity(folder),
            resume="allow",
            dir=str(folder),
            config=dict(recipe),
            mode=os.environ.get("WANDB_MODE") or ("online" if wandb.api.api_key else "offline"),
        )

    def add(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class _MlflowTracker:
    """A run of MLflow, in the run's folder unless MLFLOW_TRACKING_URI says otherwise."""

    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        mlflow = require("mlflow", extra="mlflow", needed_for="--log mlflow")
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.absolute() / 'mlflow.db'}"
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name(PROJECT)
        experiment = found.experiment_id if found else self._client.create_experiment(PROJECT)
        tag = _identity(folder)
        runs = self._client.search_runs([experiment], f"tags.inkplex_run = '{tag}'")
        run = (
            runs[0]
            if runs
            else self._client.create_run(experiment, run_name=folder.name, tags={"inkplex_run": tag})
        )
        self._id = run.info.run_id
        if not runs:
            for name, value in recipe.items():
                self._client.log_param(self._id, name, str(value)[:500])

    def add(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._client.log_metric(self._id, name, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._id)


TRACKERS: Final[Mapping[str, Callable[[Path, Mapping[str, Any]], Tracker]]] = {
    "wandb": _WandbTracker,
    "mlflow": _MlflowTracker,
}


def open_tracker(name: str, folder: Path, recipe: Mapping[str, Any]) -> Tracker:
    """A tracker by name, for the run in `folder`. Raises UsageError for another name, MissingLibraryError."""
    if name not in TRACKERS:
        raise UsageError(f"--log takes {' or '.join(TRACKERS)} (got {name})")
    return TRACKERS[name](folder, recipe)


def _identity(folder: Path) -> str:
    """The same for one run as often as it is resumed."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
