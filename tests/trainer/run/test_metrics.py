from __future__ import annotations

import json
from pathlib import Path

import pytest

from inkplex_data.errors import CheckpointError
from inkplex_data.trainer.run.logs.metrics import JsonLines, MetricsLog


def test_a_resumed_log_reads_like_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, resumed = (
        MetricsLog(tmp_path / "a", tensorboard=False),
        MetricsLog(tmp_path / "b", tensorboard=False),
    )
    for update in range(1, 6):
        whole.update({"update": update, "loss": update / 3})
    for update in range(1, 4):
        resumed.update({"update": update, "loss": update / 3})
    with (tmp_path / "b" / "metrics.jsonl").open("a") as file:
        file.write('{"update": 4, "lo')  # a kill cut this line short
    resumed = MetricsLog(tmp_path / "b", done=2, tensorboard=False)
    for update in range(3, 6):
        resumed.update({"update": update, "loss": update / 3})
    assert (tmp_path / "a" / "metrics.jsonl").read_bytes() == (tmp_path / "b" / "metrics.jsonl").read_bytes()


def test_numbers_that_json_cannot_hold_become_null(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "x.jsonl")
    lines.append({"update": 1, "parts": {"a": float("nan"), "b": [1.0, float("inf")]}})
    assert list(lines.rows()) == [{"update": 1, "parts": {"a": None, "b": [1.0, None]}}]


def test_other_bytes_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"update": 1}\n[]\n')
    with pytest.raises(CheckpointError) as caught:
        list(JsonLines(tmp_path / "x.jsonl").rows())
    assert str(caught.value.where).endswith("x.jsonl:2")


def test_tensorboard_gets_every_number(tmp_path: Path) -> None:
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log = MetricsLog(tmp_path)
    log.update(
        {"update": 7, "loss": 2.5, "read_strength": [0.5, 0.25], "parts": {"text/pad": 1.0, "x": None}}
    )
    log.close()
    events = event_accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "train/loss",
        "train/read_strength/1",
        "train/read_strength/2",
        "train/parts/text/pad",
    }
    assert [(event.step, event.value) for event in events.Scalars("train/read_strength/2")] == [(7, 0.25)]
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["parts"] == {"text/pad": 1.0, "x": None}
