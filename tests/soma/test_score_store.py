from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl
import pytest
import torch

from inkplex_data.soma.app.corpora import Corpus
from inkplex_data.soma.app.evaluation import evaluate_corpus
from inkplex_data.soma.learner.learner import Learner
from inkplex_data.soma.learner.soma_config import SomaConfig
from inkplex_data.soma.score_store import score_store
from inkplex_data.soma.tokens.soma_tokenizer import SHA256, SomaTokenizer
from inkplex_data.soma.tokens.store_text import CallText, RecordingText
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.reader import Store, open_store
from inkplex_data.text_scores import SCORES, call_surprise
from tests.soma.dialogues import dialogue_part
from tests.store.made import add_calls, make_store

SAID = [("SPEAKER_MAIN", "good"), ("SPEAKER_MAIN", "morning"), ("x", "hello"), ("SPEAKER_MAIN", "bye")] * 30


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    root = tmp_path_factory.mktemp("soma") / "store"
    made = make_store(root)
    add_calls(
        made, 9, [dialogue_part("said", SAID), dialogue_part("again", SAID), dialogue_part("silent", [])]
    )
    publish_snapshot(root)
    with open_store(root) as opened:
        yield opened


@pytest.fixture(scope="module")
def learner() -> Learner:
    made = Learner.fresh(SomaConfig(bands=1, depth=1), SHA256)
    made.perceive([300, 301, 302])
    return made


@pytest.fixture(scope="module")
def scores(learner: Learner, store: Store, tokenizer: SomaTokenizer) -> pl.DataFrame:
    before = learner.bank.traces.clone()
    weights = [value.clone() for value in learner.network.parameters()]
    found = score_store(learner, store, tokenizer)
    assert torch.equal(learner.bank.traces, before)
    assert all(torch.equal(*pair) for pair in zip(weights, learner.network.parameters(), strict=True))
    return found


def test_every_text_of_the_store_has_its_rows(scores: pl.DataFrame, store: Store) -> None:
    assert dict(scores.schema) == SCORES
    whole = scores.filter(pl.col("level") == "call", pl.col("side").is_null())
    assert whole["call_id"].to_list() == store.call_ids
    traces = scores.filter(pl.col("level") == "recording")
    assert traces["recording_id"].to_list() == store.owners("recordings")["recording_id"].to_list()
    words = scores.filter(pl.col("level") == "word").group_by("call_id").len()
    rows = store.calls().select("call_id", "words").filter(pl.col("words") > 0).collect()
    assert dict(words.iter_rows()) == dict(rows.iter_rows())


def test_turns_are_the_sums_of_their_words_and_calls_of_their_turns(scores: pl.DataFrame) -> None:
    def sums(level: str, *by: str) -> pl.DataFrame:
        rows = scores.filter(pl.col("level") == level, pl.col("call_id").is_not_null())
        return rows.group_by(*by, maintain_order=True).agg(pl.col("nats", "tokens", "source_bytes").sum())

    turns = scores.filter(pl.col("level") == "turn", pl.col("call_id").is_not_null())
    by_turn = turns.join(sums("word", "call_id", "turn_ix"), on=["call_id", "turn_ix"], suffix="_sum")
    assert by_turn.height == turns.height > 60
    sides = scores.filter(pl.col("level") == "call", pl.col("side").is_not_null())
    by_side = sides.join(sums("turn", "call_id", "side"), on=["call_id", "side"], suffix="_sum")
    whole = scores.filter(pl.col("level") == "call", pl.col("side").is_null(), pl.col("source_bytes") > 0)
    by_call = whole.join(sums("turn", "call_id"), on="call_id", suffix="_sum")
    for table in (by_turn, by_side, by_call):
        assert table.height
        assert (table["tokens"] == table["tokens_sum"]).all()
        assert (table["source_bytes"] == table["source_bytes_sum"]).all()
        assert ((table["nats"] - table["nats_sum"]).abs() < 1e-9).all()


def test_a_call_costs_what_its_tokens_cost_when_read_as_a_corpus(
    scores: pl.DataFrame, learner: Learner, store: Store, tokenizer: SomaTokenizer
) -> None:
    """The same tokens by the other road, in other blocks; there the turn pieces of the agent count a tenth each."""
    for document, name in (
        (CallText(store, "said"), "call_id"),
        (RecordingText(store, "task one"), "recording_id"),
    ):
        row = scores.filter(pl.col(name) == getattr(document, name), pl.col("side").is_null()).row(
            0, named=True
        )
        found = evaluate_corpus(learner, Corpus("", [document]), tokenizer)
        yields = found.tokens - row["tokens"]
        assert found.source_bytes == row["source_bytes"]
        assert yields > 0
        assert 0 < found.nats - row["nats"] < 0.1 * yields * 20
        assert row["bits_per_byte"] == pytest.approx(row["nats"] / math.log(2) / row["source_bytes"])


def test_a_score_does_not_depend_on_the_calls_place(scores: pl.DataFrame) -> None:
    names = ["side", "turn_ix", "word_ix", "text", "nats", "bits_per_byte"]
    first, second = (scores.filter(pl.col("call_id") == call).select(names) for call in ("said", "again"))
    assert first.equals(second)
    words = scores.filter(pl.col("call_id") == "said", pl.col("level") == "word")
    assert words.sort("start_us")["word_ix"].to_list() == list(range(len(SAID)))
    assert words["text"].head(2).to_list() == ["good", "morning"]


def test_calls_join_to_their_scores(scores: pl.DataFrame, store: Store) -> None:
    joined = store.calls().collect().join(call_surprise(scores), on="call_id", how="left")
    assert joined.height == len(store)
    said = joined.row(by_predicate=pl.col("call_id") == "said", named=True)
    assert said["agent_bits_per_byte"] > 0 and said["caller_bits_per_byte"] > 0
    silent = joined.row(by_predicate=pl.col("call_id") == "silent", named=True)
    assert silent["bits_per_byte"] is None
