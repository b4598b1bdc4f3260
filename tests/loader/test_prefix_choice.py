"""Which stored prefix stands before a call: its own, a random voice of its role, or a named one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inkplex_data.errors import UsageError
from inkplex_data.loader import make_loader
from inkplex_data.loader.prefix_choice import PrefixChoice
from inkplex_data.store.reader import Store, open_store
from inkplex_data.store.shard import PrefixShardWriter
from tests.loader.made import begin, call, finish
from tests.store.made import add_calls

OWN = {
    "long": "p0",
    "later": "p0",
    "plain": "p3",
    "tiny": None,
    "stateless": "p0",
    "other": "p1",
    "early": None,
}


def drawn(store: Store, epochs: int = 1, **options: object) -> list[tuple[Any, ...]]:
    loader = make_loader(store, "train", seed=3, window_frames=40, workers=0, **options)  # type: ignore[arg-type]
    return [
        (batch.call_id, batch.window, batch.prefix_id, batch.prefix_frames)
        for _ in range(epochs)
        for batch in loader
    ]


def test_by_default_a_call_has_its_own(store: Store) -> None:
    assert {name: prefix for name, _, prefix, _ in drawn(store)} == OWN


def test_a_named_prefix_stands_before_every_call(store: Store) -> None:
    """Its frames are those of the composed call, and every frame of every call is still there once."""
    loader = make_loader(store, "train", seed=3, window_frames=40, workers=0, prefix="p1")
    own = {(name, window) for name, window, *_ in drawn(store)}
    stored = store.prefix_by_id("p1")
    seen = set()
    for batch in loader:
        seen.add((batch.call_id, batch.window))
        assert (batch.prefix_id, batch.prefix_frames) == ("p1", 13)
        np.testing.assert_array_equal(batch.codes[1:, :13].numpy(), stored.stream("codes"))
        first, stop = batch.window
        np.testing.assert_array_equal(
            batch.codes[1:, 13:].numpy(), store.call(batch.call_id).codes[:, first:stop]
        )
        whole = store.call(batch.call_id).with_prefix(voice="ben", role="clerk")
        if first == 0 and stop == whole.call.frames and batch.call_id != "stateless":
            assert len(batch.row) == whole.versions.height
    assert seen == own


def test_random_voices_are_of_the_role_and_split_and_come_again_the_same(store: Store) -> None:
    """Only p0 and p1 are a clerk's in training; a call without a role has no voice to draw from."""
    found = drawn(store, epochs=6, prefix="random-voice")
    by_call: dict[str, set[str | None]] = {}
    for name, _, prefix, frames in found:
        by_call.setdefault(name, set()).add(prefix)
        assert frames == {None: 0, "p0": 12, "p1": 13, "p3": 15}[prefix]
    assert by_call["long"] == by_call["other"] == {"p0", "p1"}
    assert (by_call["plain"], by_call["tiny"]) == ({"p3"}, {None})
    assert drawn(store, epochs=6, prefix="random-voice") == found
    half = make_loader(
        store, "train", seed=3, window_frames=40, workers=0, prefix="random-voice", rank=1, world_size=2
    )
    assert [batch.prefix_id for batch in half] == [prefix for _, _, prefix, _ in found[1 : len(half) * 2 : 2]]


def test_windows_leave_room_for_the_longest_voice(store: Store) -> None:
    loader = make_loader(
        store, "train", seed=3, workers=0, context_frames=60, prefix="random-voice", cut="seeded"
    )
    for _ in range(3):
        for batch in loader:
            assert batch.prefix_frames + batch.window[1] - batch.window[0] <= 60


@pytest.mark.parametrize(
    ("prefix", "named"),
    [
        ("p9", r"no prefix 'p9' is stored[\s\S]*own, random-voice or one of p0 \(voice 'anna'\)"),
        ("p2", "voice of split 'test'"),
    ],
)
def test_a_prefix_that_cannot_be_is_refused(store: Store, prefix: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        make_loader(store, "train", seed=0, prefix=prefix)


def test_a_random_voice_is_never_the_calls_own_sound(tmp_path: Path) -> None:
    """Nor that of another part of one file; with nothing else to draw the call keeps its own prefix."""
    made = begin(tmp_path / "store")
    with PrefixShardWriter(made.root, 1) as writer:
        for name, of in (("cut", "call:a@0-80000us"), ("part", "call:b@0-80000us"), ("file", "file:x.wav")):
            streams: dict[str, np.ndarray] = {
                "codes": np.zeros((3, 16), np.uint16),
                "text": np.zeros(3, np.int32),
                "role": np.zeros(3, np.uint8),
            }
            split = None if name == "file" else "train"
            writer.add(
                {"prefix_id": name, "voice": name, "role": "guide", "split": split, "voice_source": of},
                streams,
            )
        writer.publish()
    sources = {"a": "one.wav", "b": "one.wav", "c": "two.wav"}
    add_calls(
        made,
        0,
        [
            call(made, name, 9, source=source, audio_sha256=name, prefix_id="part" if name == "c" else "cut")
            for name, source in sources.items()
        ],
    )
    finish(made)
    with open_store(made.root) as store:
        choice = PrefixChoice(store, "random-voice")
        found = {name: {choice.of(store.call(name).row, key) for key in range(40)} for name in sources}
        assert found == {"a": {"file"}, "b": {"file"}, "c": {"cut", "part", "file"}}
        assert choice.longest(store.call("a").row) == 3
        assert choice.call("a", 1).with_prefix().prefix.row["voice"] == "file"
