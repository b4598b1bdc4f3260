"""Which of a store's prefixes stands before a call: its own, one of another voice, or one that is named.

A prefix is stored once for each voice and role, and composed when a sample is read, so one store trains and tries
several voices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from inkplex_data.errors import UsageError
from inkplex_data.loader.sample_order import keyed
from inkplex_data.store.call import Call
from inkplex_data.store.reader import Store

OWN: Final = "own"
RANDOM_VOICE: Final = "random-voice"
_OF_CALL: Final = re.compile(r"call:(.*)@\d+-\d+us", re.DOTALL)
_SHOWN: Final = 8


class PrefixChoice:
    """`choice`: `own`, the prefix that the call was built with; `random-voice`, one of those with its role, of any
    voice; or the id of a stored prefix, for every call.

    A voice never comes from another split than the call, nor, at random, from the sound of the call itself. The call's
    own speech keeps its own voice, whatever the prefix is: to train on other voices means something where prefixes
    are of the same speakers, or where a model is to learn that the sample does not matter.
    """

    def __init__(self, store: Store, choice: str = OWN) -> None:
        """Raises UsageError for an id that is not stored."""
        self.store, self.choice = store, choice
        table = store.catalog.frame(
            "prefixes", ["prefix_id", "frames", "voice", "role", "split", "voice_source"]
        ).sort("prefix_id")
        self._rows: dict[str, dict[str, Any]] = {row["prefix_id"]: row for row in table.iter_rows(named=True)}
        if choice not in (OWN, RANDOM_VOICE) and choice not in self._rows:
            shown = [f"{name} (voice {row['voice']!r})" for name, row in self._rows.items()]
            more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
            raise UsageError(
                f"no prefix {choice!r} is stored",
                where=store.root,
                next_step=f"A prefix is {OWN}, {RANDOM_VOICE} or one of {', '.join(shown[:_SHOWN])}{more}."
                if shown
                else "The store has no prefixes.",
            )

    def frames(self, prefix_id: str | None) -> int:
        """Frames of a prefix, 0 without one."""
        return int(self._rows[prefix_id]["frames"]) if prefix_id in self._rows else 0

    def longest(self, row: Mapping[str, Any]) -> int:
        """Frames of the longest prefix that a call, a row of the calls table, can get: windows that leave room for it
        are the same whatever is drawn.

        Raises UsageError for a named prefix whose voice is of another split.
        """
        if self.choice == RANDOM_VOICE:
            return max(self.frames(row["prefix_id"]), self._voices(row)[1])
        return self.frames(self.of(row))

    def of(self, row: Mapping[str, Any], *key: object) -> str | None:
        """The prefix of a call; what is random depends on `key` alone. Raises as `longest`."""
        if self.choice == OWN:
            return row["prefix_id"]
        if self.choice == RANDOM_VOICE:
            return self._drawn(row, keyed(1, "prefix", *key)[0])
        split = self._rows[self.choice]["split"]
        if split not in (None, row["split"]):
            raise UsageError(
                f"prefix {self.choice!r} has a voice of split {split!r}, call {row['call_id']!r} is in {row['split']!r}",
                where=self.store.root,
                next_step="Choose a prefix of the same split, or one whose voice is a file.",
            )
        return self.choice

    def call(self, call_id: str, *key: object) -> Call:
        """A call of the store with the chosen prefix for its own. Raises as `longest`."""
        call = self.store.call(call_id)
        return Call(self.store, {**call.row, "prefix_id": self.of(call.row, *key)})

    def _drawn(self, row: Mapping[str, Any], number: int) -> str | None:
        names, _ = self._voices(row)
        own = self._sound.get(row["call_id"], frozenset())
        for step in range(len(names)):
            name = names[(number + step) % len(names)]
            of_call = _OF_CALL.fullmatch(self._rows[name]["voice_source"] or "")
            if of_call is None or not own & self._sound.get(of_call[1], frozenset()):
                return name
        return row["prefix_id"]

    def _voices(self, row: Mapping[str, Any]) -> tuple[list[str], int]:
        """Prefixes with a voice, of the role and for the split of a call, and the frames of the longest."""
        own = self._rows.get(row["prefix_id"])
        role = None if own is None else own["role"]
        return self._by_role.get((role, row["split"]), ([], 0))

    @cached_property
    def _by_role(self) -> dict[tuple[str | None, str], tuple[list[str], int]]:
        splits = set(self.store.catalog.frame("calls", ["split"])["split"])
        found: dict[tuple[str | None, str], list[str]] = {}
        for name, row in self._rows.items():
            for split in (splits if row["split"] is None else {row["split"]}) if row["voice"] else ():
                found.setdefault((row["role"], split), []).append(name)
        return {key: (names, max(map(self.frames, names))) for key, names in found.items()}

    @cached_property
    def _sound(self) -> dict[str, frozenset[str]]:
        """Call → its file and the digest of its sound, which parts of one call and copies share."""
        calls = self.store.catalog.frame("calls", ["call_id", "source", "audio_sha256"])
        return {name: frozenset(filter(None, sound)) for name, *sound in calls.iter_rows()}
