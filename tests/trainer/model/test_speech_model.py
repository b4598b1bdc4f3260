"""The frozen model of a run: seeded or from safetensors, and the stores that fit it."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.store.reader import open_store
from inkplex_data.trainer.model.speech_model import (
    fingerprint,
    make_readers,
    open_speech_model,
    store_identity,
)
from inkplex_data.trainer.run.loop import RunOptions, train
from inkplex_data.trainer.run.run_files import find_checkpoint, load_trained
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import PIECES, WIDTH, make_task_store

OPTIONS = RunOptions(device="cpu", workers=0, allow_untrained_codec=True, tensorboard=False)


@pytest.fixture(scope="module")
def task_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_task_store(tmp_path_factory.mktemp("lm") / "store", train=2, validation=2)


@pytest.fixture(scope="module")
def weights(task_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The seeded model of the small recipe as a folder of released names."""
    folder = tmp_path_factory.mktemp("weights")
    with open_store(task_store) as store:
        identity = store_identity(store, split="train", allow_untrained_codec=True)
    lm = open_speech_model(small_recipe().model, identity).lm
    save_file(
        {name: value.contiguous() for name, value in lm.state_dict().items()}, folder / "model.safetensors"
    )
    return folder


def test_a_store_says_what_a_run_depends_on(task_store: Path) -> None:
    with open_store(task_store) as store:
        found = store_identity(store, split="train", allow_untrained_codec=True)
        assert (found.codec, found.tokenizer_sha256) == ("c0dec", "70c")
        assert (found.text_pieces, found.state_width, found.codec_untrained) == (PIECES, WIDTH, True)
        with pytest.raises(ConfigError, match="no call of split 'test'"):
            store_identity(store, split="test", allow_untrained_codec=True)


def test_an_unfinished_build_is_refused(task_store: Path, tmp_path: Path) -> None:
    make_task_store(tmp_path / "store", train=1, validation=1)
    shutil.rmtree(tmp_path / "store" / "snapshots")
    (tmp_path / "store" / "newest.json").unlink()
    with open_store(tmp_path / "store") as store, pytest.raises(UsageError, match="has not finished"):
        store_identity(store, split="train", allow_untrained_codec=True)


def test_weights_from_a_file_train_like_the_same_weights_from_a_seed(
    task_store: Path, weights: Path, tmp_path: Path
) -> None:
    one = train(small_recipe(data__passes=1), task_store, tmp_path / "seeded", OPTIONS)
    other = train(
        small_recipe(data__passes=1, model__weights=str(weights)), task_store, tmp_path / "file", OPTIONS
    )
    losses = [json.loads((run.run / "metrics.jsonl").read_text())["loss"] for run in (one, other)]
    assert losses[0] == losses[1]
    with open_store(task_store) as store:
        trained = load_trained(tmp_path / "file", store, split="validation")
        assert trained.speech.identity.startswith("safetensors:") and not trained.speech.untrained
        assert trained.update == 1 and trained.run == tmp_path / "file"
        moved = load_trained(
            tmp_path / "file", store, split="validation", weights=str(weights / "model.safetensors")
        )
        assert moved.speech.identity == trained.speech.identity
        with pytest.raises(CheckpointError, match="model: the checkpoint has"):
            load_trained(tmp_path / "file", store, split="validation", weights="seeded:1")


def test_a_fingerprint_follows_every_tensor(weights: Path, tmp_path: Path) -> None:
    first = fingerprint(weights / "model.safetensors")
    tensors = {"a": torch.zeros(5_000), "b": torch.zeros(3)}
    save_file(tensors, tmp_path / "a.safetensors")
    tensors["b"][2] = 1
    save_file(tensors, tmp_path / "b.safetensors")
    save_file({**tensors, "c": torch.zeros(1)}, tmp_path / "c.safetensors")
    prints = {fingerprint(tmp_path / f"{name}.safetensors") for name in "abc"} | {first}
    assert len(prints) == 4
    (tmp_path / "d.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(CheckpointError, match="claims"):
        fingerprint(tmp_path / "d.safetensors")
    for header in (b"[" * 5_000, b'{"a": 1, "a": 2}', b"[]", b'{"a": {"data_offsets": [-9, 1]}}'):
        (tmp_path / "d.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
        with pytest.raises(CheckpointError, match="not a readable safetensors file"):
            fingerprint(tmp_path / "d.safetensors")


def test_the_tokenizer_beside_the_weights_must_be_the_store_s(task_store: Path, weights: Path) -> None:
    with open_store(task_store) as store:
        identity = store_identity(store, split="train", allow_untrained_codec=True)
    recipe = small_recipe(model__weights=str(weights)).model
    beside = weights / "tokenizer_spm_32k_3.model"
    beside.write_bytes(b"a model")
    try:
        with pytest.raises(ConfigError, match="different tokenizer"):
            open_speech_model(recipe, identity)
        fitting = replace(identity, tokenizer_sha256=hashlib.sha256(b"a model").hexdigest())
        assert open_speech_model(recipe, fitting).lm.config.text_card == PIECES
    finally:
        beside.unlink()
    with pytest.raises(ConfigError, match="33000 pieces"):
        open_speech_model(
            small_recipe(model__sizes__text_card=32_000).model, replace(identity, text_pieces=33_000)
        )


def test_first_weights_depend_on_the_seed_alone(task_store: Path) -> None:
    with open_store(task_store) as store:
        identity = store_identity(store, split="train", allow_untrained_codec=True)
    lm = open_speech_model(small_recipe().model, identity).lm
    assert not any(parameter.requires_grad for parameter in lm.parameters())
    made = []
    for seed in (5, 5, 6):
        torch.rand(3)  # the process's own numbers do not matter
        readers = make_readers(small_recipe(seed=seed), lm, state_width=WIDTH)
        made.append(torch.cat([value.detach().flatten() for value in readers.parameters()]))
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])


def test_where_no_checkpoint_is(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        find_checkpoint(tmp_path)
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for update in (3, 12):
        (folder / f"update-{update:06d}.safetensors").touch()
    assert find_checkpoint(tmp_path).name == "update-000012.safetensors"
    (tmp_path / "selected.json").write_text('{"update": 3}')
    assert find_checkpoint(tmp_path).name == "update-000003.safetensors"
    (tmp_path / "selected.json").write_text('{"update": 7}')
    assert find_checkpoint(tmp_path).name == "update-000012.safetensors"
