"""Checkpoints: whole or not at all, verified, compatible, and with the words of people kept."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from inkplex_data.checkpoint_sidecar import check_compatibility, meta_path
from inkplex_data.errors import CheckpointError
from inkplex_data.store.files import LocalFiles
from inkplex_data.trainer.memory.connector import ConnectedLM, MemoryReaders
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.model.speech_model import SpeechModel, StoreIdentity
from inkplex_data.trainer.run import checkpoint as checkpoint_module
from inkplex_data.trainer.run.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from inkplex_data.trainer.run.objective import voice_and_text_loss
from inkplex_data.trainer.run.optimiser import OptimizerConfig, make_optimizer
from inkplex_data.trainer.run.run_state import (
    CheckpointFolder,
    capture,
    compatibility,
    restore,
    restore_module,
)
from tests.trainer.conftest import random_codes, random_memory, small_config

FIELDS = {"model": "m", "tokenizer_sha256": "abc", "widths": [3, 4]}


def example(value: float = 1.0) -> Checkpoint:
    return Checkpoint({"model.w": torch.full((3, 4), value), "model.b": torch.arange(5)}, dict(FIELDS))


def test_a_round_trip_keeps_everything_and_numbers_its_revisions(tmp_path: Path) -> None:
    path, saved = tmp_path / "run" / "a.safetensors", example()
    saved.cursor = {"epoch": 1, "samples_consumed": 12, "store": "digest"}
    saved.progress = {"update": 7, "loss": 0.1 + 0.2}
    first = save_checkpoint(path, saved)
    second = save_checkpoint(path, saved)
    assert first != second
    assert (saved.revision_id, saved.parent) == (second, first)
    loaded = load_checkpoint(path)
    assert loaded.checkpoint_id == saved.checkpoint_id
    assert (loaded.revision_id, loaded.parent) == (second, first)
    assert (loaded.cursor, loaded.progress) == (saved.cursor, saved.progress)
    assert all(torch.equal(loaded.tensors[name], saved.tensors[name]) for name in saved.tensors)
    assert list(load_checkpoint(path, only="model.b").tensors) == ["model.b"]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["a.meta.json", "a.safetensors"]
    meta = json.loads(meta_path(path).read_text())
    assert meta["checkpoint_id"] == saved.checkpoint_id
    assert meta["revision_id"] == second
    assert meta["compatibility"] == FIELDS
    assert meta["profile"] == {"name": "", "tagline": "", "art": "", "about": ""}


def test_what_people_write_survives_saves(tmp_path: Path) -> None:
    folder, saved = CheckpointFolder(tmp_path), example()
    first = folder.save(5, saved)
    meta = json.loads(meta_path(first).read_text())
    meta["profile"] |= {"name": "my run", "mood": ["ünïcode", 1]}
    meta["compatibility"] = {"model": "edited by hand"}
    meta_path(first).write_text(json.dumps(meta))
    save_checkpoint(first, saved)
    later = folder.save(10, saved)
    for path in (first, later):
        after = json.loads(meta_path(path).read_text())
        assert after["profile"]["name"] == "my run"
        assert after["profile"]["mood"] == ["ünïcode", 1]
        assert after["compatibility"] == FIELDS
    assert load_checkpoint(later).profile["name"] == "my run"
    meta_path(later).unlink()
    assert folder.load_latest()[1].profile["name"] == "my run"


def test_a_broken_sidecar_is_set_aside_not_lost(tmp_path: Path) -> None:
    path, saved = tmp_path / "a.safetensors", example()
    save_checkpoint(path, saved)
    meta_path(path).write_text('{"profile": {"name": "half a')
    assert load_checkpoint(path).profile["name"] == ""
    assert meta_path(path).read_text().endswith("half a")
    save_checkpoint(path, saved)
    assert (tmp_path / "a.meta.json.unreadable").read_text().endswith("half a")
    assert json.loads(meta_path(path).read_text())["revision_id"] == saved.revision_id


def test_fields_that_differ_are_all_named(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, example())
    saved = load_checkpoint(path).compatibility
    with pytest.raises(CheckpointError) as caught:
        check_compatibility(saved, {**FIELDS, "tokenizer_sha256": "xyz", "codec": "mimi"})
    assert 'tokenizer_sha256: the checkpoint has "abc", this run has "xyz"' in str(caught.value)
    assert 'codec: the checkpoint has null, this run has "mimi"' in str(caught.value)
    assert "widths" not in str(caught.value)
    check_compatibility(saved, {"widths": (3, 4)})


def test_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, example())
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for at in (header + 3, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CheckpointError, match="not those that were saved"):
            load_checkpoint(path)
    at = whole.index(b"tokenizer_sha256") + 22
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(CheckpointError, match="header is not the one"):
        load_checkpoint(path)
    for size in (0, 5, header - 1, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match="cannot be read"):
            load_checkpoint(path)
    save_file({"w": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="not a checkpoint of this trainer"):
        load_checkpoint(path)
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        load_checkpoint(tmp_path / "b.safetensors")
    with pytest.raises(CheckpointError, match=r"ends in \.safetensors"):
        save_checkpoint(tmp_path / "b.pt", example())
    unsaid = example()
    unsaid.progress["loss"] = float("nan")
    with pytest.raises(CheckpointError, match="not JSON"):
        save_checkpoint(tmp_path / "b.safetensors", unsaid)
    assert not (tmp_path / "b.safetensors").exists()


def save_and_die(folder: CheckpointFolder, update: int, moment: str) -> int:
    """In a child process: go on from the latest checkpoint, save, and be killed at `moment`. Its wait status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:

        def die(*_: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        def write_half(tensors: object, path: Path, metadata: object) -> None:
            path.write_bytes(b"half")
            die()

        if moment == "during":
            checkpoint_module.save_file = write_half
        elif moment == "before":
            LocalFiles.put = die
        else:
            checkpoint_module.write_sidecar = die
        _, checkpoint = folder.load_latest()
        checkpoint.tensors["model.w"] += 1
        checkpoint.cursor["samples_consumed"] += 1
        folder.save(update, checkpoint)
    finally:
        os._exit(1)


@pytest.mark.parametrize("update", [5, 6])
@pytest.mark.parametrize("moment", ["during", "before", "between"])
def test_a_kill_during_a_save_leaves_a_whole_checkpoint(tmp_path: Path, moment: str, update: int) -> None:
    """Tensors and cursor belong together, whichever file is found; the next save clears what was left."""
    folder, saved = CheckpointFolder(tmp_path), example(1.0)
    saved.cursor = {"samples_consumed": 1}
    saved.profile["name"] = "kept"
    folder.save(5, saved)
    status = save_and_die(folder, update, moment)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    found, checkpoint = folder.load_latest()
    published = moment == "between"
    assert found == (update if published else 5)
    assert checkpoint.cursor["samples_consumed"] == (2 if published else 1)
    assert (checkpoint.tensors["model.w"] == checkpoint.cursor["samples_consumed"]).all()
    assert checkpoint.checkpoint_id == saved.checkpoint_id
    assert checkpoint.profile["name"] == "kept"
    folder.save(7, checkpoint)
    assert not list(tmp_path.glob(".tmp-*.safetensors"))
    assert folder.load_latest()[0] == 7


def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = CheckpointFolder(tmp_path)
    assert folder.load_latest() is None
    for update in (1, 2, 3):
        folder.save(update, example(update))
    folder.path(3).write_bytes(folder.path(3).read_bytes()[:-4])
    update, checkpoint = folder.load_latest()
    assert update == 2
    assert (checkpoint.tensors["model.w"] == 2).all()
    assert "passing over a checkpoint" in caplog.text
    for damaged in (1, 2):
        folder.path(damaged).write_bytes(b"")
    with pytest.raises(CheckpointError, match="none of its 3 checkpoints can be read"):
        folder.load_latest()


def test_pruning_keeps_the_newest_and_the_spared(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for update in (1, 2, 3, 10, 1_000_000):
        folder.save(update, example())
    folder.prune(2, spare=(2,))
    assert folder.updates() == [2, 10, 1_000_000]
    assert len(list(tmp_path.iterdir())) == 6
    # A run that stands at update 2 has passed over what comes later: it is no newer checkpoint of it.
    folder.save(1, example())
    folder.prune(1, upto=2)
    assert folder.updates() == [2, 10, 1_000_000]
    folder.prune(0)
    assert folder.updates() == []


class Run:
    """A small training run whose calls follow from their index alone."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        lm = PersonaPlexLM.seeded(small_config(), 0).freeze()
        self.model = ConnectedLM(lm, MemoryReaders(lm.config, state_width=12, slot_width=16))
        self.options = OptimizerConfig(max_learning_rate=1e-2)
        self.optimizer, self.schedule = make_optimizer(
            {"memory": self.model.parameters()}, self.options, updates=6
        )
        self.done = 0

    def update(self) -> float:
        codes, roles = random_codes(small_config(), 12, seed=self.done), torch.full((1, 12), 2)
        out, _ = self.model(codes, random_memory(steps=12, seed=self.done))
        loss = voice_and_text_loss(out.text_logits, out.logits, codes, roles, torch.tensor([12])).loss()
        # A draw, so that the random state matters as it would with dropout.
        loss = loss * (1 + torch.rand(()))
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip_norm)
        self.optimizer.step()
        self.schedule.step()
        self.done += 1
        return float(loss.detach())

    def checkpoint(self) -> Checkpoint:
        tensors, values = capture(self.model, self.optimizer, self.schedule)
        speech = SpeechModel(self.model.lm, "seeded:0", untrained=True)
        store = StoreIdentity("c" * 64, "untrained:0", True, "t" * 64, text_pieces=40, state_width=4)
        fields = compatibility(speech, store, self.model.memory)
        return Checkpoint(tensors, fields, cursor={"samples_consumed": self.done}, progress=values)


def test_resumed_losses_equal_uninterrupted_ones_bit_for_bit(tmp_path: Path) -> None:
    whole, folder = Run(), CheckpointFolder(tmp_path)
    torch.manual_seed(9)
    expected = [whole.update() for _ in range(6)]
    first = Run()
    torch.manual_seed(9)
    got = [first.update() for _ in range(3)]
    folder.save(3, first.checkpoint())
    torch.manual_seed(77)
    second = Run()
    _, checkpoint = folder.load_latest()
    restore(checkpoint, second.model, second.optimizer, second.schedule)
    second.done = checkpoint.cursor["samples_consumed"]
    got += [second.update() for _ in range(3)]
    assert got == expected
    for ours, theirs in zip(second.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_only_what_trains_is_saved_and_misfits_are_refused(tmp_path: Path) -> None:
    run = Run()
    run.update()
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, run.checkpoint())
    names = load_file(path)
    assert not [name for name in names if ".lm." in name]
    trained = len(list(run.model.memory.parameters()))
    assert len([name for name in names if name.startswith("model.")]) == trained
    assert len([name for name in names if name.startswith("optimizer.")]) == 3 * trained
    loaded = load_checkpoint(path, only="model.")
    fresh = Run()
    restore_module(loaded, fresh.model)
    assert torch.equal(fresh.model.memory.writer.hidden.weight, run.model.memory.writer.hidden.weight)
    loaded.tensors["model.extra"] = loaded.tensors.pop("model.memory.writer.text.bias")
    loaded.tensors["model.memory.writer.kind.weight"] = torch.zeros(2, 2)
    with pytest.raises(CheckpointError) as caught:
        restore_module(loaded, fresh.model)
    for part in ("missing memory.writer.text.bias", "unexpected extra", "kind.weight is [2, 2]"):
        assert part in str(caught.value)
