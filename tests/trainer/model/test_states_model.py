"""Whose states a run reads: refused where they mean nothing, compared with its checkpoints, and marked in its results."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.errors import CheckpointError, ConfigError
from inkplex_data.loader import make_loader
from inkplex_data.store.reader import open_store
from inkplex_data.trainer.model.speech_model import store_identity
from inkplex_data.trainer.run.loop import RunOptions, train
from inkplex_data.trainer.run.run_files import load_trained
from tests.memory.identified import engine
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import WIDTH, make_task_store

OPTIONS = RunOptions(device="cpu", workers=0, allow_untrained_codec=True, tensorboard=False)
TRAINED = engine(WIDTH)
UNTRAINED = engine(WIDTH, model="small:0", untrained=True)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Stores with states of a trained model, of an untrained one, and of one that nothing says."""
    root = tmp_path_factory.mktemp("states")
    said = {"trained": TRAINED, "untrained": UNTRAINED, "before": None}
    return {
        name: make_task_store(root / name, train=2, validation=2, states=one) for name, one in said.items()
    }


def test_states_of_an_untrained_model_need_the_leave_of_an_untrained_codec(stores: dict[str, Path]) -> None:
    with open_store(stores["untrained"]) as store:
        store.description["codec"]["untrained"] = False
        with pytest.raises(ConfigError, match=r"untrained model small:0.*\n.*--allow-untrained-codec"):
            store_identity(store, split="train")
        assert store_identity(store, split="train", memory=False).model_states is None
        found = store_identity(store, split="train", allow_untrained_codec=True)
    assert found.model_states == UNTRAINED.described()
    assert found.flags() == {"untrained_codec": False, "untrained_states": True, "unidentified_states": False}
    assert "small:0" in found.marks()[0]


def test_stores_of_two_models_are_not_read_together(stores: dict[str, Path]) -> None:
    both = [stores["trained"], stores["untrained"]]
    with pytest.raises(ConfigError, match="two reasoning models") as refused:
        make_loader(both, "train", seed=0, workers=0)
    assert "model 'made/engine' and 'small:0'" in str(refused.value)
    for several, memory in ((both, "none"), ([stores["trained"], stores["before"]], "own")):
        with make_loader(several, "train", seed=0, workers=0, memory=memory) as loader:  # type: ignore[arg-type]
            assert loader.samples == 4


def test_a_checkpoint_keeps_the_mark_and_refuses_states_of_another_model(
    stores: dict[str, Path], tmp_path: Path
) -> None:
    train(small_recipe(data__passes=1), stores["untrained"], tmp_path / "run", OPTIONS)
    with open_store(stores["untrained"]) as store:
        trained = load_trained(tmp_path / "run", store, split="validation")
    assert trained.checkpoint.compatibility["model_states"] == UNTRAINED.described()
    assert trained.provenance()["untrained_states"] is True
    with open_store(stores["trained"]) as store, pytest.raises(CheckpointError, match="model_states"):
        load_trained(tmp_path / "run", store, split="validation")
