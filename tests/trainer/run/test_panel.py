from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.errors import CheckpointError, ConfigError
from inkplex_data.trainer.run.panel import choose_panel, read_panel, write_panel

COLUMNS = {"call_id": pl.String, "split": pl.String, "family": pl.String, "recording_id": pl.String}


def calls(rows: list[tuple[str, str, str, str | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


MANY = calls(
    [
        (f"call-{family}-{task}-{number}", "validation", f"family-{family}", f"task-{family}-{task}")
        for family in range(12)
        for task in range(6)
        for number in range(2)
    ]
    + [("other", "test", "t", "r"), ("silent", "validation", "s", None)]
)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 100), st.integers(0, 5), st.randoms())
def test_one_call_a_task_and_families_take_turns(tasks: int, seed: int, shuffled: object) -> None:
    panel = choose_panel(MANY.sample(fraction=1, shuffle=True, seed=seed), tasks=tasks, seed=seed)
    assert panel.calls == choose_panel(MANY, tasks=tasks, seed=seed).calls
    chosen = MANY.filter(pl.col("call_id").is_in(panel.calls))
    assert len(panel.calls) == min(tasks, 72) == chosen["recording_id"].n_unique()
    per_family = chosen["family"].value_counts()["count"]
    assert per_family.max() - per_family.min() <= 1 or len(panel.calls) < 12  # type: ignore[operator]


def test_seeds_draw_differently_and_calls_without_memory_stay_out() -> None:
    assert choose_panel(MANY, tasks=10, seed=1).calls != choose_panel(MANY, tasks=10, seed=2).calls
    assert "silent" not in choose_panel(MANY, tasks=100).calls


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="0 calls with a recording"):
        choose_panel(MANY, split="train")


def test_it_is_what_was_written(tmp_path: Path) -> None:
    panel = choose_panel(MANY, tasks=7)
    write_panel(tmp_path / "panel.json", panel)
    assert read_panel(tmp_path / "panel.json") == panel
    (tmp_path / "panel.json").write_text('{"schema":"inkplex/panel@1","calls":[1]}')
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_panel(tmp_path / "panel.json")
