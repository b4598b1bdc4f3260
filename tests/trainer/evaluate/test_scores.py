"""Tables of losses: means, comparisons on the calls that both have, and scoring of a real store."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from inkplex_data.store.call_groups import TOLD
from inkplex_data.store.format import CALLS
from inkplex_data.store.reader import Store, open_store
from inkplex_data.trainer.evaluate.group_scores import GROUP_SCORES, group_scores, group_text
from inkplex_data.trainer.evaluate.scores import (
    MEASURES,
    SCORES,
    SUMMARY,
    compare,
    loss_of,
    score_rows,
    summarise,
    summary_text,
)
from inkplex_data.trainer.evaluate.scoring import scorable, score_calls
from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.model.speech_model import make_readers, open_speech_model, store_identity
from inkplex_data.trainer.run.objective import PARTS
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import WIDTH, make_task_store


def made_scores(losses: dict[tuple[str, str], float]) -> pl.DataFrame:
    """`losses` of the first part by (call, memory), two targets each; call `x1` is of family `x`."""
    rows = []
    for (call, memory), loss in losses.items():
        rows += score_rows(call, call[0], memory, [2 * loss, *[0.0] * 7], [2, *[0] * 7])
    return pl.DataFrame(rows, schema=SCORES, orient="row")


def test_losses_and_comparisons() -> None:
    scores = made_scores(
        {("a1", "none"): 3, ("a1", "own"): 1, ("b1", "none"): 4, ("b1", "own"): 1, ("a1", "wrong"): 5}
    )
    assert loss_of(scores, "first piece", "none") == 3.5 and loss_of(scores, "padding", "none") is None
    found = compare(scores, "first piece", "none", "own", resamples=500)
    assert found is not None and (found.value, found.lower, found.families) == (2.5, 2.0, 2)
    wrong = compare(scores, "first piece", "wrong", "own")
    assert wrong is not None and (wrong.value, wrong.lower, wrong.families) == (
        4.0,
        None,
        1,
    )  # a1 alone has both


def test_losses_by_origin_and_target() -> None:
    scores = made_scores({("a1", "none"): 3, ("a1", "own"): 1, ("b1", "none"): 5})
    told = pl.DataFrame(
        {
            "call_id": ["a1", "b1", "z1"],
            "agent_origin": ["synthetic"] * 3,
            "caller_origin": ["recorded", None, "recorded"],
            "decisions": [["speak"], ["speak", "quiet"], ["clarify"]],
            "target_statuses": [None] * 3,
            "target_writers": [None] * 3,
        },
        schema_overrides={name: CALLS[name] for name in TOLD},
    )
    table = group_scores(scores, told)
    assert dict(table.schema) == GROUP_SCORES
    first = {
        (by, group): row for by, group, *row in table.filter(measure="first piece").drop("measure").rows()
    }
    assert first == {
        ("origin", "synthetic, recorded"): [1, 1, 3.0, 1.0, None],
        ("origin", "synthetic, unknown"): [1, 1, 5.0, None, None],
        ("decision", "quiet"): [1, 1, 5.0, None, None],
        ("decision", "speak"): [2, 2, 4.0, 1.0, None],
    }
    assert group_text(table).splitlines()[4].split() == ["decision", "speak", "2", "4.0000", "1.0000", "–"]
    assert group_text(table.clear()) == ""


def test_the_summary_has_every_measure_and_reads_as_a_table() -> None:
    scores = made_scores({("a1", "none"): 3, ("a1", "own"): 1, ("b1", "none"): 4, ("b1", "own"): 1})
    summary = summarise(scores, resamples=100)
    assert dict(summary.schema) == SUMMARY and summary["measure"].to_list() == list(MEASURES)
    first, later, *_ = summary.rows(named=True)
    assert (first["baseline"], first["own"], first["wrong"], first["targets"]) == (3.5, 1.0, None, 4)
    assert later["baseline"] is None and later["targets"] == 0
    lines = summary_text(summary).splitlines()
    assert len(lines) == 1 + len(MEASURES)
    assert lines[1].split() == ["first", "piece", "4", "3.5000", "1.0000", "–", "+2.5000", "(+2.0000)", "–"]


def test_means_of_a_row_are_of_the_same_calls() -> None:
    """A call without a memory is scored without one, and stays out of the comparison."""
    scores = made_scores({("a1", "none"): 3, ("a1", "own"): 1, ("b1", "none"): 100})
    row = summarise(scores, resamples=10).row(0, named=True)
    assert (row["baseline"], row["own"], row["baseline_minus_own"], row["targets"]) == (3.0, 1.0, 2.0, 2)
    assert summarise(scores.filter(pl.col("memory") == "none"), resamples=10)["baseline"][0] == 51.5


def test_every_part_is_in_a_measure() -> None:
    assert {part for parts in MEASURES.values() for part in parts} == set(PARTS)


@pytest.fixture(scope="module")
def task_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_task_store(tmp_path_factory.mktemp("scores") / "store", train=2, validation=3)


def model_for(store: Store) -> ConnectedLM:
    identity = store_identity(store, split="validation", allow_untrained_codec=True)
    lm = open_speech_model(small_recipe().model, identity).lm
    readers = make_readers(small_recipe(), lm, state_width=WIDTH)
    for reader in readers.readers:
        reader.output.weight.data.fill_(0.01)
    return ConnectedLM(lm, readers)


def test_scoring_covers_calls_and_memories_and_windows_add_up(task_store: Path) -> None:
    with open_store(task_store) as store:
        model = model_for(store)
        begun: list[int] = []
        scores = score_calls(model, store, split="validation", advance=lambda: begun.append(1))
        assert scores.height == 3 * 3 * 8 and len(begun) == 9
        assert dict(scores.schema) == SCORES
        counts = scores.group_by("part").agg(pl.col("targets").sum())
        assert dict(counts.iter_rows())["text/first_piece"] == 9
        own, none = (loss_of(scores, "first piece", memory) for memory in ("own", "none"))
        assert own != none
        # Windows of nine frames have the same targets but the delayed streams' last frame of each.
        cut = score_calls(model, store, split="validation", memories=["own"], window_frames=9)
        totals = cut.group_by("part").agg(pl.col("targets").sum())
        assert dict(totals.iter_rows())["text/first_piece"] == 3
        assert dict(totals.iter_rows())["agent/semantic"] == dict(counts.iter_rows())["agent/semantic"] / 3


def test_only_calls_that_can_be_scored(task_store: Path) -> None:
    with open_store(task_store) as store:
        assert scorable(store, "train", "own") == ["call-000", "call-001"]
        assert scorable(store, "train", "wrong") == []
        assert scorable(store, "validation", "wrong", ["call-003", "elsewhere"]) == ["call-003"]
        assert score_calls(model_for(store), store, split="train", memories=["wrong"]).height == 0
