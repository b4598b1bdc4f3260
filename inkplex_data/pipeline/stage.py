"""A kind of work of a build, and all that is the same for every kind: stamp, resume, result, failure.

A stage says what it is called, which recipe keys it reads, and what it makes of one job. Whether a job has been
done, under which stamp, where its result lies and how it is read back is written here, once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from inkplex_data.config.recipe import Recipe
from inkplex_data.errors import MachineFault
from inkplex_data.machine import machine_fault
from inkplex_data.pipeline.execute import Executor
from inkplex_data.pipeline.ledger import Ledger
from inkplex_data.pipeline.outcome import Refusals
from inkplex_data.pipeline.progress import Reporter
from inkplex_data.pipeline.recipe_keys import RecipeKeys, is_declared, recipe_value
from inkplex_data.pipeline.result_files import load_field, load_result, save_result
from inkplex_data.pipeline.stamp import file_stamp, stamp
from inkplex_data.plural import counted


@dataclass(frozen=True)
class Build:
    """What all jobs of one build share. `recipe_files`: per recipe key, the identity of the files that it names. `device`:
    where models run, of the class that the recipe says: `cpu`, `cuda` or `cuda:N`."""

    recipe: Recipe
    store_root: Path
    corpus_root: Path
    recipe_files: dict[str, str] = field(default_factory=dict)
    device: str = "cpu"

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store_root)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one unit of a stage works on.

    Every field is an input and part of the stamp; a path stands for the file's identity. Fields with
    `compare=False` are not: they follow from others, or decide nothing about the result.
    """

    build: Build = field(compare=False)

    @property
    def key(self) -> str:
        """What tells this job from the stage's others."""
        raise NotImplementedError

    @property
    def audio_us(self) -> int:
        """Audio that the unit covers, for the rate that progress shows."""
        return 0

    @property
    def recipe(self) -> Recipe:
        """In `Stage.run` it holds the keys that the stage declares and refuses every other."""
        return self.build.recipe

    @property
    def device(self) -> str:
        """Where the stage's model runs."""
        return self.build.device


J = TypeVar("J", bound=Job)
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Stage(Generic[J, R]):
    """One kind of work.

    `recipe`: the dotted recipe keys that `run` reads, and with them those of the stages that it asks itself
    (`after`). `result`: the dataclass that `run` returns. `head`: the field of it that the driver gets back;
    the rest stays in the working folder. `found_files`: files that only the work itself found. `unit`: what
    progress counts. `needs_device`: whether it runs a model on the build's device; then it declares the key `device`.
    """

    name: str
    version: int
    result: type[R]
    run: Callable[[J, Path], R]
    recipe: tuple[str, ...] = ()
    after: tuple[Stage[Any, Any], ...] = ()
    head: str | None = None
    found_files: Callable[[R], Iterable[Path]] | None = None
    unit: str = "calls"
    needs_device: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker process has its own list of stages; a name is all that travels.
        from inkplex_data.pipeline.stages import stage_named

        return stage_named, (self.name,)

    @cached_property
    def recipe_keys(self) -> frozenset[str]:
        """Its own keys and those of the stages before it."""
        return frozenset(self.recipe).union(*(stage.recipe_keys for stage in self.after))

    @cached_property
    def versions(self) -> dict[str, int]:
        """Its own version and those of the stages before it."""
        known = {self.name: self.version}
        for stage in self.after:
            known |= stage.versions
        return known

    def stamp(self, job: J) -> str:
        """What identifies the job's result: versions, the declared recipe keys and their files, all fields of the job."""
        options = {key: recipe_value(job.recipe, key) for key in self.recipe_keys}
        files = {
            key: identity
            for key, identity in job.build.recipe_files.items()
            if is_declared(key, self.recipe_keys)
        }
        return stamp(self.versions, options, files, str(job.build.corpus_root), job)

    def folder(self, job: J) -> Path:
        """Where the result lies once it is there."""
        return job.build.ledger.folder(self.name, job.key)

    def do(self, job: J) -> R:
        """The job's result: read back where it is there under its stamp, made and kept otherwise."""
        return load_result(self._result_folder(job), self.result)

    def perform(self, job: J) -> Any:
        """As `do`, for the driver of a build: only the head comes back. Raises MachineFault for what is no call's fault."""
        try:
            folder = self._result_folder(job)
            return load_field(folder, self.result, self.head) if self.head is not None else None
        except Exception as error:
            # Here, where the causes are still known: they do not travel between processes.
            fault = machine_fault(error, job.build.ledger.root)
            if fault is None or fault is error:
                raise
            raise fault from error

    def _result_folder(self, job: J) -> Path:
        ledger, mark = job.build.ledger, self.stamp(job)
        folder = ledger.done(self.name, job.key, mark)
        if folder is not None:
            return folder
        view = cast(Recipe, RecipeKeys(job.recipe, self.recipe_keys, stage=self.name))
        own = dataclasses.replace(job, build=dataclasses.replace(job.build, recipe=view))
        with ledger.result(self.name, job.key, mark) as result:
            made = self.run(own, result.folder)
            save_result(result.folder, made)
            if self.found_files is not None:
                result.files = [file_stamp(path) for path in self.found_files(made)]
        return self.folder(job)


@dataclass(frozen=True)
class Unit(Generic[J]):
    """What became of one job: `head` of its result, or `failed`, and then its calls are refused already."""

    job: J
    head: Any
    failed: bool


def run_stage(
    stage: Stage[J, Any],
    jobs: Sequence[J],
    *,
    executor: Executor,
    reporter: Reporter,
    refusals: Refusals,
    calls_of: Callable[[J], Iterable[str]],
) -> Iterator[Unit[J]]:
    """Perform every job, in any order. One that fails refuses `calls_of` it; what would stop all is raised.

    What the machine stopped is tried again at the end, one at a time. Raises MachineFault where it fails again: that
    says nothing about the call, so nothing of it is published.
    """
    if not jobs:
        return
    reporter.stage(stage.name, len(jobs), unit=stage.unit)
    again: list[J] = []

    def units(jobs: Sequence[J], *, alone: bool) -> Iterator[Unit[J]]:
        for outcome in executor.map(stage.perform, jobs, alone=alone):
            job = jobs[outcome.index]
            if isinstance(outcome.error, MachineFault):
                if alone or outcome.error.is_final:
                    raise _named(outcome.error, stage.name, job.key) from outcome.error
                again.append(job)
                continue
            if outcome.error is not None:
                for call_id in calls_of(job):
                    refusals.refuse(call_id, outcome.error)
            yield Unit(job, outcome.value, outcome.error is not None)
            reporter.advance(stage.name, audio_us=job.audio_us)

    yield from units(jobs, alone=False)
    if again:
        reporter.note(f"{stage.name}: {counted(len(again), 'unit')} again, one at a time")
        yield from units(again, alone=True)


def _named(fault: MachineFault, stage: str, key: str) -> MachineFault:
    """The fault with the unit that met it."""
    where = f" ({fault.where})" if fault.where else ""
    return MachineFault(f"{fault.what}{where}", where=f"{stage} {key!r}", next_step=fault.next_step)
