"""What stays of older shards, as parts of new ones: read back and written again as it is, nothing is encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.pipeline.calls.voice_stretch import voice_stretch
from inkplex_data.pipeline.planning.build_plan import PLAN_NOTES
from inkplex_data.pipeline.planning.prefix_voices import VoiceCandidate
from inkplex_data.pipeline.shards import CallMember, PrefixMember, RecordingMember
from inkplex_data.pipeline.stamp import stamp
from inkplex_data.pipeline.target import Target
from inkplex_data.problems import Problem
from inkplex_data.store.describe import read_description
from inkplex_data.store.files import open_files
from inkplex_data.store.format import TABLES, WORDS, offset_column
from inkplex_data.store.frame_streams import stored_in
from inkplex_data.store.reader import Store
from inkplex_data.store.shard import CallPart
from inkplex_data.store.snapshot import Snapshot

BLOCK_ROWS: Final = 512
Row = Mapping[str, Any]


class Copies:
    """Reads the shards of a store. Every part raises StoreCorruptError where it is damaged."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sha256 = {(ref.kind, ref.shard): ref.sha256 for ref in store.snapshot.shards}

    @classmethod
    def of(cls, target: Target) -> Copies:
        """Of the sound shards of a target's newest snapshot."""
        files = open_files(target.root)
        kept = tuple(
            ref for ref in (target.snapshot.shards if target.snapshot else ()) if ref not in target.lost
        )
        return cls(Store(files, read_description(files), Snapshot(0, kept, ())))

    def close(self) -> None:
        self._store.close()

    def call(
        self, row: Row, *, prefix_id: str | None, partner: str | None, notes: Sequence[Problem] | None
    ) -> CallMember:
        """A stored call, with its prefix and its partner as they are now; `notes` take the place of the plan's own."""
        mark = stamp("copy", self._sha256["calls", row["shard"]], row["call_id"], prefix_id, notes)
        now = {**row, "prefix_id": prefix_id}
        return CallMember(row["call_id"], mark, partner, lambda: self._part(now, notes))

    def recording(self, row: Row) -> RecordingMember:
        """A stored recording."""
        mark = stamp("copy", self._sha256["recordings", row["shard"]], row["recording_id"])
        first, rows = row["token_offset"], row["tokens"]
        tokens = self._store.table("recordings", row["shard"], "tokens")
        return RecordingMember(
            row["recording_id"], mark, row, lambda: self._states(row), lambda: tokens.read(first, rows)
        )

    def prefix(self, row: Row) -> PrefixMember:
        """A stored prefix."""
        mark = stamp("copy", self._sha256["prefixes", row["shard"]], row["prefix_id"])
        return PrefixMember(row["prefix_id"], mark, lambda: (row, self._streams("prefixes", row)))

    def voices(self, rows: Iterable[Row], recipe: Recipe) -> list[VoiceCandidate]:
        """What stretches of stored calls can lend their voice, by the words that are stored."""
        limit_s = recipe.prefix.voice_max_s if recipe.prefix is not None else 0.0
        found = []
        for row in rows:
            words = self._rows(row, "words").select(list(TimedWord.__dataclass_fields__))
            timed = [TimedWord(**word) for word in words.iter_rows(named=True)]
            start_us, end_us = voice_stretch(timed, speaker=recipe.text.main_speaker, limit_s=limit_s)
            own = (row["call_id"], row["voice"], row["split"], row["family"], row["audio_sha256"])
            found.append(VoiceCandidate(*own, start_us, end_us, row["source"]))
        return found

    def _part(self, row: Row, notes: Sequence[Problem] | None) -> CallPart:
        table = self._store.table("calls", row["shard"], "problems").read().filter(call_id=row["call_id"])
        problems = [Problem(**one) for one in table.iter_rows(named=True)]
        if notes is not None:
            problems = [*(problem for problem in problems if problem.code not in PLAN_NOTES), *notes]
        return CallPart(
            dict(row),
            self._streams("calls", row),
            self._rows(row, "words").select(list(WORDS)),
            self._rows(row, "versions"),
            problems,
            self._rows(row, "evidence"),
            self._rows(row, "claims"),
        )

    def _rows(self, row: Row, table: str) -> pl.DataFrame:
        if not row[table]:  # null in a shard that was written before there was such a table
            return pl.DataFrame(schema=TABLES["calls"][table])
        return self._store.table("calls", row["shard"], table).read(row[offset_column(table)], row[table])

    def _streams(self, kind: Any, row: Row) -> dict[str, np.ndarray]:
        first, stop = row["frame_offset"], row["frame_offset"] + row["frames"]
        return {
            stream.name: self._store.array(kind, row["shard"], stream.name).read(first, stop)
            for stream in stored_in(kind)
        }

    def _states(self, row: Row) -> Iterator[NDArray[np.uint16]]:
        if not row["state_width"]:
            return
        states, end = self._store.states(row["shard"]), row["token_offset"] + row["tokens"]
        for start in range(row["token_offset"], end, BLOCK_ROWS):
            yield states.read_rows(start, min(start + BLOCK_ROWS, end))
