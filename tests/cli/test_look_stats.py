"""`stats` on a made store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inkplex_data.cli.app import app
from tests.store.made import Made, add_calls, call_part, make_store
from tests.test_text_scores import made_scores

RUNNER = CliRunner()
TURNS = {"duration_us": 10_000_000, "pause_s": 0.5, "gap_s": 0.25, "gaps_ms": [100, 150], "pad_fraction": 0.7}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    made = make_store(tmp_path / "store", finished=False)
    add_calls(made, 7, [call_part("talk", 125, **TURNS)])
    return made


def test_lines(made: Made) -> None:
    """The other calls of the store have no turns: their measures are over this one."""
    out = RUNNER.invoke(app, ["stats", str(made.root)]).output.splitlines()
    line = next(line for line in out if line.strip().startswith("gap length"))
    assert line.split() == ["gap", "length", "ms", "2", "gaps", "125", "105", "125", "145", "230"]
    line = next(line for line in out if line.strip().startswith("pause "))
    assert line.split() == ["pause", "s/min", "1", "calls", "3.00", "3.00", "3.00", "3.00", "6.40"]


def test_a_narrow_terminal_cuts_no_number(made: Made) -> None:
    out = RUNNER.invoke(app, ["stats", str(made.root)], env={"COLUMNS": "80"}).output
    assert "…" not in out.partition("Speech is found")[0]


def test_json(made: Made) -> None:
    lines = RUNNER.invoke(app, ["stats", str(made.root), "--json"]).output.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["measure"] for row in rows if "measure" in row] == [
        "pause",
        "gap",
        "text padding",
        "memory",
        "gap length",
    ]
    assert any(row.get("code") == "made-up" for row in rows)


def test_scores_add_the_calls_that_surprise_most(made: Made, tmp_path: Path) -> None:
    made_scores().write_parquet(tmp_path / "scores.parquet")
    scored = ["stats", str(made.root), "--scores", str(tmp_path / "scores.parquet")]
    lines = RUNNER.invoke(app, scored, env={"COLUMNS": "120"}).output.splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip() == "outliers")
    assert lines[at + 3].split() == ["e", "+23.6", "9.00", "9.00", "–", "dear", "of", "e", "cheap", "of", "e"]
    rows = [json.loads(line) for line in RUNNER.invoke(app, [*scored, "--json"]).output.splitlines()]
    assert [row["outlier"] for row in rows if "outlier" in row][:2] == ["e", "f"]
    page = tmp_path / "r.html"
    assert RUNNER.invoke(app, ["report", *scored[1:], "-o", str(page)]).exit_code == 0
    assert "<h2>Outliers</h2>" in page.read_text() and "dear of e cheap of e" in page.read_text()
