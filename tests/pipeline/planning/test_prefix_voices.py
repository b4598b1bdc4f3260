"""Voices of prefixes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.pipeline.planning.prefix_voices import VoiceCandidate, voice_samples

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
