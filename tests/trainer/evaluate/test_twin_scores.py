"""Twins as pairs: each call under its own evidence and under its twin's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from inkplex_data.store.reader import Store, open_store
from inkplex_data.trainer.evaluate.scoring import score_calls
from inkplex_data.trainer.evaluate.twin_scores import TWIN_SCORES, score_twins, summarise_twins, twin_pairs
from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.model.speech_model import make_readers, open_speech_model, store_identity
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import RESULT_US, STARTS_US, WIDTH, add_twins, make_task_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    root: Path = tmp_path_factory.mktemp("twins") / "store"
    make_task_store(root, train=1, validation=1)
    assert add_twins(root, 2, 10) == ("call-010", "call-011")
    with open_store(root) as opened:
        yield opened


@pytest.fixture(scope="module")
def model(store: Store) -> ConnectedLM:
    identity = store_identity(store, split="validation", allow_untrained_codec=True)
    lm = open_speech_model(small_recipe().model, identity).lm
    readers = make_readers(small_recipe(), lm, state_width=WIDTH)
    for reader in readers.readers:
        reader.output.weight.data.normal_()
    return ConnectedLM(lm, readers)


def test_the_pair_and_its_fork(store: Store) -> None:
    (pair,) = twin_pairs(store, "validation").rows(named=True)
    assert (pair["call_id"], pair["twin_call_id"], pair["same_start"]) == ("call-010", "call-011", True)
    assert pair["fork_frame"] == -((STARTS_US - RESULT_US) // 80_000) == 9
    assert twin_pairs(store, "train").height == 0


def test_own_is_the_loader_s_own_and_the_twin_s_evidence_changes_it(store: Store, model: ConnectedLM) -> None:
    """All first pieces come after the fork here, so scoring a call on its own must agree with `score_calls`."""
    scores = score_twins(model, store, split="validation")
    assert dict(scores.schema) == TWIN_SCORES and scores.height == 1
    row = scores.row(0, named=True)
    first = score_calls(model, store, split="validation", memories=["own"]).filter(
        pl.col("part") == "text/first_piece"
    )
    own = dict(first.select("call_id", "loss_sum").iter_rows())
    assert row["own"] == pytest.approx(own["call-010"], rel=1e-6)
    assert row["twin_own"] == pytest.approx(own["call-011"], rel=1e-6)
    assert row["targets"] == row["twin_targets"] == 1
    assert row["twin"] != pytest.approx(row["own"], rel=1e-6)
    assert row["right"] == (row["own"] < row["twin"] and row["twin_own"] < row["twin_twin"])
    summary = summarise_twins(scores)
    assert summary["gain"] == pytest.approx(
        (row["twin"] + row["twin_twin"] - row["own"] - row["twin_own"]) / 2, rel=1e-9
    )
    assert (summary["pairs"], summary["right"], summary["gain_lower"]) == (1, float(row["right"]), None)


def test_only_pairs_within_the_chosen_calls(store: Store, model: ConnectedLM) -> None:
    assert score_twins(model, store, split="validation", calls=["call-010"]).height == 0
    assert summarise_twins(score_twins(model, store, split="validation", calls=[])) == {
        "pairs": 0,
        "left_out": 0,
        "right": None,
        "gain": None,
        "gain_lower": None,
    }
