"""What the agent does when the caller interrupts it: whether and when it stops, what it never says, and what it says next.

The caller's own first words are put at a declared frame of the run, after the agent has begun its answer; everything
before that frame stays as it was. What was said before the agent stopped is its history; the rest was never played.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
import torch

from inkplex_data.clock import FRAME_US
from inkplex_data.errors import UsageError
from inkplex_data.store.call import Call
from inkplex_data.trainer.evaluate.render import words_of
from inkplex_data.trainer.evaluate.said_words import SpokenWord
from inkplex_data.trainer.grounding.cases import Case, agent_words
from inkplex_data.trainer.grounding.claims.claim_verdicts import judge
from inkplex_data.trainer.grounding.claims.readings import agree
from inkplex_data.trainer.grounding.runs import CaseRunner, first_difference

QUIET_FRAMES = 6
"""About half a second without a piece: the agent has stopped."""
AFTER_FRAMES = 2
"""The caller breaks in so long after the agent's first word began, so that a part of the answer was heard."""

INTERRUPTIONS: dict[str, pl.DataType] = {
    "call_id": pl.String(),
    "family": pl.String(),
    "status": pl.String(),
    "barge_in_us": pl.Int64(),
    "barge_in_ends_us": pl.Int64(),
    "stop_us": pl.Int64(),
    "history": pl.String(),
    "cancelled": pl.String(),
    "repeated_claims": pl.Int64(),
    "next_grounded_us": pl.Int64(),
}
"""One row for each case. status: `stopped`, `went on`, or why there is none (`silent`, `no caller`). stop_us: from the barge-in to the
end of the agent's last word before it is quiet; history: its words until then; cancelled: those that it would have said; repeated_claims:
claims made again after it stopped; next_grounded_us: from the barge-in's end to the next supported claim."""


def interruptions(runner: CaseRunner, cases: Iterable[Case], *, at_frame: int | None = None) -> pl.DataFrame:
    """`INTERRUPTIONS` of the trained model's unchanged branch. `at_frame`: where the caller breaks in; by default two frames
    after the agent's first word from the branch point on."""
    return pl.DataFrame([_row(runner, case, at_frame) for case in cases], schema=INTERRUPTIONS)


def _row(runner: CaseRunner, case: Case, at_frame: int | None) -> dict[str, object]:
    about = {"call_id": case.call.call_id, "family": case.family}
    branch = case.branches[0]
    try:
        base = runner.alone(case, branch)
    except UsageError as error:
        return {**about, "status": error.what}
    plan, pieces = base.plan, runner.generator.pieces
    own = [word for word in words_of(base, pieces) if word.start >= max(plan.free, case.fork_frame)]
    sound = caller_sound(case.call)
    if not own or sound is None:
        return {**about, "status": "silent" if not own else "no caller"}
    at = own[0].start + AFTER_FRAMES if at_frame is None else at_frame
    if not plan.free <= at < plan.stop:
        return {**about, "status": f"frame {at} is not generated"}
    codes = torch.from_numpy(sound.astype(np.int64))[:, : plan.stop - at]
    made = runner.alone(case, branch, barge_in=(at, codes))
    different = first_difference(base, made, runner.lm.delays.delays)
    assert different is None or different >= at  # the past of an interruption is the past
    words = [word for word in words_of(made, pieces) if word.start >= plan.free]
    stop = stop_frame(words, at, plan.stop)
    end_us = (at + codes.shape[1]) * FRAME_US
    until = plan.stop if stop is None else stop
    claims = judge([(word.start_us, word.text) for word in words], branch.items)
    before = [claim for claim in claims if claim.start_us < until * FRAME_US]
    after = [claim for claim in claims if claim.start_us >= until * FRAME_US]
    grounded = [
        claim.start_us for claim in after if claim.verdict == "supported" and claim.start_us >= end_us
    ]
    return {
        **about,
        "status": "went on" if stop is None else "stopped",
        "barge_in_us": at * FRAME_US,
        "barge_in_ends_us": end_us,
        "stop_us": None if stop is None else max(0, stop - at) * FRAME_US,
        "history": " ".join(word.text for word in words if word.start < until),
        "cancelled": " ".join(word.text for word in own if word.start >= until),
        "repeated_claims": sum(
            any(agree(claim.readings, earlier.readings) for earlier in before) for claim in after
        ),
        "next_grounded_us": min(grounded) - end_us if grounded else None,
    }


def caller_sound(call: Call) -> np.ndarray | None:
    """The caller's codes, uint16 [8, n], over its first stretch of words; None where no caller's words are known."""
    labels = call.words.filter(pl.col("frame") >= 0)["speaker"].unique().to_list()
    words = call.words.filter(~pl.col("speaker").is_in(labels)).sort("start_us")
    if not words.height or not agent_words(call):
        return None
    first = int(words["start_us"][0]) // FRAME_US
    last = first
    for start_us, end_us in words.select("start_us", "end_us").iter_rows():
        if start_us // FRAME_US > last + QUIET_FRAMES:
            break
        last = max(last, -(-end_us // FRAME_US))
    return call.codes[8:, first:last]


def stop_frame(words: Sequence[SpokenWord], at: int, ends: int) -> int | None:
    """The frame after the last piece before the agent is quiet for `QUIET_FRAMES` from `at` on; None where it never is.

    >>> stop_frame([SpokenWord("a", 1, 3), SpokenWord("b", 5, 6), SpokenWord("c", 20, 21)], 4, 30)
    6
    """
    quiet_from = at
    for word in words:
        if word.end <= at:
            continue
        if word.start >= quiet_from + QUIET_FRAMES:
            break
        quiet_from = max(quiet_from, word.end)
    return quiet_from if quiet_from + QUIET_FRAMES <= ends else None
