"""Replaying calls of a store with a trained model, and what the generations are like.

Teacher-forced losses alone mislead: a model may score well and say nothing when it is free. So generations are
counted beside them: empty ones, words, repeated phrases, the delay after the caller's turn, and turn-taking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.audio.turns import Intervals, turn_statistics, units
from inkplex_data.clock import FRAME_US, US_PER_S
from inkplex_data.errors import UsageError
from inkplex_data.loader.prefix_choice import OWN, PrefixChoice
from inkplex_data.store.call import Call
from inkplex_data.store.reader import Store
from inkplex_data.trainer.evaluate.render import (
    decode_stereo,
    folder_name,
    generation_json,
    silence_codes,
    words_of,
    write_generation,
)
from inkplex_data.trainer.evaluate.replay import (
    Replayed,
    ReplayOptions,
    call_memory,
    caller_ids,
    plan_replay,
    replay,
)
from inkplex_data.trainer.evaluate.said_words import has_pieces, repeated_phrases
from inkplex_data.trainer.evaluate.scores import aligned
from inkplex_data.trainer.run.run_files import TrainedModel

if TYPE_CHECKING:
    from inkplex_data.speech.codec_stream import Codec

NAMES = {"none": "baseline", "own": "trained", "wrong": "wrong-memory"}
"""File names by memory, where the model reads any: without memory the readers are silent."""

GENERATIONS: dict[str, pl.DataType] = {
    "call_id": pl.String(),
    "family": pl.String(),
    "memory": pl.String(),
    "free_from_us": pl.Int64(),
    "empty": pl.Boolean(),
    "words": pl.Int64(),
    "repeated_phrases": pl.Int64(),
    "onset_delay_us": pl.Int64(),
    "agent_speech_us": pl.Int64(),
    "pause_us": pl.Int64(),
    "gap_us": pl.Int64(),
    "overlap_us": pl.Int64(),
    "text": pl.String(),
    "scripted_words": pl.Int64(),
    "scripted_onset_delay_us": pl.Int64(),
    "scripted_text": pl.String(),
}
"""One row for each call and memory, over the free window. Speech, pauses, gaps and overlaps come from word
times. onset_delay_us: from the end of the caller's last word before the response to the first generated word;
`scripted_…` is what the call itself says there."""


@dataclass(frozen=True)
class Generation:
    """One call generated under one memory."""

    call: Call
    memory: str
    replayed: Replayed


class Generator:
    """Replays calls of a store. The same call has the same seed and the same prefix under every memory."""

    def __init__(
        self,
        trained: TrainedModel,
        store: Store,
        codec: Codec,
        options: ReplayOptions | None = None,
        *,
        prefix: str = OWN,
    ) -> None:
        """`prefix`: see `loader.prefix_choice`. Raises UsageError for a store without pieces, and for a prefix that it
        has not."""
        pieces = store.pieces()
        if pieces is None:
            raise UsageError(
                "it keeps no text pieces, so generated text cannot be read",
                where=store.root,
                next_step="Build the store again.",
            )
        self.trained, self.store, self.codec = trained, store, codec
        self.options = options or ReplayOptions()
        self.prefixes = PrefixChoice(store, prefix)
        self.pieces: list[str] = pieces.to_list()
        delay = trained.speech.lm.delays.maximum
        self.silence = silence_codes(codec, self.options.frames + delay)

    def generate(self, call_id: str, memory: str) -> Generation:
        """One call under `none`, `own` or `wrong` memory. Raises UsageError for one that cannot be had."""
        call, lm = self.prefixes.call(call_id, self.options.seed, call_id), self.trained.speech.lm
        prefix_frames = call.with_prefix().prefix_frames
        plan = plan_replay(
            call,
            prefix_frames=prefix_frames,
            context=lm.config.context,
            delay=lm.delays.maximum,
            options=self.options,
        )
        remembered = None
        if memory != "none":
            remembered = call_memory(
                call.wrong_memory() if memory == "wrong" else call,
                prefix_frames=prefix_frames,
                first=plan.first,
                steps=plan.steps,
                text_table=lm.text_emb.weight,
                window=self.store.window,
            )
            if remembered is None:
                raise UsageError(f"call {call_id!r} has no recording with states, so no {memory} memory")
        replayed = replay(
            lm,
            call,
            plan,
            caller_ids(call, plan, self.silence),
            self.options,
            readers=self.trained.model.memory,
            memory=remembered,
        )
        return Generation(call, memory, replayed)

    def write(self, made: Generation, out: Path, *, audio: bool = True) -> list[Path]:
        """`OUT/CALL/NAME.wav` and `.json`; returns their paths."""
        document = generation_json(
            made.call.call_id,
            made.memory,
            made.replayed,
            self.pieces,
            options=self.options,
            provenance={**self.provenance(), "prefix_id": made.call.row["prefix_id"]},
        )
        sound = decode_stereo(self.codec, made.replayed) if audio else None
        name = "trained" if self.trained.model.memory is None else NAMES[made.memory]
        return write_generation(out / folder_name(made.call.call_id), name, document, sound)

    def provenance(self) -> dict[str, Any]:
        """Where the generations come from, as JSON values."""
        return {
            **self.trained.provenance(),
            "model": self.trained.speech.identity,
            "codec": self.codec.identity.id,
            "untrained_codec": self.codec.identity.untrained,
            "store": self.store.root,
        }

    def measure(self, made: Generation) -> dict[str, object]:
        """A row of `GENERATIONS`."""
        plan, call = made.replayed.plan, made.call
        said = [word for word in words_of(made.replayed, self.pieces) if word.start >= plan.free]
        free_us, stop_us = plan.free * FRAME_US, plan.stop * FRAME_US
        words = call.words
        agent_label = words.filter(pl.col("frame") >= 0)["speaker"].to_list()[:1]
        caller = words.filter(~pl.col("speaker").is_in(agent_label))
        scripted = words.filter(
            pl.col("speaker").is_in(agent_label),
            pl.col("start_us") >= free_us,
            pl.col("start_us") < stop_us,
        ).sort("start_us")
        turn_us = _turn_end_us(caller, free_us)
        agent_units = units([[word.start_us, word.end_us] for word in said])
        turns = turn_statistics(
            agent_units - free_us if len(agent_units) else agent_units,
            _clipped(caller, free_us, stop_us),
            stop_us - free_us,
        )
        onset_us = said[0].start_us if said else None
        scripted_us = scripted["start_us"].to_list()[:1]
        return {
            "call_id": call.call_id,
            "family": call.row["family"],
            "memory": made.memory,
            "free_from_us": free_us,
            "empty": not has_pieces(made.replayed.text[plan.free - plan.first :].tolist()),
            "words": len(said),
            "repeated_phrases": repeated_phrases([word.text for word in said]),
            "onset_delay_us": None if onset_us is None or turn_us is None else onset_us - turn_us,
            "agent_speech_us": turns.agent_speech_us,
            "pause_us": int(turns.pauses_us.sum()),
            "gap_us": int(turns.gaps_us.sum()),
            "overlap_us": int(turns.overlaps_us.sum()),
            "text": " ".join(word.text for word in said),
            "scripted_words": scripted.height,
            "scripted_onset_delay_us": scripted_us[0] - turn_us
            if scripted_us and turn_us is not None
            else None,
            "scripted_text": " ".join(scripted["text"]),
        }


def measure_generations(
    generator: Generator,
    calls: Iterable[str],
    memories: Sequence[str],
    *,
    keep: Callable[[Generation], None] | None = None,
    advance: Callable[[], None] | None = None,
) -> tuple[pl.DataFrame, dict[str, str]]:
    """`GENERATIONS` of calls under each memory, and why calls could not be generated, by name.

    `keep` gets each generation as it is made; `advance` is called after each, made or not.
    """
    rows: list[dict[str, object]] = []
    refused: dict[str, str] = {}
    for call_id in calls:
        for memory in memories:
            try:
                made = generator.generate(call_id, memory)
            except UsageError as error:
                refused[call_id] = error.what
            else:
                if keep is not None:
                    keep(made)
                rows.append(generator.measure(made))
            if advance is not None:
                advance()
    return pl.DataFrame(rows, schema=GENERATIONS), refused


def summarise_generations(table: pl.DataFrame) -> list[dict[str, Any]]:
    """One JSON object for each memory, and one for what the calls themselves say there (`scripted`).

    `empty` is a share; words, repeated phrases, speech, pauses, gaps and overlaps are means of a call;
    the onset delay is the median of the calls that have one. Seconds; None where nothing is known.
    """
    found = []
    for memory, name in NAMES.items():
        rows = table.filter(pl.col("memory") == memory)
        if rows.height:
            found.append(
                {
                    "name": name,
                    "memory": memory,
                    "calls": rows.height,
                    "empty": _mean(rows["empty"].cast(pl.Float64)),
                    "words": _mean(rows["words"]),
                    "repeated_phrases": _mean(rows["repeated_phrases"]),
                    "onset_delay_s": _seconds(rows["onset_delay_us"].median()),
                    **{
                        f"{kind}_s": _seconds(_mean(rows[f"{kind}_us"]))
                        for kind in ("agent_speech", "pause", "gap", "overlap")
                    },
                }
            )
    if table.height:
        once = table.unique("call_id", keep="first")
        found.append(
            {
                "name": "scripted",
                "memory": None,
                "calls": once.height,
                "empty": _mean((once["scripted_words"] == 0).cast(pl.Float64)),
                "words": _mean(once["scripted_words"]),
                "repeated_phrases": None,
                "onset_delay_s": _seconds(once["scripted_onset_delay_us"].median()),
                **{f"{kind}_s": None for kind in ("agent_speech", "pause", "gap", "overlap")},
            }
        )
    return found


def generations_text(table: pl.DataFrame) -> str:
    """What generations are like, one line for each memory, beside the scripted responses."""
    counts = ("free generation", "calls", "empty", "words", "repeats")
    lines: list[tuple[str, ...]] = [(*counts, "onset delay", "speech", "pauses", "gaps", "overlaps")]
    lengths = ("onset_delay_s", "agent_speech_s", "pause_s", "gap_s", "overlap_s")
    for row in summarise_generations(table):
        lines.append(
            (
                row["name"],
                f"{row['calls']}",
                f"{row['empty']:.0%}",
                f"{row['words']:.1f}",
                "–" if row["repeated_phrases"] is None else f"{row['repeated_phrases']:.1f}",
                *("–" if row[name] is None else f"{row[name]:.2f} s" for name in lengths),
            )
        )
    return aligned(lines)


def _mean(values: pl.Series) -> float:
    return float(values.to_numpy().mean())


def _seconds(us: Any) -> float | None:
    return None if us is None else float(us) / US_PER_S


def _turn_end_us(caller: pl.DataFrame, free_us: int) -> int | None:
    """End of the caller's last word that began before the response; None where no caller's words are known."""
    before = caller.filter(pl.col("start_us") < free_us)
    return int(before["end_us"].to_numpy().max()) if before.height else None


def _clipped(words: pl.DataFrame, begin_us: int, end_us: int) -> Intervals:
    """Units of words within [begin, end), relative to begin."""
    spans: NDArray[np.int64] = words.select("start_us", "end_us").to_numpy().astype(np.int64)
    return units(spans.clip(begin_us, end_us) - begin_us)
