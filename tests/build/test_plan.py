"""Planning is a pure function of its inputs."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.build.plan import (
    Sized,
    VoiceCandidate,
    audio_in_two_families,
    plan_shards,
    voice_samples,
)


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 100))
def test_shards_keep_the_order_and_respect_the_limit(sizes: list[int], limit: int) -> None:
    items = [Sized(str(index), size) for index, size in enumerate(sizes)]
    shards = plan_shards(items, limit)
    assert [key for shard in shards for key in shard] == [item.key for item in items]
    for shard in shards:
        total = sum(sizes[int(key)] for key in shard)
        assert shard
        assert total <= limit or len([key for key in shard if sizes[int(key)]]) == 1
    for first, second in itertools.pairwise(shards):
        # Greedy: the next shard's first item would not have fitted.
        assert sum(sizes[int(key)] for key in first) + sizes[int(second[0])] > limit


def test_the_later_family_with_the_same_audio_is_refused() -> None:
    calls = [("a", "h1", "f1"), ("b", "h1", "f1"), ("c", "h1", "f2"), ("d", "h2", "f3")]
    assert audio_in_two_families(calls) == {"c": ("a", "f1", "f2")}
    assert audio_in_two_families([("d", "h2", "f3")], published=[("z", "h2", "f9")]) == {
        "d": ("z", "f9", "f3")
    }


@given(
    st.lists(
        st.tuples(st.sampled_from("AB"), st.sampled_from(["train", "test"]), st.integers(0, 5)), max_size=12
    )
)
def test_a_voice_sample_is_another_call_of_the_same_voice_and_split(rows: list[tuple[str, str, int]]) -> None:
    calls = [
        VoiceCandidate(f"c{ix}", voice, split, 10, 10 + length)
        for ix, (voice, split, length) in enumerate(rows)
    ]
    chosen = voice_samples(calls)
    by_id = {call.call_id: call for call in calls}
    for call in calls:
        others = [
            other
            for other in calls
            if other is not call
            and (other.voice, other.split) == (call.voice, call.split)
            and other.end_us > other.start_us
        ]
        assert (call.call_id in chosen) == bool(others)
        if others:
            sample = chosen[call.call_id]
            assert sample.call_id is not None
            source = by_id[sample.call_id]
            assert source in others
            assert source.end_us - source.start_us == max(other.end_us - other.start_us for other in others)
    assert voice_samples(calls[::-1]) == chosen
