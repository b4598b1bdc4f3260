"""Planning is a pure function of its inputs."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.pipeline.planning.sharding import (
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


rows = st.tuples(
    st.sampled_from("AB"),
    st.sampled_from(["train", "test"]),
    st.sampled_from("fg"),
    st.sampled_from("xyz"),
    st.integers(0, 5),
)


@given(st.lists(rows, max_size=14))
def test_a_voice_sample_is_another_recording_of_the_same_voice_and_split(
    made: list[tuple[str, str, str, str, int]],
) -> None:
    # The same audio is in one family only: the plan has refused anything else.
    calls = [
        VoiceCandidate(f"c{ix:02}", voice, split, family, f"{family}{audio}", 10, 10 + length)
        for ix, (voice, split, family, audio, length) in enumerate(made)
    ]
    chosen = voice_samples(calls)
    by_id = {call.call_id: call for call in calls}
    for call in calls:
        others = [
            other
            for other in calls
            if (other.voice, other.split) == (call.voice, call.split)
            and other.audio_sha256 != call.audio_sha256
            and other.end_us > other.start_us
        ]
        strangers = [other for other in others if other.family != call.family]
        assert (call.call_id in chosen) == bool(others)
        if others:
            best = min(strangers or others, key=lambda other: (-other.end_us, other.call_id))
            sample = chosen[call.call_id]
            assert by_id[sample.call_id or ""] == best
            assert (sample.start_us, sample.end_us) == (best.start_us, best.end_us)
    assert voice_samples(calls[::-1]) == chosen
