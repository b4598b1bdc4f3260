"""The resume law, and what pins a run to what it began with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.errors import CheckpointError, StoreCorruptError, StoreError, UsageError
from inkplex_data.loader import Loader, make_loader
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.reader import Store, open_store
from tests.loader.made import begin, call, finish, make_store
from tests.store.made import Made, add_calls
from tests.test_text_scores import made_scores

SAMPLES = 12
"""Windows of at most 40 frames of the seven training calls."""


def loader(store: Store | Made, **options: object) -> Loader:
    source = store if isinstance(store, Store) else store.root
    options = {"seed": 3, "window_frames": 40, "workers": 0, **options}
    return make_loader(source, "train", **options)  # type: ignore[arg-type]


def name(batch: object) -> tuple:
    return batch.call_id, batch.window  # type: ignore[attr-defined]


def take(ranks: list[Loader], rounds: int) -> list[tuple]:
    """The samples that the ranks get in `rounds` rounds, in the order of the epoch."""
    iterations = [iter(rank) for rank in ranks]
    found = []
    for _ in range(rounds):
        batches = [next(iteration, None) for iteration in iterations]
        found += sorted((batch.index, *name(batch)) for batch in batches if batch is not None)
    return found


places = st.tuples(st.integers(1, 4), st.integers(0, 3))


@settings(max_examples=25, deadline=None)
@given(
    before=places,
    after=places,
    stop=st.integers(0, SAMPLES),
    epoch=st.integers(0, 2),
    cut=st.sampled_from(["fixed", "seeded"]),
    shuffle=st.booleans(),
)
def test_resume_law(
    store: Store, before: tuple, after: tuple, stop: int, epoch: int, cut: str, shuffle: bool
) -> None:
    """First part + rest = all, each once, in the order of one uninterrupted process, wherever the run stops,
    on however many ranks and workers it began and goes on."""
    options = {"cut": cut, "shuffle": shuffle}
    alone = loader(store, **options)
    alone._epoch = epoch
    whole = take([alone], SAMPLES)
    assert len({sample[1:] for sample in whole}) == alone.samples == SAMPLES

    (ranks, workers), (new_ranks, new_workers) = before, after
    first = [loader(store, rank=r, world_size=ranks, workers=workers, **options) for r in range(ranks)]
    for one in first:
        one._epoch = epoch
    rounds = min(stop, -(-SAMPLES // ranks))
    done = take(first, rounds)
    states = [json.loads(json.dumps(one.state_dict())) for one in first if len(one)] or [
        first[0].state_dict()
    ]
    assert all(state == states[0] for state in states)

    rest = [
        loader(store, rank=r, world_size=new_ranks, workers=new_workers, **options) for r in range(new_ranks)
    ]
    for one in rest:
        one.load_state_dict(states[0])
    if len(done) == SAMPLES:  # the epoch was over, so the rest is the next one
        assert (rest[0].epoch, rest[0].samples_consumed) == (epoch + 1, 0)
        assert done == whole
    else:
        assert sum(map(len, rest)) == SAMPLES - len(done)
        assert done + take(rest, SAMPLES) == whole
    for one in first:
        one._stop()


def test_epochs_differ_and_follow_each_other(store: Store) -> None:
    one = loader(store)
    epochs = [[name(batch) for batch in one] for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [sorted(epochs[0])] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert one.epoch == 3
    again = loader(store)
    assert [[name(batch) for batch in again] for _ in range(3)] == epochs
    other = loader(store, seed=4)
    assert [name(batch) for batch in other] != epochs[0]


def test_without_shuffling_calls_come_as_stored(store: Store) -> None:
    names = [name(batch) for batch in loader(store, shuffle=False, cut="whole")]
    assert [call_id for call_id, _ in names] == [
        "long", "later", "plain", "tiny", "stateless", "other", "early",
    ]  # fmt: skip


def test_calls_come_by_surprise_and_those_without_a_score_last(store: Store, tmp_path: Path) -> None:
    """Still a pure function: of the scores, and of nothing else."""
    bits = {"tiny": 3.0, "other": 1.0, "long": 2.0, "no call here": 0.1}
    scores = made_scores(bits)
    scores.write_parquet(tmp_path / "scores.parquet")
    options = {"order": "surprise", "scores": tmp_path / "scores.parquet", "cut": "whole"}
    by_file = loader(store, **options)
    names = [name(batch) for batch in by_file]
    assert [call_id for call_id, _ in names] == [
        "other", "long", "tiny", "later", "plain", "stateless", "early",
    ]  # fmt: skip
    assert [name(batch) for batch in by_file] == names  # in the next epoch too
    by_table = loader(store, **{**options, "scores": scores, "seed": 4, "workers": 2})
    assert [name(batch) for batch in by_table] == names
    moved = loader(store, **options)
    moved.load_state_dict(by_file.state_dict())
    other = made_scores({**bits, "tiny": 0.5})
    with pytest.raises(CheckpointError, match="ranked"):
        loader(store, **{**options, "scores": other}).load_state_dict(by_file.state_dict())
    for wrong in ({"order": "surprise"}, {"scores": scores}, {"order": "random", "scores": scores}):
        with pytest.raises(UsageError, match="surprise"):
            loader(store, **wrong)


def test_breaking_off_and_iterating_anew_goes_on(store: Store) -> None:
    whole = [name(batch) for batch in loader(store)]
    one = loader(store, workers=2)
    found = []
    for batch in one:
        found.append(name(batch))
        if len(found) == 4:
            break
    assert one.samples_consumed == 4
    assert len(one) == SAMPLES - 4
    assert found + [name(batch) for batch in one] == whole


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_groups_are_shared_and_their_targets_known_before(store: Store, ranks: int) -> None:
    whole = [name(batch) for batch in loader(store)]
    one_rank = [loader(store, rank=rank, world_size=ranks, group=4, workers=1) for rank in range(ranks)]
    found: list[tuple] = []
    for groups in zip(*(one.groups() for one in one_rank), strict=True):
        assert {(group.first, group.stop) for group in groups} == {(len(found), min(len(found) + 4, SAMPLES))}
        batches = []
        for group in groups:
            targets = list(group.targets())
            for target in targets:
                batch = next(group)
                batches.append(batch)
                assert batch.codes.equal(target.codes)
                assert batch.roles.equal(target.roles)
                assert batch.mask.equal(target.mask)
                assert (batch.frames, batch.prefix_frames) == (target.frames, target.prefix_frames)
            assert not len(group)
        found += [name(batch) for batch in sorted(batches, key=lambda batch: batch.index)]
        assert len({one.samples_consumed for one in one_rank}) == 1
    assert found == whole


def test_closing_leaves_the_files_of_a_shared_store_open(tmp_path: Path) -> None:
    """A check on the panel reads the store that training is reading ahead from at the same time."""
    made = make_store(tmp_path / "store")
    shared = open_store(made.root)
    reading = loader(shared)
    iteration = iter(reading)
    while next(iteration).states is None:
        pass
    handles = dict(shared.states(0)._shards)
    with loader(shared, workers=2) as other:
        assert len(list(other)) == SAMPLES
    assert handles and shared.states(0)._shards == handles
    with loader(made) as own:
        list(own)
        [opened] = own.stores
        states = opened.states(0)
        assert states._shards
    assert not states._shards


def test_a_group_that_is_left_early_is_refused(store: Store) -> None:
    groups = loader(store, group=4).groups()
    next(next(groups))
    with pytest.raises(UsageError, match="3 batches"):
        next(groups)


def test_an_iteration_ends_when_the_loader_moves(store: Store) -> None:
    one = loader(store, workers=1)
    old = iter(one)
    next(old)
    state = one.state_dict()
    next(old)
    one.load_state_dict(state)
    with pytest.raises(UsageError, match="over"):
        next(old)
    assert one.samples_consumed == 1
    assert next(iter(one)).index == 1


def test_a_store_that_grew_is_read_as_it_was(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store")
    running = loader(made, workers=1)
    whole = [name(batch) for batch in loader(made)]
    batches = iter(running)
    found = [name(next(batches)) for _ in range(3)]
    state = running.state_dict()
    assert state["stores"][0]["snapshot"] == 1

    add_calls(made, 2, [call(made, "new", 70, prefix_id="p0"), call(made, "new too", 7)])
    publish_snapshot(made.root)
    assert found + [name(batch) for batch in batches] == whole

    resumed = loader(made, rank=0, workers=2)
    assert resumed.samples == SAMPLES + 3
    resumed.load_state_dict(state)
    assert resumed.samples == SAMPLES
    assert resumed.state_dict() == state
    assert found + [name(batch) for batch in resumed] == whole


def test_an_unfinished_store_is_pinned_too(tmp_path: Path) -> None:
    made = begin(tmp_path / "store")
    add_calls(made, 0, [call(made, "a", 10), call(made, "b", 11)])
    one = loader(made)
    assert not one.stores[0].complete
    first = name(next(iter(one)))
    state = one.state_dict()
    add_calls(made, 1, [call(made, "c", 12)])
    finish(made)
    resumed = loader(made)
    resumed.load_state_dict(state)
    assert sorted([first] + [name(batch) for batch in resumed]) == [("a", (0, 10)), ("b", (0, 11))]


def rebuilt(root: Path, frames: int) -> Made:
    made = begin(root)
    add_calls(made, 0, [call(made, "a", 10)])
    add_calls(made, 1, [call(made, "b", frames)])
    return finish(made)


def test_a_store_that_was_built_anew_is_refused(tmp_path: Path) -> None:
    state = loader(rebuilt(tmp_path / "before", 11)).state_dict()
    loader(rebuilt(tmp_path / "same", 11)).load_state_dict(state)
    with pytest.raises(CheckpointError, match="shard calls/000001 has been rebuilt") as error:
        loader(rebuilt(tmp_path / "after", 12)).load_state_dict(state)
    assert "calls/000000" not in str(error.value)
    missing = begin(tmp_path / "less")
    add_calls(missing, 0, [call(missing, "a", 10)])
    with pytest.raises(CheckpointError, match="shard calls/000001 is gone"):
        loader(finish(missing)).load_state_dict(state)


def test_a_shard_that_is_not_the_one_listed_is_refused(tmp_path: Path) -> None:
    made = rebuilt(tmp_path / "store", 11)
    other = rebuilt(tmp_path / "other", 12)
    published = Path(made.root, "calls/000001/shard.json")
    published.write_bytes(Path(other.root, "calls/000001/shard.json").read_bytes())
    with pytest.raises(StoreCorruptError, match="calls/000001 is not the one"):
        loader(made)
    published.unlink()
    with pytest.raises(StoreError, match="calls/000001"):
        loader(made)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"seed": 4}, "seed was 3, is 4"),
        ({"window_frames": 41}, "window_frames was 40, is 41"),
        ({"cut": "seeded"}, "cut was 'fixed'"),
        ({"shuffle": False}, "shuffle was True"),
        ({"call_ids": ["long"]}, "calls was None"),
        ({"mix": [2.0]}, "mix was None"),
        ({"prefix": "p1"}, "prefix was None, is 'p1'"),
    ],
)
def test_a_state_of_another_order_is_refused(store: Store, options: dict, named: str) -> None:
    state = loader(store).state_dict()
    with pytest.raises(CheckpointError, match=named):
        loader(store, **options).load_state_dict(state)


@pytest.mark.parametrize(
    "change", [{"epoch": -1}, {"samples_consumed": "3"}, {"store_digest": "0"}, {"stores": 5}]
)
def test_a_state_that_is_none_is_refused(store: Store, change: dict) -> None:
    one = loader(store)
    with pytest.raises(CheckpointError, match="not the saved state"):
        one.load_state_dict({**one.state_dict(), **change})
    with pytest.raises(CheckpointError, match="not the saved state"):
        one.load_state_dict({"epoch": 1})


def test_a_state_of_more_stores_is_refused(store: Store, tmp_path: Path) -> None:
    small = rebuilt(tmp_path / "small", 11)
    both = make_loader([store, small.root], "train", seed=3, window_frames=40, workers=0)
    with pytest.raises(CheckpointError, match="2 stores, this one 1"):
        loader(store).load_state_dict(both.state_dict())


def test_stores_are_mixed_by_weight(store: Store, tmp_path: Path) -> None:
    small = rebuilt(tmp_path / "small", 11)
    mixed = make_loader([store, small.root], "train", seed=3, window_frames=40, mix=[2, 1], workers=1)
    drawn = [(batch.store, *name(batch)) for batch in mixed]
    assert sorted(set(drawn[: len(drawn)])) == sorted(
        [(0, *name(batch)) for batch in loader(store)] + [(1, "a", (0, 10)), (1, "b", (0, 11))]
    )
    assert [sum(store == number for store, *_ in drawn) for number in range(2)] == [12, 6]
    assert all(sum(store for store, *_ in drawn[at : at + 3]) == 1 for at in range(16))
    again = make_loader([store, small.root], "train", seed=3, window_frames=40, mix=[2, 1], workers=0)
    assert [(batch.store, *name(batch)) for batch in again] == drawn


def test_several_stores_without_weights_come_once_each(store: Store, tmp_path: Path) -> None:
    small = rebuilt(tmp_path / "small", 11)
    both = make_loader([store, small.root], "train", seed=3, window_frames=40, workers=0)
    assert both.samples == SAMPLES + 2
    assert len({(batch.store, *name(batch)) for batch in both}) == SAMPLES + 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rank": 2, "world_size": 2}, "rank 2"),
        ({"workers": -1}, "workers"),
        ({"prefetch_bytes": 0}, "prefetch_bytes"),
        ({"group": 0}, "group"),
        ({"mix": [1, 2]}, "weights"),
        ({"call_ids": ["long", "eval"]}, "'eval'"),
        ({"call_ids": []}, "no call"),
        ({"memory": "other"}, "memory"),
        ({"memory": "wrong"}, "no partner"),
        ({"context_frames": 12}, r"call '\w+': a prefix of 12 frames leaves no room"),
    ],
)
def test_wrong_options_are_refused(store: Store, options: dict, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        loader(store, **options)


def test_a_split_without_calls_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match=r"'validation'[\s\S]*test, train"):
        make_loader(store, "validation", seed=0)


def test_a_context_smaller_than_a_window_cuts_more(store: Store) -> None:
    one = loader(store, context_frames=32)
    assert max(batch.frames for batch in one) == 32


def test_a_report_counts_what_was_handed_out(store: Store) -> None:
    one = loader(store, workers=2)
    assert one.report().batches == 0
    sizes = [batch.bytes_ for batch in one]
    report = one.report(reset=True)
    assert (report.batches, report.bytes_) == (SAMPLES, sum(sizes))
    assert 0 <= report.wait_s <= report.seconds
    assert 0 <= report.wait_fraction <= 1
    assert report.bytes_per_s * report.seconds == pytest.approx(sum(sizes))
    assert one.report().batches == 0


def test_damaged_bytes_are_an_error_in_their_place(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store")
    order = [name(batch)[0] for batch in loader(made)]
    [states] = Path(made.root, "recordings/000000/arrays.zarr/states/c").rglob("0/0/0")
    damaged = bytearray(states.read_bytes())
    damaged[64 * 3 * 4 * 2 + 4 + 20] ^= 1  # in the second inner chunk: the end of recording "one"
    states.write_bytes(damaged)
    for workers in (0, 2):
        one = loader(open_store(made.root), workers=workers)
        found = []
        with pytest.raises(StoreCorruptError, match="wrong checksum"):
            for batch in one:
                found.append(name(batch)[0])
        assert found == order[: len(found)]
        assert one.samples_consumed == len(found)
        assert order[len(found)] in ("long", "later", "other", "tiny", "early")


def test_calls_are_chosen_by_what_is_told_of_them(store: Store) -> None:
    chosen = {"decisions": "speak", "agent_origin": ["recorded", "synthetic"]}
    with loader(store, only=chosen) as only:
        assert {batch.call_id for batch in only} == {"plain"}
        saved = only.state_dict()
    with loader(store) as all_calls, pytest.raises(CheckpointError):
        all_calls.load_state_dict(saved)
    with loader(store, only={"agent_origin": ("synthetic", "recorded"), "decisions": ["speak"]}) as again:
        again.load_state_dict(saved)
    with pytest.raises(UsageError, match="no call was asked for"):
        loader(store, only={"decisions": "quiet"})
    with pytest.raises(UsageError, match="cannot be chosen by 'voice'"):
        loader(store, only={"voice": "amy"})
