"""What a batch holds, against the store's own view of the same call."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import fsspec
import numpy as np
import polars as pl
import pytest
import torch

from inkplex_data.clock import FRAME_US, session_us
from inkplex_data.grid import KINDS
from inkplex_data.loader import Batch, make_loader
from inkplex_data.memory.plan import plan_chunks
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.store.reader import Store
from tests.loader.made import WIDTH, WINDOW
from tests.store.made import Made

VERSION_COLUMNS = ("row", "start", "end", "recency", "age", "whole")


def batches(store: Store, split: str = "train", **options: object) -> list[Batch]:
    options = {"seed": 1, "shuffle": False, "workers": 0, **options}
    return [replace(batch) for batch in make_loader(store, split, **options)]  # type: ignore[arg-type]


def version_rows(batch: Batch) -> list[tuple]:
    """Versions of a batch, rows counted from the recording's first token."""
    row, *rest = (getattr(batch, name).tolist() for name in VERSION_COLUMNS)
    return sorted(zip([r + batch.first_token for r in row], *rest, strict=True))


def bits(states: torch.Tensor) -> np.ndarray:
    assert states.dtype == torch.bfloat16
    return states.view(torch.int16).numpy().view(np.uint16)


@pytest.mark.parametrize("workers", [0, 2])
def test_whole_calls_are_what_the_store_composes(store: Store, workers: int) -> None:
    found = batches(store, workers=workers, cut="whole")
    assert len(found) == 7
    for batch in found:
        composed = store.call(batch.call_id).with_prefix()
        assert batch.codes.dtype == torch.int64
        assert np.array_equal(batch.codes[0].numpy(), composed.text)
        assert np.array_equal(batch.codes[1:].numpy(), composed.codes)
        assert np.array_equal(batch.roles.numpy(), composed.role)
        assert np.array_equal(batch.mask.numpy(), composed.mask)
        assert (batch.frames, batch.prefix_frames) == (composed.frames, composed.prefix_frames)
        assert batch.window == (0, composed.call.frames)
        assert batch.split == "train"
        assert batch.family == f"family of {batch.call_id}"
        assert batch.recording_id == composed.call.recording_id
        assert batch.recording_starts_at_us == composed.call.recording_starts_at_us
        if batch.states is not None:
            assert version_rows(batch) == sorted(composed.versions.select(VERSION_COLUMNS).rows())


@pytest.mark.parametrize("cut", ["whole", "fixed", "seeded"])
def test_tokens_are_those_that_the_window_sees(store: Store, made: Made, cut: str) -> None:
    for batch in batches(store, cut=cut, window_frames=40):
        if batch.states is None:
            continue
        recording = batch.recording_id
        assert recording is not None
        seen = slice(batch.first_token, batch.first_token + len(batch.kind))
        assert np.array_equal(bits(batch.states), made.states[recording][seen])
        tokens = made.tokens[recording][seen.start : seen.stop]
        assert [KINDS[kind] for kind in batch.kind.tolist()] == tokens["kind"].to_list()
        offsets, pieces = batch.piece_offsets.tolist(), batch.piece_ids.tolist()
        assert [pieces[a:b] for a, b in pairwise(offsets)] == tokens["piece_ids"].to_list()
        assert offsets[-1] == len(pieces)
        # No token at either end is there without a reason.
        if len(batch.row):
            assert int(batch.row.min()) == 0
            assert int(batch.row.max()) == len(batch.kind) - 1


@pytest.mark.parametrize("cut", ["fixed", "seeded"])
def test_each_step_of_a_window_reads_its_own_session_time(store: Store, made: Made, cut: str) -> None:
    """Steps see the tokens that had arrived by `clock.session_us`, no other; the prefix sees what its first
    recording frame sees; and steps of a window see what the whole call sees there."""
    whole = {batch.call_id: batch for batch in batches(store, cut="whole")}
    checked = 0
    for batch in batches(store, cut=cut, window_frames=40):
        if batch.states is None:
            continue
        assert batch.recording_id is not None
        assert batch.recording_starts_at_us is not None
        tokens = made.tokens[batch.recording_id]
        clock = SessionClock(batch.recording_starts_at_us, batch.prefix_frames, batch.frames)
        expected = build_versions(tokens, clock, window=WINDOW)
        assert version_rows(batch) == sorted(expected.select(VERSION_COLUMNS).rows())
        first, _ = batch.window
        starts_at_us = store.call(batch.call_id).recording_starts_at_us
        assert starts_at_us is not None
        assert batch.recording_starts_at_us == starts_at_us + first * FRAME_US
        arrival_us = tokens["arrival_us"].to_numpy()
        versions = version_rows(batch)
        call_versions = version_rows(whole[batch.call_id])
        call_prefix = whole[batch.call_id].prefix_frames
        for step in range(batch.frames):
            now_us = session_us(
                step, recording_starts_at_us=batch.recording_starts_at_us, prefix_frames=batch.prefix_frames
            )
            seen = sorted((row, *rest) for row, start, end, *rest in versions if start <= step < end)
            newest = np.argsort(arrival_us, kind="stable")[: (arrival_us <= now_us).sum()][-WINDOW:]
            assert [row for row, *_ in seen] == sorted(newest.tolist())
            at = call_prefix + first + max(step - batch.prefix_frames, 0)
            assert seen == sorted(
                (row, *rest) for row, start, end, *rest in call_versions if start <= at < end
            )
        checked += len(versions)
    assert checked > 300


def test_a_window_carries_its_frames_behind_the_whole_prefix(store: Store) -> None:
    found = [batch for batch in batches(store, window_frames=40) if batch.call_id == "long"]
    assert [batch.window for batch in found] == [(0, 40), (40, 80), (80, 120), (120, 130)]
    composed = store.call("long").with_prefix()
    prefix = composed.prefix_frames
    for batch in found:
        first, stop = batch.window
        frames = [*range(prefix), *range(prefix + first, prefix + stop)]
        assert np.array_equal(batch.codes[1:].numpy(), composed.codes[:, frames])
        assert np.array_equal(batch.codes[0].numpy(), composed.text[frames])
        assert np.array_equal(batch.roles.numpy(), composed.role[frames])
        assert np.array_equal(batch.mask.numpy(), composed.mask[frames])
    assert [batch.response_start for batch in found] == [None, None, 95 - 80 + prefix, None]


def test_the_plan_is_that_of_the_versions(store: Store) -> None:
    for limit in (30, 10_000):
        for batch in batches(store, cut="whole", plan_limit=limit):
            expected = plan_chunks(batch.start.numpy(), batch.end.numpy(), steps=batch.frames, limit=limit)
            assert np.array_equal(batch.chunks, expected)
            assert batch.chunks[-1, 1] == batch.frames


def test_calls_without_memory_have_none(store: Store) -> None:
    found = {batch.call_id: batch for batch in batches(store, cut="whole")}
    for call_id in ("plain", "stateless"):
        assert found[call_id].states is None
    assert not len(found["early"].row)  # its recording has not begun
    assert found["early"].states is not None
    assert found["early"].states.shape == (0, 3, WIDTH)
    for batch in (found["plain"], found["stateless"], *batches(store, cut="whole", memory="none")):
        assert batch.states is None
        assert len(batch.row) == len(batch.kind) == len(batch.piece_ids) == 0
        assert batch.piece_offsets.tolist() == [0]
        assert batch.chunks.tolist() == [[0, batch.frames, 0]]
    assert found["stateless"].recording_id == "bare"


def test_wrong_memory_is_the_partners(store: Store, made: Made) -> None:
    own = {batch.call_id: batch for batch in batches(store, "test", cut="whole")}
    wrong = {batch.call_id: batch for batch in batches(store, "test", cut="whole", memory="wrong")}
    for call_id, partner in (("eval", "eval 2"), ("eval 2", "eval")):
        batch = wrong[call_id]
        assert batch.codes.equal(own[call_id].codes)
        assert batch.recording_id == own[partner].recording_id
        assert batch.recording_starts_at_us == own[partner].recording_starts_at_us
        assert batch.recording_starts_at_us is not None
        clock = SessionClock(batch.recording_starts_at_us, batch.prefix_frames, batch.frames)
        expected = build_versions(made.tokens[str(batch.recording_id)], clock, window=WINDOW)
        assert version_rows(batch) == sorted(expected.select(VERSION_COLUMNS).rows())
        assert batch.states is not None
        seen = slice(batch.first_token, batch.first_token + len(batch.kind))
        assert np.array_equal(bits(batch.states), made.states[str(batch.recording_id)][seen])
        cut = [b for b in batches(store, "test", window_frames=20, memory="wrong") if b.call_id == call_id]
        assert sum(b.window[1] - b.window[0] for b in cut) == store.call(call_id).frames


def test_only_the_calls_that_were_asked_for(store: Store) -> None:
    assert {batch.call_id for batch in batches(store, call_ids=["tiny", "long"])} == {"tiny", "long"}


def test_a_batch_lies_in_one_block(store: Store) -> None:
    for batch in batches(store, cut="whole"):
        block = batch.block()
        assert len(block) == batch.bytes_
        copy = batch.on(block.clone())
        begins = block.data_ptr()
        for (name, value), (other, moved) in zip(batch.tensors(), copy.tensors(), strict=True):
            assert name == other
            assert moved.dtype == value.dtype
            assert moved.shape == value.shape
            if value.numel():
                assert moved.view(torch.uint8).equal(value.view(torch.uint8))
                assert begins <= value.data_ptr() < begins + len(block)
                assert moved.data_ptr() != value.data_ptr()
        assert copy.call_id == batch.call_id


def test_index_bounds_what_a_batch_takes(store: Store) -> None:
    one = make_loader(store, "train", seed=1, window_frames=40, workers=0)
    for index in range(one.samples):
        sample = one._sample(0, index)
        reader = one._readers[0]
        batch = reader.read(reader.prepare(sample), epoch=0, index=index)
        # Padding between the parts matters only to batches as small as these.
        assert batch.bytes_ <= sample.bytes_ + 14 * 256


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_batch_says_where_it_is_in_the_epoch(store: Store, shuffle: bool) -> None:
    found = batches(store, shuffle=shuffle, window_frames=40)
    assert [batch.index for batch in found] == list(range(len(found)))
    assert {batch.epoch for batch in found} == {0}
    assert all(isinstance(batch.row, torch.Tensor) and batch.device.type == "cpu" for batch in found)
    assert pl.Series([batch.call_id for batch in found]).n_unique() == 7


def test_a_remote_store_gives_the_same_batches(store: Store) -> None:
    remote = fsspec.filesystem("memory")
    remote.put(store.root, "/loader-remote", recursive=True)
    far = make_loader("memory://loader-remote", "train", seed=1, window_frames=40, workers=2)
    near = make_loader(store, "train", seed=1, window_frames=40, workers=0)
    for one, other in zip(far, near, strict=True):
        assert (one.call_id, one.window) == (other.call_id, other.window)
        for (name, value), (_, wanted) in zip(one.tensors(), other.tensors(), strict=True):
            assert value.shape == wanted.shape
            assert not value.numel() or value.view(torch.uint8).equal(wanted.view(torch.uint8)), name
