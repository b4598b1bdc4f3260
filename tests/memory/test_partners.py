from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.memory.partners import EVALUATED, Candidate, choose_partners

candidates = st.lists(
    st.builds(
        Candidate,
        call_id=st.text("abcdef", min_size=1, max_size=3),
        family=st.sampled_from(["f1", "f2", "f3"]),
        split=st.sampled_from(["train", "validation", "test"]),
        recording_id=st.sampled_from([None, "r1", "r2", "r3", "r4"]),
    ),
    unique_by=lambda call: call.call_id,
    max_size=12,
)


@given(candidates, st.integers(0, 3), st.randoms())
def test_partners_are_from_elsewhere_and_do_not_depend_on_order(
    calls: list[Candidate], seed: int, random
) -> None:
    branches = {"r2": ("r1", 5)}
    chosen = choose_partners(calls, seed=seed, branches=branches)
    by_id = {call.call_id: call for call in calls}
    assert set(chosen) == {call.call_id for call in calls if call.split in EVALUATED}
    for call_id, partner_id in chosen.items():
        call = by_id[call_id]
        twins = {"r1", "r2"} if call.recording_id in {"r1", "r2"} else {call.recording_id}
        fitting = [
            other
            for other in calls
            if other.recording_id and other.family != call.family and other.recording_id not in twins
        ]
        if partner_id is None:
            assert not fitting
            continue
        assert by_id[partner_id] in fitting
        if by_id[partner_id].split != call.split:
            assert not any(other.split == call.split for other in fitting)
        if by_id[partner_id].split == "train":
            assert all(other.split == "train" for other in fitting)
    shuffled = list(calls)
    random.shuffle(shuffled)
    assert choose_partners(shuffled, seed=seed, branches=branches) == chosen


def many(count: int) -> list[Candidate]:
    return [Candidate(f"call {at}", f"family {at // 2}", "test", f"recording {at}") for at in range(count)]


def test_the_seed_matters_and_partners_spread_over_the_calls() -> None:
    first, second = choose_partners(many(60), seed=1), choose_partners(many(60), seed=2)
    assert first != second
    assert len(set(first.values())) > 20


def test_a_new_family_changes_few_partners() -> None:
    before = choose_partners(many(60))
    after = choose_partners([*many(60), Candidate("new", "new family", "test", "new recording")])
    assert sum(after[call_id] != partner for call_id, partner in before.items()) <= 10


def test_nobody_fits() -> None:
    calls = many(2)
    assert choose_partners(calls) == {"call 0": None, "call 1": None}
    assert choose_partners([replace(call, split="train") for call in calls]) == {}
