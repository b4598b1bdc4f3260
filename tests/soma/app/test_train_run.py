from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from inkplex_data.errors import StoreError, UsageError
from inkplex_data.soma.app.corpora import open_corpus
from inkplex_data.soma.app.made_learner import made_learner
from inkplex_data.soma.app.talk import dream, hear, reply
from inkplex_data.soma.app.train_run import PassSummary, TrainOptions, stop_between_batches, train_pass
from inkplex_data.soma.learner.learner import Learner
from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer

SMALL = {"bands": 1, "depth": 1}
TEXT = "the cat sat on the mat and the dog sat on the log\n" * 50


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "text.txt").write_text(TEXT)
    return str(tmp_path / "text.txt")


def passed(
    model: Path, text: str, *, batches: int = 10**9, options: TrainOptions | None = None
) -> tuple[PassSummary, Learner, list[tuple[str, dict[str, Any]]]]:
    """A pass that stops after some batches."""
    told: list[tuple[str, dict[str, Any]]] = []
    learner = made_learner(model, SMALL, decimation=0.0)
    left = iter(range(batches))
    with open_corpus([text]) as corpus:
        summary = train_pass(
            learner,
            model,
            corpus,
            SomaTokenizer.load(),
            options or TrainOptions(tell_every_s=0, look_every_s=0),
            tell=lambda event, body: told.append((event, body)),
            is_stopped=lambda: next(left, None) is None,
        )
    return summary, learner, told


def test_a_stopped_pass_goes_on_and_comes_to_the_same(tmp_path: Path, text: str) -> None:
    whole, straight, told = passed(tmp_path / "whole.pt", text)
    assert whole.is_done and whole.cursor.source_bytes == len(TEXT) == whole.figures.source_bytes
    first, _, _ = passed(tmp_path / "parts.pt", text, batches=2)
    second, resumed, _ = passed(tmp_path / "parts.pt", text)
    assert not first.is_done and second.is_done
    assert first.figures.source_bytes + second.figures.source_bytes == len(TEXT)
    assert second.cursor == whole.cursor
    for one, other in zip(straight.network.parameters(), resumed.network.parameters(), strict=True):
        assert torch.equal(one, other)
    again, _, _ = passed(tmp_path / "parts.pt", text)
    assert again.is_done and again.figures.tokens == 0 and again.figures.bits_per_byte is None
    # What is told is JSON, and says what a page draws.
    assert [event for event, _ in told][:3] == ["begun", "figures", "look"]
    figures = [body for event, body in told if event == "figures"]
    assert figures[-1]["read_bytes"] == len(TEXT)
    assert figures[0]["bits_per_byte"] > figures[-1]["bits_per_byte"]
    assert sum(body["source_bytes"] for body in figures) == len(TEXT)
    assert {"input_spectrum", "weights_by_band", "residual_spectrum", "active", "likely"} <= told[2][1].keys()
    json.dumps(told, allow_nan=False)


def test_dreams_come_at_their_cadence_with_their_ratio(tmp_path: Path, text: str) -> None:
    options = TrainOptions(tell_every_s=99, look_every_s=99, dream_every=2, dream_tokens=5)
    _, learner, told = passed(tmp_path / "m.pt", text, batches=4, options=options)
    dreams = [body for event, body in told if event == "dream"]
    assert len(dreams) == learner.counts.dreams == 2
    assert all(0 <= body["ratio"] <= 5 / 256 for body in dreams)


def test_a_signal_ends_the_work_between_two_batches_and_a_second_one_at_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_between_batches() as is_stopped:
        assert not is_stopped()
        os.kill(os.getpid(), signal.SIGTERM)
        assert is_stopped()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_cannot_be_read_or_gone_on_with_is_said(tmp_path: Path, text: str) -> None:
    passed(tmp_path / "m.pt", text, batches=1)
    with pytest.raises(UsageError, match="not made with bands 2"):
        made_learner(tmp_path / "m.pt", {"bands": 2}, decimation=None)
    with pytest.raises(UsageError, match=r"ends in \.pt"):
        made_learner(tmp_path / "m.txt", {}, decimation=None)
    for sources, error, what in (
        ([], UsageError, "no corpus"),
        ([str(tmp_path / "none")], UsageError, "no such file"),
        ([text, "-"], UsageError, "read alone"),
        ([str(tmp_path), text], UsageError, "read alone"),
        ([str(tmp_path)], StoreError, None),
    ):
        with pytest.raises(error, match=what), open_corpus(sources):
            pass


def test_state_perception_and_a_users_words_in_a_chat(tmp_path: Path, tokenizer: SomaTokenizer) -> None:
    """What the user says is learned; what soma says, in chats and dreams, changes no weight and stays in the traces."""
    learner = made_learner(
        tmp_path / "m.pt", {"bands": 2, "depth": 1}, decimation=0.0
    )  # one band holds one token
    weights = [value.clone() for value in learner.network.parameters()]

    def changed() -> bool:
        return any(not torch.equal(*pair) for pair in zip(weights, learner.network.parameters(), strict=True))

    for say in (reply, dream):
        traces = learner.bank.traces.clone()
        pieces = say(learner, tokenizer, 6, seed=1, temperature=1.0)
        next(pieces)
        pieces.close()  # stopped between two tokens
        assert not changed() and not torch.equal(traces, learner.bank.traces)
    report = hear(learner, tokenizer, "good morning ")
    assert report.source_bytes == len(" good morning")
    assert changed()
