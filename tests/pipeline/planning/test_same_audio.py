"""Audio in two families."""

from __future__ import annotations

from inkplex_data.pipeline.planning.same_audio import audio_in_two_families


def test_the_later_family_with_the_same_audio_is_refused() -> None:
    calls = [("a", "h1", "f1"), ("b", "h1", "f1"), ("c", "h1", "f2"), ("d", "h2", "f3")]
    assert audio_in_two_families(calls) == {"c": ("a", "f1", "f2")}
    assert audio_in_two_families([("d", "h2", "f3")], published=[("z", "h2", "f9")]) == {
        "d": ("z", "f9", "f3")
    }
