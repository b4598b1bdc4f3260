from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.errors import UsageError
from inkplex_data.memory.capture.capture_plan import ChunkRule, Fork, plan_capture, without_done
from inkplex_data.memory.ownership import Ownership
from tests.memory.asked import FORKED, Asked, context_of


@given(
    st.integers(1, 300),
    st.integers(0, 5_000),
    st.integers(1, 2_000),
    st.lists(st.integers(0, 7_000), max_size=4),
)
def test_chunks_cover_the_stretch_and_bound_the_scores(
    chunk_tokens: int, start: int, length: int, marks: list[int]
) -> None:
    rule, stop = ChunkRule(chunk_tokens), start + length
    chunks = rule.cut(start, stop, marks)
    ends = [end for _, end in chunks]
    assert [first for first, _ in chunks] == [start, *ends[:-1]]
    assert ends[-1] == stop
    assert set(ends) >= {mark for mark in marks if start < mark < stop}
    for first, end in chunks:
        size = end - first
        assert 0 < size <= chunk_tokens
        assert size * end <= rule.scores or size <= rule.smallest
        if end != stop and end not in marks:
            # As large as it may be.
            more = size + 1
            assert more > chunk_tokens or (more * (first + more) > rule.scores and more > rule.smallest)


def test_the_first_three_chunks_are_whole_and_later_ones_shrink() -> None:
    rule = ChunkRule(512)
    assert rule.cut(0, 1_536) == ((0, 512), (512, 1_024), (1_024, 1_536))
    sizes = [end - first for first, end in rule.cut(0, 30_000)]
    assert sizes[:3] == [512] * 3
    assert sorted(sizes[:-1], reverse=True) == sizes[:-1]
    assert min(sizes[:-1]) == rule.smallest == 32
    with pytest.raises(UsageError, match="at least one token, not 0"):
        ChunkRule(0)


def test_plan_of_forks() -> None:
    plans = {plan.number: plan for plan in plan_capture(Ownership(FORKED), ChunkRule(50))}
    assert list(plans) == [0, 1, 2, 3, 4, 6]
    assert plans[0].fork is None
    assert plans[0].chunks == ((0, 50), (50, 60), (60, 90))
    assert plans[0].keep == {60, 90}
    assert (plans[1].fork, plans[1].last, plans[1].chunks) == (Fork(0, 60), True, ((60, 77), (77, 100)))
    assert (plans[2].fork, plans[2].last) == (Fork(1, 77), False)
    assert (plans[3].fork, plans[3].last) == (Fork(1, 77), True)
    # Call 3 computed positions 77 to 89; call 6 leaves it after 80, through call 5, which computed nothing.
    assert (plans[3].keep, plans[6].fork, plans[6].last) == ({80}, Fork(3, 80), True)


@st.composite
def trees(draw: st.DrawFn) -> list[Asked]:
    """Requests that go on from any position of any earlier one."""
    requests: list[Asked] = []
    for call in range(draw(st.integers(1, 8))):
        cached = None
        if requests and draw(st.booleans()):
            owner = draw(st.sampled_from(requests)).call
            cached = (owner, draw(st.integers(0, Ownership(requests).context_tokens(owner))))
        requests.append(Asked(call, draw(st.integers(0, 9)), cached=cached))
    return requests


@settings(max_examples=60)
@given(trees(), st.integers(1, 6))
def test_a_cache_that_is_a_list_of_tokens_always_holds_the_right_context(
    requests: list[Asked], chunk_tokens: int
) -> None:
    """The plan, run with lists for caches: each chunk goes on from its context, and no cache is left over."""
    kept: dict[Fork, list[int]] = {}
    by_call = {request.call: request for request in requests}
    computed = []
    for plan in plan_capture(Ownership(requests), ChunkRule(chunk_tokens)):
        if plan.fork is None:
            cache: list[int] = []
        else:
            cache = kept.pop(plan.fork) if plan.last else list(kept[plan.fork])
        whole = context_of(requests, plan.number).tolist()
        first = plan.chunks[0][0]
        assert cache == whole[:first]
        for start, stop in plan.chunks:
            assert len(cache) == start
            cache += by_call[plan.number].ids[start - first : stop - first].tolist()
            if stop in plan.keep:
                kept[Fork(plan.number, stop)] = list(cache)
        assert cache == whole
        computed.append(plan.number)
    assert not kept
    assert computed == [request.call for request in requests if request.tokens]


@settings(max_examples=60)
@given(trees(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_what_is_left_of_a_plan_computes_what_is_missing_in_the_same_chunks(
    requests: list[Asked], chunk_tokens: int, random: Random
) -> None:
    """With lists for caches, as above; requests that are done are begun only for others."""
    whole = plan_capture(Ownership(requests), ChunkRule(chunk_tokens))
    done = {plan.number for plan in whole if random.random() < 0.6}
    left = without_done(whole, done)
    kept: dict[Fork, list[int]] = {}
    by_call = {request.call: request for request in requests}
    for plan in left:
        cache: list[int] = []
        if plan.fork is not None:
            cache = kept.pop(plan.fork) if plan.last else list(kept[plan.fork])
        context, first = context_of(requests, plan.number).tolist(), plan.chunks[0][0]
        assert (cache == context[:first] and plan.number not in done) or plan.keep
        for start, stop in plan.chunks:
            cache += by_call[plan.number].ids[start - first : stop - first].tolist()
            if stop in plan.keep:
                kept[Fork(plan.number, stop)] = list(cache)
        assert cache == context[: len(cache)] and (plan.number in done or len(cache) == len(context))
    assert not kept
    before = {plan.number: plan for plan in whole}
    assert all(plan.chunks == before[plan.number].chunks[: len(plan.chunks)] for plan in left)
    assert {plan.number for plan in left} >= {plan.number for plan in whole} - done
    assert without_done(whole, ()) == whole
