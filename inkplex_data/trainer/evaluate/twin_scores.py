"""Counterfactual twins scored as pairs: does each call follow its own evidence rather than its twin's?

Two calls on twin recordings have the same past until a moment, and other evidence and another answer after it
(`memory.twins`). Each is scored with its own memory and with its twin's, from the fork on.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import polars as pl
import torch

from inkplex_data.clock import FRAME_US
from inkplex_data.loader.prefix_choice import OWN, PrefixChoice
from inkplex_data.memory.twins import counterfactual_pairs
from inkplex_data.store.call import Call
from inkplex_data.store.reader import Store
from inkplex_data.trainer.evaluate.bootstrap import RESAMPLES, Difference, paired_difference
from inkplex_data.trainer.evaluate.replay import call_memory
from inkplex_data.trainer.evaluate.scoring import EVERYTHING, calls_with_states
from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.run.objective import FIRST_PIECE, voice_and_text_loss

TWIN_SCORES: dict[str, pl.DataType] = {
    "call_id": pl.String(),
    "twin_call_id": pl.String(),
    "family": pl.String(),
    "fork_frame": pl.Int64(),
    "same_audio": pl.Boolean(),
    "same_start": pl.Boolean(),
    "targets": pl.Int64(),
    "own": pl.Float64(),
    "twin": pl.Float64(),
    "twin_targets": pl.Int64(),
    "twin_own": pl.Float64(),
    "twin_twin": pl.Float64(),
    "right": pl.Boolean(),
}
"""One row for each pair: summed first-piece losses in nats of both calls from the fork on, with their own and
with each other's memory. `right`: each call is likelier with its own."""


def twin_pairs(store: Store, split: str, among: Collection[str] | None = None) -> pl.DataFrame:
    """`memory.twins.PAIRS` of the calls of a split that have states; both are in `among`, if that is given."""
    calls = store.calls().filter(pl.col("split") == split).collect()
    calls = calls.filter(pl.col("call_id").is_in(calls_with_states(store)))
    if among is not None:
        calls = calls.filter(pl.col("call_id").is_in(list(among)))
    return counterfactual_pairs(calls, store.branches())


@torch.no_grad()
def score_twins(
    model: ConnectedLM,
    store: Store,
    *,
    split: str,
    calls: Collection[str] | None = None,
    prefix: str = OWN,
) -> pl.DataFrame:
    """`TWIN_SCORES` of a split, or of pairs within `calls`, behind `prefix` (`loader.prefix_choice`). Pairs that reach beyond the model's context, or whose calls say no first piece
    after the fork, are left out."""
    rows, prefixes = [], PrefixChoice(store, prefix)
    for pair in twin_pairs(store, split, calls).iter_rows(named=True):
        first, second = (prefixes.call(pair[name], name) for name in ("call_id", "twin_call_id"))
        forks = [_fork_frame(pair["fork_us"], call) for call in (first, second)]
        own = _loss(model, store, first, first, forks[0])
        twin = _loss(model, store, first, second, forks[0])
        twin_own = _loss(model, store, second, second, forks[1])
        twin_twin = _loss(model, store, second, first, forks[1])
        if own is None or twin is None or twin_own is None or twin_twin is None:
            continue
        rows.append(
            {
                **{name: pair[name] for name in ("call_id", "twin_call_id", "fork_frame")},
                **{name: pair[name] for name in ("same_audio", "same_start")},
                "family": first.row["family"],
                "targets": own[1],
                "own": own[0],
                "twin": twin[0],
                "twin_targets": twin_own[1],
                "twin_own": twin_own[0],
                "twin_twin": twin_twin[0],
                "right": own[0] < twin[0] and twin_own[0] < twin_twin[0],
            }
        )
    return pl.DataFrame(rows, schema=TWIN_SCORES)


def summarise_twins(
    scores: pl.DataFrame, *, left_out: int = 0, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """Pairs, how many were left out, the share that is right, and how much likelier first pieces are with their own
    memory (nats, with its lower bound over families)."""
    gain: Difference | None = paired_difference(
        (scores["twin"] + scores["twin_twin"]).to_numpy(),
        (scores["own"] + scores["twin_own"]).to_numpy(),
        (scores["targets"] + scores["twin_targets"]).to_numpy(),
        scores["family"].to_list(),
        resamples=resamples,
        seed=seed,
    )
    return {
        "pairs": scores.height,
        "left_out": left_out,
        "right": float(scores["right"].mean() or 0.0) if scores.height else None,  # type: ignore[arg-type]
        "gain": None if gain is None else gain.value,
        "gain_lower": None if gain is None else gain.lower,
    }


def _fork_frame(fork_us: int, call: Call) -> int:
    """The first frame of a call that can see what differs."""
    starts_at_us = call.recording_starts_at_us
    assert starts_at_us is not None
    return max(0, -((starts_at_us - fork_us) // FRAME_US))


def _loss(
    model: ConnectedLM, store: Store, call: Call, memory_of: Call, fork_frame: int
) -> tuple[float, int] | None:
    """Summed first-piece loss of `call` from the fork on with the memory of `memory_of`, and its targets."""
    composed = call.with_prefix()
    if composed.frames > model.lm.config.context:
        return None
    table = model.lm.text_emb.weight
    # The twin's evidence at this call's own moment: sessions that are one until the fork share a clock.
    memory = call_memory(
        memory_of,
        starts_at_us=call.recording_starts_at_us,
        prefix_frames=composed.prefix_frames,
        first=0,
        steps=composed.frames,
        text_table=table,
        window=store.window,
    )
    if memory is None:
        return None
    text = torch.from_numpy(composed.text).long()[None]
    codes = torch.cat([text, torch.from_numpy(composed.codes.astype("int64"))])[None].to(table.device)
    mask = torch.from_numpy(composed.mask.copy())[None]
    mask[:, : composed.prefix_frames + fork_frame] = 0
    out, _ = model(codes, memory)
    sums = voice_and_text_loss(
        out.text_logits,
        out.logits,
        codes,
        torch.from_numpy(composed.role)[None],
        torch.tensor([composed.frames], device=table.device),
        mask=mask,
        delays=model.lm.config.delays,
        weights=EVERYTHING,
    )
    count = int(sums.part_counts[FIRST_PIECE])
    return (float(sums.part_sums[FIRST_PIECE]), count) if count else None
