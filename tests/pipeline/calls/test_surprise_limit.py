"""The recipe's `surprise`, in a build of made calls and by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.config.surprise import SurpriseConfig
from inkplex_data.errors import CallRefused, StoreError
from inkplex_data.pipeline.calls.surprise_limit import check_surprise
from inkplex_data.problems import ProblemLog
from tests.test_text_scores import made_scores


@pytest.fixture
def scores(tmp_path: Path) -> str:
    made_scores().write_parquet(tmp_path / "scores.parquet")
    return str(tmp_path / "scores.parquet")


def told(call_id: str, settings: SurpriseConfig | None, *, strict: bool = False) -> list[tuple[str, str]]:
    log = ProblemLog(call_id, strict=strict)
    check_surprise(call_id, settings, log)
    return [(problem.code, problem.message) for problem in log]


def test_outliers_to_both_sides_are_marked_with_their_words(scores: str) -> None:
    settings = SurpriseConfig(scores=scores)
    assert told("e", None) == told("a", settings) == []
    [(code, message)] = told("e", settings)
    assert code == "surprise-outlier"
    assert "9.00 bits per byte, +23.6 deviations" in message and "'dear of e'" in message
    assert [code for code, _ in told("f", settings)] == ["surprise-outlier"]
    assert [code for code, _ in told("x", settings)] == ["surprise-unknown"]
    assert told("e", SurpriseConfig(scores=scores, limit=30)) == []


def test_outliers_are_refused_where_the_recipe_says_so(scores: str) -> None:
    with pytest.raises(CallRefused) as caught:
        told("e", SurpriseConfig(scores=scores, on_failure="refuse"))
    assert caught.value.code == "surprise-outlier"
    with pytest.raises(CallRefused):
        told("e", SurpriseConfig(scores=scores), strict=True)


def test_a_changed_file_is_read_again_and_a_lost_one_said(scores: str) -> None:
    settings = SurpriseConfig(scores=scores)
    assert told("e", settings)
    made_scores({"e": 2.0, "a": 2.1, "b": 1.9}).write_parquet(scores)
    assert told("e", settings) == []
    Path(scores).unlink()
    with pytest.raises(StoreError, match="no file of scores"):
        told("e", settings)
