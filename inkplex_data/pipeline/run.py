"""The build itself: scan, recordings, plan, prefixes, calls, shards, snapshot. Each stage resumes by its ledger.

The order of events is fixed by the corpus and the recipe; workers only change how fast they happen.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.entry import CallEntry, Corpus
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.swap import with_swapped
from inkplex_data.errors import CorpusError
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.augmentation import noise_files
from inkplex_data.pipeline.calls.build_call import CALL, CallJob
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import SCAN, Scan, ScanJob
from inkplex_data.pipeline.execute import Executor, make_executor
from inkplex_data.pipeline.ledger import Ledger
from inkplex_data.pipeline.outcome import Refusals, Summary, summarise
from inkplex_data.pipeline.planning.build_plan import BuildPlan, Planner
from inkplex_data.pipeline.prefixes import PREFIX
from inkplex_data.pipeline.progress import Reporter, SilentReporter
from inkplex_data.pipeline.recipe_keys import recipe_files
from inkplex_data.pipeline.recordings import RECORDING, FoundRecording, RecordingJob
from inkplex_data.pipeline.shards import calls_stamp, write_call_shard, write_prefixes, write_recordings
from inkplex_data.pipeline.stage import Build, J, Stage, Unit, run_stage
from inkplex_data.pipeline.target import Target, open_target, refuse_foreign
from inkplex_data.problems import Problem
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.snapshot import NEWEST_KEY


def build_store(
    corpus: Path,
    store: Path,
    *,
    recipe: Recipe,
    workers: int | None = None,
    scheduler: str | None = None,
    add: bool = False,
    restart: bool = False,
    root: Path | None = None,
    reporter: Reporter | None = None,
) -> Summary:
    """Encode `corpus` into `store`, going on where an earlier run stopped.

    A call that cannot be built is refused and named in the summary; the others are published. `add`
    allows calls that the store's last snapshot does not know; `restart` empties the store first.

    Raises CorpusError for a corpus that cannot be listed, ConfigError and UsageError for wrong options,
    StoreError for a store of another configuration or one that is being written.
    """
    reporter = reporter or SilentReporter()
    _check_tools(recipe)
    refuse_foreign(store)
    with _closing(make_executor(workers=workers, scheduler=scheduler)) as executor:
        found = read_corpus(corpus, root=root)
        if not found.entries and not found.problems:
            raise CorpusError(
                "there are no calls in it",
                where=str(corpus),
                next_step="Name a manifest, a Moshi inventory or a folder of audio files.",
            )
        listed, taken = with_swapped(found.entries) if recipe.audio.swap_roles else (list(found.entries), [])
        ledger = Ledger(store)
        with ledger.locked():
            if restart:
                _empty(store)
            target = open_target(store, recipe)
            refusals = Refusals(root or found.root)
            refusals.extend([*_own_names(found), *taken])
            entries = target.unpublished(listed, add=add)
            build = Build(recipe, target.root, root or found.root, recipe_files(recipe))
            run = _Run(target, build, executor, reporter, refusals)
            published = run.build_calls(entries) if entries else []
            if target.described is None:
                # Nothing could be built; what was refused, and why, is still worth opening.
                target.describe(recipe, {"tools": tool_versions()}, [])
            publish_snapshot(store, refused=refusals.errors())
        ledger.remove()
    return summarise(store, published, already=len(listed) - len(entries), refusals=refusals)


@dataclass(frozen=True)
class _Run:
    """One build's stages in their order."""

    target: Target
    build: Build
    executor: Executor
    reporter: Reporter
    refusals: Refusals

    def build_calls(self, entries: Sequence[CallEntry]) -> list[str]:
        """Build and publish what can be; returns the ids of the published calls."""
        recipe = self.build.recipe
        scans = self._scan(entries)
        recordings = self._read_recordings([entry for entry in entries if entry.call_id in scans])
        if not any(entry.call_id not in self.refusals for entry in entries):
            return []
        tokenizer = tools.tokenizer(recipe.text.tokenizer)
        codec = tools.codec(recipe.codec.id).identity
        identities = {
            "codec": codec.as_dict(),
            "tokenizer": dataclasses.asdict(tokenizer.identity),
            "tools": tool_versions(),
            **_capture_model(recordings),
        }
        self.target.describe(recipe, identities, [tokenizer.piece(index) for index in range(len(tokenizer))])
        planner = Planner(self.build, self.target, scans, recordings, self.refusals, codec.sha256)
        plan = planner.plan(entries)
        write_recordings(self.target, plan, recipe, self.reporter)
        self._prefixes(plan)
        return self._calls(plan)

    def _perform(
        self, stage: Stage[J, Any], jobs: Sequence[J], calls_of: Callable[[J], Iterable[str]]
    ) -> Iterator[Unit[J]]:
        return run_stage(
            stage,
            jobs,
            executor=self.executor,
            reporter=self.reporter,
            refusals=self.refusals,
            calls_of=calls_of,
        )

    def _scan(self, entries: Sequence[CallEntry]) -> dict[str, Scan]:
        jobs = [ScanJob(build=self.build, given=CallInput.of(entry)) for entry in entries]
        done = self._perform(SCAN, jobs, lambda job: (job.key,))
        return {unit.job.key: unit.head for unit in done if not unit.failed}

    def _read_recordings(self, entries: Sequence[CallEntry]) -> dict[Path, FoundRecording]:
        naming: dict[Path, list[str]] = {}
        for entry in entries:
            if entry.recording is not None and self.build.recipe.memory is not None:
                naming.setdefault(entry.recording, []).append(entry.call_id)
        jobs = [RecordingJob(build=self.build, path=path) for path in naming]
        done = self._perform(RECORDING, jobs, lambda job: naming[job.path])
        found = {unit.job.path: unit.head for unit in done if not unit.failed}
        # In corpus order, whichever worker was first.
        return {path: found[path] for path in naming if path in found}

    def _prefixes(self, plan: BuildPlan) -> None:
        """Encode and publish the prefixes. Calls whose prefix cannot be made are refused with its reason."""
        if not plan.prefixes:
            return
        using: dict[str, list[str]] = {}
        for job in plan.jobs:
            using.setdefault(job.prefix_id or "", []).append(job.entry.call_id)
        done = self._perform(PREFIX, plan.prefixes, lambda job: using.get(job.key, ()))
        made = {unit.job.key for unit in done if not unit.failed}
        write_prefixes(self.target, [job for job in plan.prefixes if job.key in made])

    def _calls(self, plan: BuildPlan) -> list[str]:
        """Encode the calls in plan order, and write each shard as soon as its calls are done."""
        shards = _Shards(self.target, plan, self.refusals)
        for unit in self._perform(CALL, shards.open_jobs(), lambda job: (job.key,)):
            shards.finished(unit.job)
        self.target.drop_beyond("calls", max(plan.shards, default=self.target.fixed["calls"] - 1))
        return shards.published


class _Shards:
    """Which calls each planned shard still waits for."""

    def __init__(self, target: Target, plan: BuildPlan, refusals: Refusals) -> None:
        self._target = target
        self._plan = plan
        self._refusals = refusals
        self._waiting: dict[int, set[str]] = {}
        self._shard_of = {
            job.entry.call_id: shard for shard, members in plan.shards.items() for job in members
        }
        self.published: list[str] = []

    def open_jobs(self) -> list[CallJob]:
        """The calls to build; shards that an interrupted run published already need none."""
        jobs: list[CallJob] = []
        for shard, members in self._plan.shards.items():
            if self._target.is_published("calls", shard, calls_stamp(members)):
                self.published += self._target.noted_members("calls", shard)
                self._refusals.extend(self._target.noted_refusals("calls", shard))
                continue
            able = [job for job in members if job.entry.call_id not in self._refusals]
            self._waiting[shard] = {job.entry.call_id for job in able}
            jobs += able
            if not able:
                self._write(shard)
        return jobs

    def finished(self, job: CallJob) -> None:
        """One call was built or refused."""
        shard = self._shard_of[job.entry.call_id]
        self._waiting[shard].discard(job.entry.call_id)
        if not self._waiting[shard]:
            self._write(shard)

    def _write(self, shard: int) -> None:
        planned = self._plan.shards[shard]
        built = [job for job in planned if job.entry.call_id not in self._refusals]
        refused = self._refusals.of(
            job.entry.call_id for job in planned if job.entry.call_id in self._refusals
        )
        write_call_shard(self._target, shard, planned, built, refused)
        self.published += [job.entry.call_id for job in built]


def _check_tools(recipe: Recipe) -> None:
    """Fail before any work where the recipe names noise or a model that is not there. Raises ConfigError."""
    tools.bandwidth(recipe.audio.bandwidth)
    noise = recipe.augment.noise if recipe.augment is not None else None
    if noise is not None and noise.folder is not None:
        noise_files(noise.folder)


def _own_names(corpus: Corpus) -> list[Problem]:
    """The problems of the listing. A second call of an id that is taken gets a name of its own: the first goes on."""
    taken = {entry.call_id for entry in corpus.entries}
    return [
        replace(problem, call_id=f"{problem.call_id} ({problem.item or 'again'})")
        if problem.severity == "error" and problem.call_id in taken
        else problem
        for problem in corpus.problems
    ]


def _capture_model(recordings: Mapping[Path, FoundRecording]) -> dict[str, Any]:
    """The model that captured states, where one did: every recording of a build has the same."""
    captured = [found.states.identity for found in recordings.values() if found.states.kind == "captured"]
    return {"model": captured[0]} if captured else {}


def tool_versions() -> dict[str, str]:
    """Versions of what the stored bytes depend on."""
    names = (
        "inkplex-data",
        "numpy",
        "soxr",
        "soundfile",
        "torch",
        "transformers",
        "sentencepiece",
        "polars",
        "pyarrow",
        "zarr",
    )
    return {name: version(name) for name in names}


@contextmanager
def _closing(executor: Executor) -> Iterator[Executor]:
    try:
        yield executor
    except BaseException:
        executor.close(cancel=True)
        raise
    executor.close()


def _empty(store: Path) -> None:
    """Remove what a build makes, and nothing else that may lie in the folder."""
    (store / NEWEST_KEY).unlink(missing_ok=True)  # first: it names what goes next
    for name in ("calls", "recordings", "prefixes", "snapshots"):
        shutil.rmtree(store / name, ignore_errors=True)
    for path in [*store.glob("*.parquet"), store / "store.json"]:
        path.unlink(missing_ok=True)
