"""Calls built in groups, so that the codec has as many channels at once as the recipe says (`codec.batch_rows`).

Neither neighbours nor place in a batch change a row's codes, so that a resumed build, which groups what is left, ends in
the bytes of an undisturbed one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast

from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.build_call import CallJob
from inkplex_data.pipeline.execute import Executor, Outcome

SIDES: Final = 2
"""Channels of a call."""

SORTED_GROUPS: Final = 16
"""So many groups' calls are sorted by length among themselves: shards are finished nearly in order, and few rows idle."""

A = TypeVar("A")
R = TypeVar("R")
Perform = Callable[[CallJob], Any]


class InStep:
    """An executor whose unit is a group of calls. A group that fails as a whole is tried call by call."""

    def __init__(self, executor: Executor, batch_rows: int) -> None:
        self._executor = executor
        self._calls = batch_rows // SIDES

    @property
    def workers(self) -> int:
        return self._executor.workers

    def map(
        self, function: Callable[[A], R], arguments: Sequence[A], *, alone: bool = False
    ) -> Iterator[Outcome[R]]:
        perform, jobs = cast(Perform, function), cast(Sequence[CallJob], arguments)
        groups = groups_of([job.scan.frames for job in jobs], 1 if alone else self._calls)
        units = [(perform, tuple(jobs[index] for index in group)) for group in groups]
        again: list[int] = []
        for outcome in self._executor.map(_build_group, units, alone=alone):
            group = groups[outcome.index]
            if outcome.error is None:
                assert outcome.value is not None
                for index, (value, error) in zip(group, outcome.value, strict=True):
                    yield Outcome(index, value, error)
            elif len(group) == 1:
                yield Outcome(group[0], error=outcome.error)
            else:
                again += group
        if again:
            for single in self.map(function, [arguments[index] for index in again], alone=True):
                yield dataclasses.replace(single, index=again[single.index])

    def close(self, *, cancel: bool = False) -> None:
        self._executor.close(cancel=cancel)


def groups_of(frames: Sequence[int], calls: int) -> list[tuple[int, ...]]:
    """Places in `frames` in groups of at most `calls`, of similar lengths."""
    found: list[tuple[int, ...]] = []
    for first in range(0, len(frames), calls * SORTED_GROUPS):
        window = range(first, min(first + calls * SORTED_GROUPS, len(frames)))
        order = sorted(window, key=lambda place: (-frames[place], place))
        found += [tuple(order[at : at + calls]) for at in range(0, len(order), calls)]
    return found


def _build_group(unit: tuple[Perform, tuple[CallJob, ...]]) -> list[tuple[Any, Exception | None]]:
    """What became of each call of a group: value, or the exception that stopped it."""
    from inkplex_data.speech.codec_lockstep import Lockstep, SharedCodec
    from inkplex_data.speech.codec_mimi import MimiCodec

    function, jobs = unit
    recipe = jobs[0].recipe
    # Loaded before the threads ask for them all at once.
    codec = tools.codec(recipe.codec, jobs[0].device)
    tools.tokenizer(recipe.text.tokenizer)
    batch = Lockstep(codec, len(jobs)) if isinstance(codec, MimiCodec) else None

    def one(place: int) -> tuple[Any, Exception | None]:
        job = jobs[place]
        if batch is not None and isinstance(codec, MimiCodec):
            job = dataclasses.replace(job, codec=SharedCodec(codec, batch, place))
        try:
            return function(job), None
        except Exception as error:
            return None, error
        finally:
            if batch is not None:
                batch.leave(place)

    with ThreadPoolExecutor(len(jobs)) as threads:
        return list(threads.map(one, range(len(jobs))))
