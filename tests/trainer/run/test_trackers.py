"""Metrics to trackers, by the trackers' own packages where they are installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.errors import MissingLibraryError, UsageError
from inkplex_data.trainer.run.logs.metrics import MetricsLog
from inkplex_data.trainer.run.logs.trackers import TRACKERS, open_tracker

ROWS = [{"update": update, "loss": 3.0 / update, "parts": {"text/pad": 0.5}} for update in (1, 2)]


def log(run: Path, name: str, rows: list[dict[str, Any]], done: int = 0) -> None:
    tracker = open_tracker(name, run, {"seed": 5, "data": {"passes": 2}})
    metrics = MetricsLog(run, done=done, tensorboard=False, trackers=[tracker])
    for row in rows:
        metrics.update(row)
    metrics.close()


@pytest.mark.slow
def test_wandb_gets_every_number_of_a_resumed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = tmp_path / "run"
    run.mkdir()
    log(run, "wandb", ROWS[:1])
    log(run, "wandb", ROWS[1:], done=1)
    files = sorted((run / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2 and len({path.name for path in files}) == 1
    assert b"train/loss" in files[0].read_bytes() and b"train/parts/text/pad" in files[1].read_bytes()


@pytest.mark.slow
def test_mlflow_gets_every_number_of_a_resumed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")  # which the small edition of MLflow lacks
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = tmp_path / "run"
    run.mkdir()
    log(run, "mlflow", ROWS[:1])
    log(run, "mlflow", ROWS[1:], done=1)
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{run / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "inkplex-data"]
    (found,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(found.info.run_id, "train/loss")
    assert {point.step: point.value for point in history} == {1: 3.0, 2: 1.5}
    assert found.data.params["seed"] == "5"


@pytest.mark.parametrize("name", sorted(TRACKERS))
def test_a_tracker_that_is_not_installed_names_its_pip_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    class Absent:
        def find_spec(self, module: str, *_: object) -> None:
            if module == name:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    with pytest.raises(MissingLibraryError) as caught:
        open_tracker(name, tmp_path, {})
    assert f'pip install "inkplex-data[{name}]"' in str(caught.value)


def test_other_trackers_are_refused_and_numbers_go_to_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--log takes wandb or mlflow"):
        open_tracker("comet", tmp_path, {})

    class Kept:
        def __init__(self) -> None:
            self.rows: list[tuple[int, dict[str, float]]] = []
            self.closed = False

        def add(self, values: Any, step: int) -> None:
            self.rows.append((step, dict(values)))

        def close(self) -> None:
            self.closed = True

    kept = Kept()
    metrics = MetricsLog(tmp_path, tensorboard=False, trackers=[kept])
    for row in ROWS:
        metrics.update(row)
    metrics.close()
    assert kept.rows == [
        (1, {"train/loss": 3.0, "train/parts/text/pad": 0.5}),
        (2, {"train/loss": 1.5, "train/parts/text/pad": 0.5}),
    ]
    assert kept.closed
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[1])["loss"] == 1.5
