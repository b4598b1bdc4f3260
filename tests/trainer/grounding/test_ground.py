"""The table of a run: its floor, its ceiling, and that every case is in it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from inkplex_data.trainer.grounding.cases import cases_of
from inkplex_data.trainer.grounding.fact_loss import PLACES, fact_losses, places, summarise_fact_losses
from inkplex_data.trainer.grounding.ground import Grounding, write_grounding
from inkplex_data.trainer.grounding.run_tables import CLAIMS, RUNS, SUMMARY, both_right
from inkplex_data.trainer.grounding.runs import CaseRunner


def test_the_oracle_is_right_everywhere_and_what_reads_nothing_is_never_right_in_both(
    grounding: Grounding,
) -> None:
    table = grounding.summary.filter(kind="both").select("system", "right").rows()
    found = dict(table)
    assert found["oracle"] == 1.0
    assert found["silent"] == found["constant"] == 0.0
    assert 0 <= found["trained"] <= 1
    oracle = grounding.runs.filter(system="oracle")
    assert oracle["right"].all() and oracle["latency_us"].drop_nulls().is_between(160_000, 240_000).all()
    silent = grounding.runs.filter(system="silent")
    assert (silent["right"] == (silent["due"] == 0)).all() and (silent["status"] == "silent").all()


def test_no_run_differs_before_its_branch_point(grounding: Grounding) -> None:
    trained = grounding.runs.filter(system="trained")
    assert trained["agrees"].all() and trained.height
    assert not trained.filter(kind="unchanged")["differs"].any()


def test_every_branch_of_every_case_is_a_row_of_every_system(grounding: Grounding) -> None:
    assert dict(grounding.runs.schema) == RUNS and dict(grounding.claims.schema) == CLAIMS
    assert dict(grounding.summary.schema) == SUMMARY
    counts = dict(grounding.runs.group_by("system").len().rows())
    assert len({count for system, count in counts.items() if system != "wrong memory"}) == 1
    assert any(
        "text in prompt" in line for line in grounding.left_out
    )  # the made store's tokenizer is nobody's
    assert "both" in grounding.text() and "oracle" in grounding.text()


def test_files_and_what_a_reviewer_gets(grounding: Grounding, tmp_path: Path) -> None:
    losses = pl.DataFrame({"place": ["x"], "own": [0.5]})
    body = write_grounding(tmp_path, grounding, about={"checkpoint": "c"}, more={"fact_loss": losses})
    assert pl.read_parquet(tmp_path / "runs.parquet").equals(grounding.runs)
    shown = json.loads((tmp_path / "cases.json").read_text())
    assert shown["schema"] == body["schema"] and len(shown["cases"]) == grounding.runs["call_id"].n_unique()
    absent = next(b for b in shown["cases"][0]["branches"] if b["kind"] == "absent")
    assert [item["arrives"] for item in absent["evidence"] if not item["given"]] == ["never"]
    text = (tmp_path / "table.md").read_text()
    assert "| oracle | both |" in text and "## Fact loss" in text


def test_fact_words_before_and_after_their_evidence(runner: CaseRunner) -> None:
    cases = list(cases_of(runner.generator.store, "validation", calls=["call-003"]))
    (case,) = cases
    place = places(case, 5)
    assert [PLACES[index] for index in place[5 + 12 : 5 + 16]] == ["padding", PLACES[0], PLACES[0], "padding"]
    assert (place[:5] == -1).all()
    losses = fact_losses(runner.generator.trained.model, cases, window=40_000)
    table = summarise_fact_losses(losses, resamples=10)
    assert table["targets"].to_list() == [2, 16] and table["place"].to_list() == [PLACES[0], "padding"]
    assert all(table[0, name] is not None for name in ("own", "wrong", "none", "delayed"))
    assert table[0, "own"] != table[0, "delayed"]


def test_both_right_is_a_product() -> None:
    runs = pl.DataFrame(
        {"call_id": "a", "family": "f", "due": [1, 1, 0, 0], "right": [True, False, True, True]}
    )
    assert both_right(runs)["value"].to_list() == [0.5]
