"""Generation of every branch of a case from the exact common prefix, with the same draws to come.

Up to the branch point there is one run: its text, its voice, its keys and values, its random state. There it is forked, and each branch
goes on with its own memory and nothing else. That a run from the beginning says the same word for word is proven anew
for each case with the branch that changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inkplex_data.clock import FRAME_RATE_HZ, FRAME_US
from inkplex_data.errors import UsageError
from inkplex_data.grid import CODEBOOKS
from inkplex_data.memory.branches import DERIVED, clip_versions, derive, shared_rows
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.store.call import Call
from inkplex_data.trainer.evaluate.generate import Generator
from inkplex_data.trainer.evaluate.replay import (
    Replayed,
    ReplayPlan,
    assembled_memory,
    call_memory,
    caller_ids,
    forced_ids,
    plan_replay,
)
from inkplex_data.trainer.grounding.cases import Branch, Case
from inkplex_data.trainer.memory.connector import CallMemory
from inkplex_data.trainer.memory.streaming_memory import LiveMemory
from inkplex_data.trainer.model.generator import StreamingGenerator
from inkplex_data.trainer.model.temporal import BlockHook

LEAD_FRAMES = int(FRAME_RATE_HZ)
"""The model is free from a second before the branch point on, so that it could say too early what it cannot know."""

Hooks = Mapping[int, BlockHook] | None


@dataclass(frozen=True)
class Course:
    """What a case is generated along. forced: int64 [17, forced frames]; fork_step: the first step that can see the result."""

    plan: ReplayPlan
    forced: Tensor
    fork_step: int


class CaseRunner:
    """Generates branches of cases with one trained model, through the generator that knows its store."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.lm = generator.trained.speech.lm
        self.readers = generator.trained.model.memory

    def course(self, case: Case, *, call: Call | None = None) -> Course:
        """The course of a case, or of its call behind another prefix. Raises UsageError where it does not fit the model."""
        call = self.placed(case) if call is None else call
        plan = plan_replay(
            call,
            prefix_frames=call.with_prefix().prefix_frames,
            context=self.lm.config.context,
            delay=self.lm.delays.maximum,
            options=self.generator.options,
            before=case.fork_frame - LEAD_FRAMES,
        )
        if not plan.first <= case.fork_frame < plan.stop:
            raise UsageError(
                f"its result arrives at frame {case.fork_frame}, outside the frames {plan.first} to {plan.stop} of its replay",
                where=call.call_id,
                next_step="Generate more seconds.",
            )
        return Course(plan, forced_ids(call, plan), plan.prefix_frames + case.fork_frame - plan.first)

    def placed(self, case: Case) -> Call:
        """The call behind the prefix that the generator was asked for."""
        name = case.call.call_id
        return self.generator.prefixes.call(name, self.generator.options.seed, name)

    def branches(self, case: Case) -> dict[str, Replayed]:
        """Each branch of a case by its name, forked off one run. Raises UsageError for a case that cannot be had."""
        course = self.course(case)
        begun = self._begin(case, course, self._hooks(self._memory(case, case.branches[0], course.plan)))
        self._advance(begun, course, self._caller(case, case.branches[0], course.plan), course.fork_step)
        found = {}
        for branch in case.branches:
            hooks = self._hooks(self._memory(case, branch, course.plan))
            found[branch.name] = self._finish(
                _Going(begun.generator.fork(hooks), list(begun.ids)),
                course,
                self._caller(case, branch, course.plan),
            )
        return found

    def alone(
        self,
        case: Case,
        branch: Branch | None,
        *,
        memory: Literal["own", "wrong", "none"] = "own",
        call: Call | None = None,
        barge_in: tuple[int, Tensor] | None = None,
    ) -> Replayed:
        """One run from the beginning: of a branch, or under another task's memory or none.

        `call`: the case's call behind another prefix. `barge_in`: a frame, and the codes int64 [8, n] that the caller is
        heard with from it on.
        """
        course = self.course(case, call=call)
        if memory == "own":
            assert branch is not None
            remembered = self._memory(case, branch, course.plan)
        else:
            remembered = self._wrong(case, course.plan) if memory == "wrong" else None
        going = self._begin(case, course, self._hooks(remembered))
        caller = self._caller(case, branch or case.branches[0], course.plan)
        if barge_in is not None:
            first, codes = barge_in[0] - course.plan.free, barge_in[1].to(caller.device)
            caller[:, first : first + codes.shape[1]] = codes
        return self._finish(going, course, caller)

    def _begin(self, case: Case, course: Course, hooks: Hooks) -> _Going:
        options = self.generator.options
        generator = StreamingGenerator(
            self.lm,
            sampling=options.sampling,
            seed=options.seed_of(case.call.call_id),
            ring=options.ring,
            after_block=hooks,
        )
        return _Going(generator, [])

    def _advance(self, going: _Going, course: Course, caller: Tensor, until_step: int) -> None:
        forced = course.forced.to(self.lm.device)
        generator, count = going.generator, forced.shape[1]
        for at in range(generator.next_step, until_step):
            if at < count:
                step = generator.step(forced[None, :, at])
            else:
                step = generator.step(generator.frame(caller=caller[None, :, at - count]))
            if step.codes is not None:
                going.ids.append(step.codes)

    def _finish(self, going: _Going, course: Course, caller: Tensor) -> Replayed:
        plan = course.plan
        self._advance(going, course, caller, plan.steps)
        ids = torch.cat(going.ids)
        kept = ids[plan.prefix_frames : plan.prefix_frames + plan.stop - plan.first].T.cpu().numpy()
        return Replayed(plan, kept)

    def _caller(self, case: Case, branch: Branch, plan: ReplayPlan) -> Tensor:
        """The caller from the first free frame on, int64 [8, n]: the call's own until the fork, then that of the branch."""
        silence = self.generator.silence
        own = caller_ids(case.call, plan, silence)
        if branch.source is case.call or branch.source.call_id == case.call.call_id:
            return own.to(self.lm.device)
        theirs = caller_ids(branch.source, plan, silence)
        before = max(0, case.fork_frame - plan.free)
        return torch.cat([own[:, :before], theirs[:, before:]], dim=1).to(self.lm.device)

    def _hooks(self, memory: CallMemory | None) -> Hooks:
        if self.readers is None or memory is None:
            return None
        return LiveMemory(self.readers, memory).after_block

    def _wrong(self, case: Case, plan: ReplayPlan) -> CallMemory | None:
        return call_memory(
            self.placed(case).wrong_memory(),
            prefix_frames=plan.prefix_frames,
            first=plan.first,
            steps=plan.steps,
            text_table=self.lm.text_emb.weight,
            window=self.generator.store.window,
        )

    def _memory(self, case: Case, branch: Branch, plan: ReplayPlan) -> CallMemory | None:
        if self.readers is None:
            return None
        return branch_memory(
            case,
            branch,
            plan,
            text_table=self.lm.text_emb.weight,
            window=self.generator.store.window,
        )


@dataclass
class _Going:
    """A run so far: frames int64 [1, 17] that have come out, those of the prefix first."""

    generator: StreamingGenerator
    ids: list[Tensor]


def branch_memory(
    case: Case, branch: Branch, plan: ReplayPlan, *, text_table: Tensor, window: int
) -> CallMemory | None:
    """What the steps of a plan see of a branch's memory; None without states."""
    source = branch.source
    states = source.states
    if states is None:
        return None
    tokens, until_us = source.tokens, None
    if branch.derived:
        partner = _partner(case.call) if branch.kind == "irrelevant" else None
        assert branch.kind in DERIVED
        made = derive(
            branch.kind,
            tokens,
            case.fork_us,
            delay_us=branch.delay_us,
            partner=None if partner is None else partner.tokens,
        )
        if partner is not None:
            theirs = partner.states
            assert theirs is not None
            states = _states(states, theirs, made.state_row, made.foreign)
        tokens, until_us = made.tokens, made.until_us
    else:
        # Captured twice, the shared past may differ in its last bits: both branches remember the call's own.
        own = case.call.states
        assert own is not None
        row, shared = shared_rows(tokens, case.call.tokens, case.fork_us)
        states = _states(states, own, row, shared)
    clock = SessionClock(case.starts_at_us + plan.first * FRAME_US, plan.prefix_frames, plan.steps)
    versions = build_versions(tokens, clock, window=window, permitted=source.permitted)
    if until_us is not None:
        versions = clip_versions(versions, plan.prefix_frames + case.fork_frame - plan.first)
    return assembled_memory(tokens, states, versions, text_table)


def _states(own: Tensor, other: Tensor, row: NDArray[np.int64], foreign: NDArray[np.bool_]) -> Tensor:
    """States [N, 3, D] of tokens, row by row: `row` of `other` where `foreign`, else `row` of `own`."""
    rows, from_other = torch.from_numpy(row), torch.from_numpy(foreign)
    picked = own[torch.where(from_other, 0, rows)]
    picked[from_other] = other[rows[from_other]]
    return picked


def _partner(call: Call) -> Call:
    """Whose tokens irrelevant memory has. Raises UsageError for a call without a partner, or one without states."""
    partner = call.wrong_memory()
    assert partner.memory_of is not None
    if partner.states is None:
        raise UsageError(f"call {partner.memory_of.call_id!r} has no recording with states")
    return partner.memory_of


def first_difference(one: Replayed, other: Replayed, delays: Sequence[int]) -> int | None:
    """The first frame of the call in whose step two runs of one plan drew different ids; None where they never did.

    `delays`: of the model's streams. What a stream with delay d holds at frame t is drawn d steps later.
    """
    differs = one.ids != other.ids
    drawn = [np.flatnonzero(row) + delay for row, delay in zip(differs, delays, strict=True)]
    steps = np.concatenate(drawn)
    return int(steps.min()) + one.plan.first if len(steps) else None


def digest(replayed: Replayed) -> str:
    """Of the agent's text and voice, to say in a table that two runs are one."""
    own: NDArray[np.int64] = replayed.ids[: 1 + CODEBOOKS]
    return hashlib.sha256(np.ascontiguousarray(own).tobytes()).hexdigest()[:16]
