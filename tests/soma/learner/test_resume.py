"""A training that is killed outright goes on as if it had never been: each source byte is learned once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from inkplex_data.soma.app.corpora import open_corpus
from inkplex_data.soma.app.train_run import PassSummary, TrainOptions, train_pass
from inkplex_data.soma.learner.learner import Learner
from inkplex_data.soma.learner.soma_checkpoint import load_learner
from inkplex_data.soma.learner.soma_config import SomaConfig
from inkplex_data.soma.tokens.soma_tokenizer import SHA256, SomaTokenizer
from tests.soma.learner.conftest import same, weights_of

EVERY_BATCH = TrainOptions(save_every_s=0, tell_every_s=0)
Told = list[tuple[str, dict[str, Any]]]


def train(model: Path, book: Path, tell: Callable[[str, dict[str, Any]], None]) -> PassSummary:
    config = SomaConfig(bands=1, depth=1, batch=32)
    learner = load_learner(model) if model.exists() else Learner.fresh(config, SHA256)
    with open_corpus([str(book)]) as corpus:
        return train_pass(learner, model, corpus, SomaTokenizer.load(), EVERY_BATCH, tell=tell)


def figures(told: Told) -> list[dict[str, Any]]:
    """What does not depend on the clock."""
    timed = {"seconds", "bytes_per_s"}
    return [{k: v for k, v in body.items() if k not in timed} for name, body in told if name == "figures"]


@pytest.mark.parametrize("batches", [2])
def test_each_source_byte_is_learned_once_although_training_is_killed(tmp_path: Path, batches: int) -> None:
    """Killed when a further batch is learned and not yet saved."""
    book, model, undisturbed = tmp_path / "book.txt", tmp_path / "model.pt", tmp_path / "undisturbed.pt"
    book.write_text("".join(f"The {n}th line – of a book, naïve and ünïcode.\n" for n in range(8)))
    child = os.fork()
    if not child:
        try:
            told_there: Told = []

            def die_after(name: str, body: dict[str, Any]) -> None:
                told_there.append((name, body))
                if len(figures(told_there)) > batches:
                    os.kill(os.getpid(), signal.SIGKILL)

            train(model, book, die_after)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    reached = load_learner(model)
    assert reached.counts.updates == batches
    assert reached.counts.source_bytes < book.stat().st_size

    told: Told = []
    whole: Told = []
    summary = train(model, book, lambda *event: told.append(event))
    train(undisturbed, book, lambda *event: whole.append(event))
    assert summary.is_done
    assert figures(told) == figures(whole)[batches:]
    resumed, other = load_learner(model), load_learner(undisturbed)
    assert resumed.counts == other.counts
    assert resumed.counts.source_bytes == summary.cursor.source_bytes == book.stat().st_size
    assert same(weights_of(resumed), weights_of(other))
    assert torch.equal(resumed.bank.traces, other.bank.traces)
