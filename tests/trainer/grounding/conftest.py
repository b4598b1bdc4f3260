"""A store with twins and a model whose memory shows at once, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from inkplex_data.speech.codec import load_codec
from inkplex_data.store.reader import Store, open_store
from inkplex_data.trainer.evaluate.generate import Generator
from inkplex_data.trainer.evaluate.replay import ReplayOptions
from inkplex_data.trainer.grounding.ground import Grounding, ground
from inkplex_data.trainer.grounding.runs import CaseRunner
from inkplex_data.trainer.run.loop import train
from inkplex_data.trainer.run.run_files import load_trained
from inkplex_data.trainer.run.run_options import RunOptions
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import add_twins, make_task_store

DELAY_US = 400_000


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `store` and the `run` of one update on it."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("grounding")
    make_task_store(
        folder / "store", train=3, validation=2, codec_sha256=load_codec("untrained:0").identity.sha256
    )
    add_twins(folder / "store", 2, 10)
    options = RunOptions(device="cpu", workers=0, allow_untrained_codec=True, tensorboard=False)
    train(small_recipe(data__passes=1), folder / "store", folder / "run", options)
    return folder


@pytest.fixture(scope="session")
def store(made: Path) -> Iterator[Store]:
    with open_store(made / "store") as opened:
        yield opened


@pytest.fixture(scope="session")
def runner(made: Path, store: Store) -> CaseRunner:
    trained = load_trained(made / "run", store, split="validation")
    assert trained.model.memory is not None
    for reader in trained.model.memory.readers:  # so that a difference of memory shows at once
        reader.output.weight.data.normal_(std=4.0)
    return CaseRunner(Generator(trained, store, load_codec("untrained:0"), ReplayOptions(seconds=1.6)))


@pytest.fixture(scope="session")
def grounding(runner: CaseRunner) -> Grounding:
    calls = ["call-003", "call-010", "call-004", "call-011"]
    return ground(runner.generator, calls=calls, limit=3, delay_us=DELAY_US, resamples=50)
