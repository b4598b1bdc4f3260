"""A reviewer's verdicts, barge-ins, what is heard, and the one command that makes all tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile
import torch
from typer.testing import CliRunner

from inkplex_data.cli.app import app
from inkplex_data.errors import UsageError
from inkplex_data.speech.check.scorer import WhisperScorer
from inkplex_data.trainer.grounding.cases import cases_of
from inkplex_data.trainer.grounding.ground import Grounding
from inkplex_data.trainer.grounding.heard import HEARD, heard, summarise_heard, voice_similarity
from inkplex_data.trainer.grounding.interruption import INTERRUPTIONS, interruptions
from inkplex_data.trainer.grounding.reviewed import SCHEMA, agreement, agreement_text, read_verdicts
from inkplex_data.trainer.grounding.run_tables import CLAIMS
from inkplex_data.trainer.grounding.runs import CaseRunner, first_difference
from tests.conftest import ROOT


def test_agreement_counts_claims_that_are_here(grounding: Grounding, tmp_path: Path) -> None:
    claims = grounding.claims.filter(system="oracle").head(3)
    assert claims.height == 3
    lines = [
        {"schema": SCHEMA, **{name: row[name] for name in ("call_id", "system", "branch", "claim_ix")}, "verdict": verdict}
        for row, verdict in zip(claims.iter_rows(named=True), ("stale", "supported", "stale"), strict=True)
    ]  # fmt: skip
    again, lost = {**lines[0], "verdict": "supported"}, {**lines[0], "call_id": "gone"}
    file = tmp_path / "verdicts.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in [*lines, again, lost]))
    reviewed = read_verdicts(file)
    table = agreement(grounding.claims, reviewed)
    assert table.filter(verdict="supported").row(0)[1:] == (3, 2, 2)
    assert table.filter(verdict="stale").row(0)[1:] == (0, 1, 0)
    text = agreement_text(table, reviewed.height)
    assert text == "reviewed: 3 claims, 2 with the automatic verdict (67%); 1 are of claims that are not here"
    for wrong in (
        "{",
        "[]",
        "[" * 100_000,
        json.dumps({**lines[0], "verdict": "fine"}),
        json.dumps({**lines[0], "claim_ix": True}),
    ):
        file.write_text(wrong)
        with pytest.raises(UsageError, match="verdict"):
            read_verdicts(file)


def test_a_barge_in_changes_nothing_before_it(runner: CaseRunner) -> None:
    (case,) = cases_of(runner.generator.store, "validation", calls=["call-003"])
    base = runner.alone(case, case.branches[0])
    codes = torch.zeros(8, 4, dtype=torch.long)
    made = runner.alone(case, case.branches[0], barge_in=(11, codes))
    assert (made.caller[:, 11 - made.plan.first : 15 - made.plan.first] == 0).all()
    at = first_difference(base, made, runner.lm.delays.delays)
    assert at is not None and at >= 11
    table = interruptions(runner, [case], at_frame=11)
    assert dict(table.schema) == INTERRUPTIONS
    row = table.row(0, named=True)
    assert row["status"] in ("stopped", "went on", "silent")


def test_voices_and_means_by_origin() -> None:
    draw = np.random.default_rng(0)
    t = np.arange(24_000 * 2) / 24_000
    one = np.sin(2 * np.pi * 120 * t).astype(np.float32) * 0.1
    other = draw.normal(0, 0.1, len(t)).astype(np.float32)
    same, different = voice_similarity(one, one), voice_similarity(one, other)
    assert same == pytest.approx(1.0, abs=1e-5) and different is not None and different < same
    assert voice_similarity(one[:100], one) is None
    rows = [
        {**dict.fromkeys(HEARD), "system": "trained", "origin": origin, "wer": wer}
        for origin, wer in (("recorded", 0.2), ("recorded", None), ("synthetic", 0.6))
    ]
    table = summarise_heard(rows)
    assert table.select("origin", "runs", "wer").rows() == [("recorded", 2, 0.2), ("synthetic", 1, 0.6)]


@pytest.mark.slow
def test_a_call_of_the_example_corpus_is_heard_as_its_own_text() -> None:
    """With the packaged Whisper: its own words give few errors, another call's many; level, silence and clipping as they are."""
    calls = ROOT / "examples" / "corpus" / "calls"
    samples, _ = soundfile.read(calls / "bill-85-credit.flac", dtype="float32")
    words = json.loads((calls / "bill-85-credit.json").read_text())["alignments"]
    said = [(round(span[0] * 1e6), text) for text, span, label in words if label == "SPEAKER_MAIN"]
    scorer = WhisperScorer()
    found = heard(samples[:, 0], said, samples[:, 0], scorer)
    turned = heard(samples[:, 0] * 50, [(at, "banana") for at, _ in said], None, scorer)
    assert found["words"] == len(said) and found["voice"] == pytest.approx(1.0, abs=1e-4)
    assert found["wer"] is not None and turned["wer"] is not None
    assert found["wer"] < 0.5 < turned["wer"]
    assert found["clipped"] == 0 and (turned["clipped"] or 0) > 0.01
    assert found["loudness_lufs"] is not None and -40 < found["loudness_lufs"] < -10
    assert found["silent"] is not None and 0 < found["silent"] < 1 and (turned["repeated_phrases"] or 0) > 0


def test_one_command_makes_the_tables_and_the_page(made: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "out", tmp_path / "page.html"
    arguments = [
        "evaluate",
        made / "run",
        made / "store",
        "-o",
        out,
        "--grounding",
        "--limit",
        1,
        "--seconds",
        1.6,
    ]
    result = CliRunner().invoke(
        app, [str(part) for part in [*arguments, "--call", "call-003", "--memory", "none"]]
    )
    assert result.exit_code == 0, result.output
    assert "both right" in result.output and "review.html" in result.output
    names = {path.name for path in (out / "grounding").iterdir()}
    assert names >= {
        "runs.parquet",
        "claims.parquet",
        "summary.parquet",
        "fact_loss.parquet",
        "table.md",
        "cases.json",
    }
    assert pl.read_parquet(out / "grounding" / "claims.parquet").schema == CLAIMS
    assert CliRunner().invoke(app, ["report", str(out), "-o", str(page)]).exit_code == 0
    assert page.read_bytes() == (out / "grounding" / "review.html").read_bytes()
