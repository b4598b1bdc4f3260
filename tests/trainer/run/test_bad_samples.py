"""Samples that cannot be used: named, left out within what the recipe allows, recorded, and no trace of them in losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inkplex_data.errors import UsageError
from inkplex_data.trainer.run import update
from inkplex_data.trainer.run.bad_samples import BadSampleError, is_out_of_memory
from inkplex_data.trainer.run.checkpoint import load_checkpoint
from inkplex_data.trainer.run.loop import train
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import bad_task_store
from tests.trainer.run.test_loop import Notes, options, rows

NOT_FINITE, DAMAGED, TOO_LARGE = "call-022", "call-020", "call-005"


@pytest.fixture(scope="module")
def bad_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bad_task_store(tmp_path_factory.mktemp("bad") / "store")


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that has no memory for one of the calls, as torch says it."""
    real = update.teacher_forced

    def forward(model: Any, batch: Any, *rest: Any, **more: Any) -> Any:
        if batch.call_id == TOO_LARGE:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return real(model, batch, *rest, **more)

    monkeypatch.setattr(update, "teacher_forced", forward)


@pytest.mark.usefixtures("little_memory")
def test_a_run_ends_without_three_samples_and_names_them(bad_store: Path, tmp_path: Path) -> None:
    """Damage, a loss that is no number, and no memory: the losses are those of a run that excludes the calls."""
    notes: list[str] = []
    allowed = small_recipe(data__bad_calls=3)
    whole = train(allowed, bad_store, tmp_path / "run", options(), reporter=Notes(notes))
    assert whole.update == whole.updates == 8
    said = {note.split("'")[1]: note for note in notes if note.startswith("left out from update")}
    assert said.keys() == {NOT_FINITE, DAMAGED, TOO_LARGE}
    assert "frames 0 to 18, on rank 0: its loss is nan" in said[NOT_FINITE]
    assert "damaged: " in said[DAMAGED] and "checksum" in said[DAMAGED]
    assert "needs more memory than there is" in said[TOO_LARGE]
    record = load_checkpoint(whole.checkpoint).progress["left_out"]
    assert {row["call_id"]: row["window"] for row in record} == {call: [0, 18] for call in said}
    excluded = small_recipe(data__exclude=(NOT_FINITE, DAMAGED, TOO_LARGE))
    other = train(excluded, bad_store, tmp_path / "other", options())
    assert rows(whole.run) == rows(other.run)
    assert sum(row["calls"] for row in rows(whole.run)) == 2 * 7
    # What was left out stays so: a run that was broken off allows, and meets, none of them again.
    for path in (whole.run / "checkpoints").glob("update-000008*"):
        path.unlink()
    again = train(small_recipe(), bad_store, whole.run, options(resume=True))
    assert rows(again.run) == rows(other.run)


def test_beyond_what_is_allowed_the_state_is_saved(bad_store: Path, tmp_path: Path) -> None:
    recipe = small_recipe(data__bad_calls=1, checkpoints={"every_updates": 100}, data__calls_per_update=1)
    with pytest.raises(BadSampleError, match=r"data\.bad_calls allows 1 call to be left out") as caught:
        train(recipe, bad_store, tmp_path / "run", options())
    (saved,) = (tmp_path / "run" / "checkpoints").glob("*.safetensors")
    made = load_checkpoint(saved)
    assert made.progress["update"] == len(rows(tmp_path / "run")) and len(made.progress["left_out"]) == 1
    (named,) = {NOT_FINITE, DAMAGED} - {made.progress["left_out"][0]["call_id"]}
    assert f"--set data.exclude=[{named}]" in str(caught.value)
    # And so it goes on, with the losses of a run that knew of both.
    going_on = small_recipe(data={"passes": 2, "calls_per_update": 1, "bad_calls": 1, "exclude": (named,)})
    resumed = train(going_on, bad_store, tmp_path / "run", options(resume=True))
    knowing = small_recipe(
        data={"passes": 2, "calls_per_update": 1, "exclude": (NOT_FINITE, DAMAGED)},
    )
    assert rows(resumed.run) == rows(train(knowing, bad_store, tmp_path / "knowing", options()).run)
    # An update whose only call was left out moves nothing.
    assert {row["gradient_norm"] for row in rows(resumed.run) if row["calls"] == 0} == {0}


def test_windows_that_do_not_fit_together_are_tried_alone(bad_store: Path, tmp_path: Path) -> None:
    """A call that has no room beside others is tried again, every call alone, and then nothing is left out."""
    recipe = small_recipe(
        trains="lora",
        data={"passes": 2, "calls_per_update": 5, "forward_frames": 200},
        lora={"temporal_rank": 2},
    )
    real = update.teacher_forced_together
    tried: list[list[str]] = []

    def together(model: Any, batches: Any, *rest: Any, **more: Any) -> Any:
        tried.append([batch.call_id for batch in batches])
        if TOO_LARGE in tried[-1]:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"
            )
        return real(model, batches, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(update, "teacher_forced_together", together)
        summary = train(recipe, bad_store, tmp_path / "run", options())
    # Alone it fits, so nothing was left out.
    assert load_checkpoint(summary.checkpoint).progress["left_out"] == []
    assert sum(TOO_LARGE in calls for calls in tried) == 2
    assert sum(row["calls"] for row in rows(summary.run)) == 2 * 10


def test_a_call_to_exclude_must_be_there(bad_store: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="calls to be left out are not in the store: call-999"):
        train(small_recipe(data__exclude=("call-999",)), bad_store, tmp_path / "run", options())


def test_what_counts_as_no_memory() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    with pytest.raises(MemoryError) as other:
        np.empty(2**60, np.uint8)
    assert is_out_of_memory(other.value)
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
