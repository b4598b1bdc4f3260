"""soma's checkpoints: exact, atomic, readable by people, plain values alone, and refused where they do not fit."""

from __future__ import annotations

import json
import logging
import os
import signal
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inkplex_data.errors import CheckpointError
from inkplex_data.soma.learner import soma_checkpoint
from inkplex_data.soma.learner.learner import Learner
from inkplex_data.soma.learner.plasticity import INTERVAL
from inkplex_data.soma.learner.soma_checkpoint import load_learner, save_learner
from inkplex_data.soma.learner.soma_config import SomaConfig
from inkplex_data.soma.tokens.soma_tokenizer import SHA256, TURN
from tests.soma.learner.conftest import batch_of, same, weights_of

TEXT = np.arange(700, 716)


def grown(learner: Learner, batches: int = 3) -> Learner:
    for number in range(batches):
        learner.learn(batch_of(TEXT + 3 * number))
    return learner


def test_exact_save_and_load_of_logits_and_metadata(learner: Learner, tmp_path: Path) -> None:
    """The loaded model goes on as the saved one does, across an interval of the compressor, to the last bit."""
    path = tmp_path / "models" / "a.pt"
    grown(learner).compressor.updates = INTERVAL - 2
    learner.description, learner.cursors = "a test", {"book.txt": {"document": 0, "offset": 7}}
    revision = save_learner(learner, path)
    loaded = load_learner(path)
    assert same(weights_of(learner), weights_of(loaded))
    assert np.array_equal(learner.score(batch_of(TEXT)), loaded.score(batch_of(TEXT)))
    assert torch.equal(learner.bank.traces, loaded.bank.traces)
    for _ in range(4):
        assert learner.learn(batch_of(TEXT)) == loaded.learn(batch_of(TEXT))
    assert same(weights_of(learner), weights_of(loaded))
    assert torch.equal(learner.errors.traces, loaded.errors.traces)
    assert list(learner.generate(5, seed=2)) == list(loaded.generate(5, seed=2))
    assert (loaded.config.bands, loaded.config.width, loaded.config.batch) == (2, 512, 16)
    assert (loaded.checkpoint_id, loaded.revision_id) == (learner.checkpoint_id, revision)
    assert (loaded.description, loaded.cursors, loaded.counts) == ("a test", learner.cursors, learner.counts)
    assert [line["tokens"] for line in loaded.history] == [48]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["a.meta.json", "a.pt"]


def test_the_sidecar_has_every_field_and_keeps_what_people_wrote(learner: Learner, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    first = save_learner(learner, path)
    sidecar = tmp_path / "a.meta.json"
    meta = json.loads(sidecar.read_text())
    wanted = {
        "species": "soma_v12_3_token_residual",
        "runtime_version": "v12.3.17",
        "checkpoint_id": learner.checkpoint_id,
        "revision_id": first,
        "tokenizer_name": "soma-8k-v1",
        "tokenizer_sha256": SHA256,
        "vocab_size": 8192,
        "token_dim": 256,
        "n_bands": 2,
        "hidden_dim": 512,
        "depth": 2,
        "base": 2.0,
    }
    assert {name: meta[name] for name in wanted} == wanted
    assert set(meta["profile"]) == {"name", "tagline", "art", "about"}
    meta["profile"]["name"], meta["tokens"] = "mine", "not the machine's"
    sidecar.write_text(json.dumps(meta))
    learner.learn(batch_of(TEXT))
    second = save_learner(learner, path)
    after = json.loads(sidecar.read_text())
    assert (after["profile"]["name"], after["tokens"]) == ("mine", 16)
    assert (after["checkpoint_id"], after["revision_id"], after["parent"]) == (
        learner.checkpoint_id,
        second,
        first,
    )
    assert load_learner(path).profile["name"] == "mine"


def test_places_in_corpora_are_those_of_this_file_name(learner: Learner, tmp_path: Path) -> None:
    learner.cursors = {"book.txt": {"offset": 7}}
    save_learner(learner, tmp_path / "a.pt")
    (tmp_path / "a.pt").rename(tmp_path / "copy.pt")
    assert load_learner(tmp_path / "copy.pt").cursors == {}


def test_a_non_square_width_loads(tmp_path: Path) -> None:
    learner = Learner.fresh(SomaConfig(bands=2, depth=2, hidden=96), SHA256)
    save_learner(learner, tmp_path / "a.pt")
    assert load_learner(tmp_path / "a.pt").network.input.weight.shape == (96, 512)


Change = Callable[[dict[str, Any]], object]


def changed(learner: Learner, path: Path, change: Change) -> None:
    """Save, and write the file again with a change that its checksums know of."""
    save_learner(learner, path)
    body = torch.load(path, weights_only=True)
    change(body)
    body["crc32c"] = {
        name: soma_checkpoint.tensor_checksum(value) for name, value in soma_checkpoint._tensors(body)
    }
    torch.save(body, path)


def test_older_checkpoints_of_the_species_load(learner: Learner, tmp_path: Path) -> None:
    """Scalar error traces begin anew, and the gain's old name is read; weights and token traces are kept."""

    def old(body: dict[str, Any]) -> None:
        del body["decimation_gain"]
        body["decimation_range"] = 3.0
        body["error_traces"] = torch.ones(2, dtype=torch.float64)

    changed(grown(learner), tmp_path / "a.pt", old)
    loaded = load_learner(tmp_path / "a.pt")
    assert loaded.config.decimation == 3
    assert float(loaded.errors.traces.abs().sum()) == 0
    assert torch.equal(loaded.bank.traces, learner.bank.traces)
    assert same(weights_of(loaded), weights_of(learner))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda body: body.update(species="soma_v12_2_byte"), "species"),
        (lambda body: body.update(tokenizer_sha256="0" * 64), "tokenizer_sha256"),
        (lambda body: body.update(vocab_size=4096), "vocab_size"),
        (lambda body: body.update(n_bands=32), "input.weight"),
        (lambda body: body.update(hidden_dim=10**12), "hidden"),
        (lambda body: body.update(depth=3), "residual"),
        (lambda body: body.pop("token_traces"), "token_traces"),
        (lambda body: body.update(token_traces=torch.zeros(3)), "8192"),
        (lambda body: body["optimizer"]["state"][0].update(exp_avg=torch.zeros(1)), "8192"),
        (lambda body: body.update(counts={}), "source_bytes"),
        (lambda body: body["network"].update(token_bias=torch.zeros(1).expand(8192)), "token_bias"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    learner: Learner, tmp_path: Path, change: Change, said: str
) -> None:
    changed(grown(learner, 1), tmp_path / "a.pt", change)
    with pytest.raises(CheckpointError, match=said) as caught:
        load_learner(tmp_path / "a.pt")
    assert caught.value.where == str(tmp_path / "a.pt")
    assert caught.value.next_step


def test_a_flipped_bit_is_found(learner: Learner, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_learner(learner, path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"not those that were saved|damaged"):
        load_learner(path)


class Evil:
    def __reduce__(self) -> object:
        return os.system, ("touch /tmp/soma-was-here",)


def test_code_a_part_of_a_file_and_a_bomb_are_refused(learner: Learner, tmp_path: Path) -> None:
    evil, part, bomb = (tmp_path / f"{name}.pt" for name in ("evil", "part", "bomb"))
    torch.save({"species": Evil()}, evil)
    save_learner(learner, part)
    with zipfile.ZipFile(part) as whole, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in whole.infolist():
            packed.writestr(entry.filename, whole.read(entry))
    part.write_bytes(part.read_bytes()[:-1000])
    for path in (evil, part, bomb):
        with pytest.raises(CheckpointError, match="damaged, or holds something else"):
            load_learner(path)
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        load_learner(tmp_path / "none.pt")
    with pytest.raises(CheckpointError, match=r"ends in \.pt"):
        save_learner(learner, tmp_path / "a.safetensors")


@pytest.mark.parametrize("moment", ["write", "sidecar"])
def test_a_kill_during_a_save_leaves_weights_and_place_together(
    learner: Learner, tmp_path: Path, moment: str
) -> None:
    path = tmp_path / "a.pt"
    learner.cursors = {"book": {"offset": 1}}
    save_learner(learner, path)
    child = os.fork()
    if not child:
        try:

            def die(*_: object, **__: object) -> None:
                os.kill(os.getpid(), signal.SIGKILL)

            name = "replacing" if moment == "write" else "write_sidecar"
            setattr(soma_checkpoint, name, die)
            learner.perceive([TURN])
            learner.cursors = {"book": {"offset": 2}}
            save_learner(learner, path)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    found = load_learner(path)
    saved = moment == "sidecar"
    assert found.cursors == {"book": {"offset": 2 if saved else 1}}
    assert float(found.bank.traces[TURN].sum()) == (1.5 if saved else 0)


def test_a_sidecar_that_is_no_json_is_set_aside(
    learner: Learner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.pt"
    save_learner(learner, path)
    (tmp_path / "a.meta.json").write_text('{"profile": {"name": "mine",}')
    with caplog.at_level(logging.WARNING):
        save_learner(learner, path)
    assert (tmp_path / "a.meta.json.unreadable").exists()
    assert json.loads((tmp_path / "a.meta.json").read_text())["profile"]["name"] == ""
