"""`train`, `evaluate` and `generate` one after the other, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile
import torch
import yaml
from typer.testing import CliRunner

from inkplex_data.cli.app import app
from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.speech.codec import load_codec
from inkplex_data.trainer.evaluate.generate import GENERATIONS
from inkplex_data.trainer.evaluate.group_scores import GROUP_SCORES
from inkplex_data.trainer.evaluate.scores import MEASURES, SCORES, SUMMARY
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import RESPONSE, make_task_store

RUNNER = CliRunner()


def invoke(*arguments: object) -> tuple[int, str]:
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `store`, `recipe.yaml` and a finished `run`."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("train")
    make_task_store(
        folder / "store", train=4, validation=3, codec_sha256=load_codec("untrained:0").identity.sha256
    )
    recipe = small_recipe(checks={"tasks": 3, "every_updates": 9, "resamples": 100})
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe.model_dump(mode="json", exclude={"name"})))
    code, output = invoke(
        "train", folder / "store", "-o", folder / "run", "-p", folder / "recipe.yaml", "--device", "cpu",
        "--workers", 0, "--allow-untrained-codec", "--json",
    )  # fmt: skip
    assert code == 0
    events = [json.loads(line) for line in output.splitlines()]
    assert [event["event"] for event in events if event["event"] != "note"] == [
        *["update"] * 4, "check", "summary",
    ]  # fmt: skip
    assert events[-1]["update"] == events[-1]["updates"] == 4
    assert Path(events[-1]["checkpoint"]).is_file()
    assert list((folder / "run" / "tensorboard").iterdir())
    return folder


def test_a_finished_run_resumes_to_nothing_and_is_not_overwritten(trained: Path) -> None:
    again = (
        "train",
        trained / "store",
        "-o",
        trained / "run",
        "-p",
        trained / "recipe.yaml",
        "--device",
        "cpu",
    )
    code, output = invoke(*again, "--resume", "--allow-untrained-codec")
    assert code == 0 and "4 of 4 updates" in output
    with pytest.raises(UsageError, match="holds a run"):
        invoke(*again, "--allow-untrained-codec")
    with pytest.raises(ConfigError, match="untrained codec"):
        invoke(*again, "--resume")


def test_evaluate_writes_tables_and_prints_them(trained: Path) -> None:
    code, output = invoke(
        "evaluate", trained / "run", trained / "store", "-o", trained / "evaluation", "--resamples", 200,
        "--generate", "--seconds", 0.8, "--limit", 1, "--device", "cpu", "--memory", "none", "--memory", "own",
        "--only", "decisions=speak",
    )  # fmt: skip
    assert code == 0
    assert "origin synthetic, unknown" in output and "decision speak" in output
    assert "first piece" in output and "scripted" in output and "own" in output
    scores = pl.read_parquet(trained / "evaluation" / "scores.parquet")
    assert dict(scores.schema) == SCORES
    assert scores.height == 3 * 2 * 8
    summary = pl.read_parquet(trained / "evaluation" / "summary.parquet")
    assert dict(summary.schema) == SUMMARY
    assert summary["measure"].to_list() == list(MEASURES)
    assert summary["wrong"].null_count() == len(MEASURES) and summary["own"].null_count() == 0
    said = pl.read_parquet(trained / "evaluation" / "generations.parquet")
    assert dict(said.schema) == GENERATIONS
    assert said["memory"].to_list() == ["none", "own"]
    about = json.loads((trained / "evaluation" / "evaluation.json").read_text())
    assert about["update"] == 4 and about["untrained_codec"] and about["untrained_model"]
    assert [row["name"] for row in about["generations"]] == ["baseline", "trained", "scripted"]
    (origin, decision) = about["generation_groups"]
    assert decision == {"by": "decision", "group": "speak", "generations": about["generations"]}
    assert origin["by"] == "origin" and origin["generations"] == about["generations"]
    groups = pl.read_parquet(trained / "evaluation" / "groups.parquet")
    assert dict(groups.schema) == GROUP_SCORES
    everything = groups.filter(by="decision", measure="first piece").row(0, named=True)
    assert everything["calls"] == 3 and everything["own"] == pytest.approx(summary.row(0, named=True)["own"])
    assert groups.filter(by="origin", measure="first piece")["calls"].sum() == 3


def test_the_panel_is_the_run_s(trained: Path) -> None:
    panel = json.loads((trained / "run" / "panel.json").read_text())
    code, output = invoke(
        "evaluate", trained / "run", trained / "store", "--panel", "--memory", "own", "--json", "--device", "cpu",
        "-o", trained / "panel",
    )  # fmt: skip
    assert code == 0 and json.loads(output)["split"] == "validation"
    scores = pl.read_parquet(trained / "panel" / "scores.parquet")
    assert sorted(scores["call_id"].unique()) == sorted(panel["calls"])
    checks = json.loads((trained / "run" / "checks.jsonl").read_text())
    own = scores.filter(pl.col("part") == "text/first_piece")
    assert float(own["loss_sum"].sum() / own["targets"].sum()) == pytest.approx(
        checks["losses"]["first piece"]["own"], rel=1e-9
    )


def test_generate_writes_stereo_and_text(trained: Path) -> None:
    code, output = invoke(
        "generate", trained / "run", trained / "store", "-o", trained / "said", "--call", "call-005",
        "--seconds", 0.8, "--device", "cpu", "--seed", 3, "--exact-ring",
    )  # fmt: skip
    assert code == 0
    folder = trained / "said" / "call-005"
    assert sorted(path.name for path in folder.iterdir()) == [
        "baseline.json", "baseline.sidecar.json", "baseline.wav", "trained.json", "trained.sidecar.json", "trained.wav",
    ]  # fmt: skip
    assert all(str(path) in output for path in folder.iterdir())
    sound, rate = soundfile.read(folder / "trained.wav")
    free = RESPONSE - 1
    assert rate == 24_000 and sound.shape == ((free + 10) * 1_920, 2)  # no prefix: frame 0 is the recording's
    baseline, _ = soundfile.read(folder / "baseline.wav")
    codec = load_codec("untrained:0")
    np.testing.assert_array_equal(sound[:, 1], baseline[:, 1])  # the caller, right, is the same for both
    document = json.loads((folder / "trained.json").read_text())
    assert document["memory"] == "own" and document["options"]["seed"] == 3
    assert document["options"]["ring"] == "exact"
    assert document["free_from_s"] == pytest.approx(free * 0.08)
    assert document["ends_s"] == pytest.approx((free + 10) * 0.08)
    assert len(document["text_ids"]) == 10
    assert document["text"] == " ".join(word["text"] for word in document["words"] if word["generated"])
    assert [row[0] for row in document["alignments"]] == [word["text"] for word in document["words"]]
    assert document["untrained_codec"] and document["codec"] == codec.identity.id


def test_what_cannot_be_generated_is_named(trained: Path, tmp_path: Path) -> None:
    code, output = invoke(
        "generate", trained / "run", trained / "store", "-o", tmp_path, "--call", "call-005", "--no-audio",
        "--seconds", 30, "--device", "cpu",
    )  # fmt: skip
    assert code == 3 and "call-005" in output and "do not fit in a context of 64" in output


def test_another_codec_or_no_run_is_refused(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        invoke("evaluate", tmp_path, trained / "store")
    make_task_store(tmp_path / "store", train=2, validation=2)
    with pytest.raises(CheckpointError, match="codec"):
        invoke("evaluate", trained / "run", tmp_path / "store")
    with pytest.raises(UsageError, match="1 calls are not in split 'validation': 'call-000'"):
        invoke("evaluate", trained / "run", trained / "store", "--call", "call-000")
    with pytest.raises(UsageError, match="no call of split 'validation' has decisions"):
        invoke("evaluate", trained / "run", trained / "store", "--only", "decisions=quiet")
    with pytest.raises(UsageError, match="can be scored with wrong memory"):
        invoke("evaluate", trained / "run", trained / "store", "--split", "train", "--memory", "wrong")
    with pytest.raises(UsageError, match="none, own or wrong"):
        invoke("evaluate", trained / "run", trained / "store", "--memory", "mine")
