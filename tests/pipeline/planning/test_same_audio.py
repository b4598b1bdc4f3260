"""Audio in two families, by its samples and by what is heard."""

from __future__ import annotations

import numpy as np
import pytest

from inkplex_data.audio.fingerprint import ENTRY, KEPT, LEVELS, Fingerprint
from inkplex_data.pipeline.planning.same_audio import (
    audio_in_two_families,
    recordings_in_two_families,
)


def test_the_later_family_with_the_same_audio_is_refused() -> None:
    calls = [("a", "h1", "f1"), ("b", "h1", "f1"), ("c", "h1", "f2"), ("d", "h2", "f3")]
    assert audio_in_two_families(calls) == {"c": ("a", "f1", "f2")}
    turned = {"h2": "h1", "h1": "h2"}
    assert audio_in_two_families(calls, exchanged=turned)["d"] == ("a", "f1", "f3")
    assert audio_in_two_families([("d", "h2", "f3")], published=[("z", "h2", "f9")]) == {
        "d": ("z", "f9", "f3")
    }


def heard(seed: int, *, like: bytes | None = None, share: float = 0.0, until: int = 150) -> bytes:
    """Hashes of five minutes of sound, of which `share` of those before time `until` are as in `like`."""
    random = np.random.default_rng(seed)
    entries = np.zeros(KEPT, ENTRY)
    entries["hash"] = random.choice(2**32, KEPT, replace=False)
    entries["time"] = random.integers(0, 150, KEPT)
    if like is not None:
        other = Fingerprint.of(like).hashes
        taken = (random.random(KEPT) < share) & (other["time"] < until)
        entries = np.concatenate([entries[~taken], other[taken]])
    return bytes(LEVELS) + np.sort(entries, order="hash").tobytes()


def test_a_recording_that_was_coded_otherwise_is_in_one_family() -> None:
    a, b = heard(1), heard(2)
    calls = [
        ("a", a, "f1"),
        ("b", b, "f2"),
        ("c", heard(3, like=a, share=0.3), "f3"),
        ("d", a, "f1"),
        ("e", b, "f2"),
    ]
    assert recordings_in_two_families(calls) == {"c": ("a", "f1", "f3")}
    assert recordings_in_two_families([("n", b, "f9")], published=calls) == {"n": ("b", "f2", "f9")}


def test_a_refused_call_refuses_no_other() -> None:
    a = heard(1)
    calls = [("a", a, "f1"), ("b", a, "f2"), ("c", a, "f2")]
    assert recordings_in_two_families(calls) == {"b": ("a", "f1", "f2"), "c": ("a", "f1", "f2")}


def test_what_is_shared_for_some_time_is_no_recording() -> None:
    a = heard(1)
    calls = [
        ("a", a, "f1"),
        *((f"c{n}", heard(9 + n, like=a, share=1.0, until=100), f"g{n}") for n in range(5)),
    ]
    assert recordings_in_two_families(calls) == {}


@pytest.mark.parametrize(("last", "same"), [(0, False), (1, False), (2, True)])
def test_the_tones_of_a_few_seconds_tell_too_little(last: int, same: bool) -> None:
    """A synthetic voice says two short sentences of one pattern in nearly the same ones."""
    hashes = Fingerprint.of(heard(1)).hashes.copy()
    hashes["time"] %= last + 1
    sound = bytes(LEVELS) + hashes.tobytes()
    assert bool(recordings_in_two_families([("a", sound, "f1"), ("b", sound, "f2")])) == same


def test_calls_of_stores_that_keep_no_fingerprint_and_silent_ones_are_like_none() -> None:
    assert recordings_in_two_families([("a", b"", "f1"), ("b", b"", "f2")], [("z", None, "f3")]) == {}
    assert recordings_in_two_families([]) == {}


def test_an_announcement_that_every_call_has_costs_no_comparison_of_all() -> None:
    greeting = heard(0)
    calls = [
        (str(number), heard(1 + number, like=greeting, share=1.0, until=20), str(number))
        for number in range(300)
    ]
    twin = ("twin", heard(999, like=calls[7][1], share=0.5), "other")
    assert recordings_in_two_families([*calls, twin]) == {"twin": ("7", "7", "other")}
