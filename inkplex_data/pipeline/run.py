"""The build itself: scan, recordings, plan, prefixes, calls, shards, snapshot. Each stage resumes by its ledger.

The order of events is fixed by the corpus and the recipe; workers only change how fast they happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from inkplex_data.config.device import device_class
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.clips import with_clips
from inkplex_data.corpus.entry import CallEntry, Corpus
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.swap import with_swapped
from inkplex_data.errors import CorpusError
from inkplex_data.machine import machine_faults_said
from inkplex_data.output_path import output_path
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.call_shards import CallShards
from inkplex_data.pipeline.calls.augmentation import noise_files
from inkplex_data.pipeline.execute import Executor, make_executor
from inkplex_data.pipeline.ledger import Ledger
from inkplex_data.pipeline.outcome import Refusals, Summary, summarise
from inkplex_data.pipeline.parts.cut_corpus import PartName, cut_corpus
from inkplex_data.pipeline.planning.build_plan import Planner
from inkplex_data.pipeline.prefixes import check_voices
from inkplex_data.pipeline.progress import Reporter, SilentReporter
from inkplex_data.pipeline.recipe_keys import recipe_files
from inkplex_data.pipeline.shards import PrefixMember, new_recordings, write_prefixes, write_recordings
from inkplex_data.pipeline.stage import Build
from inkplex_data.pipeline.stage_run import StageRun, tool_versions
from inkplex_data.pipeline.standing.changes import find_changes, refuse_unasked
from inkplex_data.pipeline.standing.file_digests import FileDigests
from inkplex_data.pipeline.standing.follow_corpus import update_store
from inkplex_data.pipeline.standing.repair import repair
from inkplex_data.pipeline.target import empty_store, open_target, refuse_foreign, refuse_other_part
from inkplex_data.pipeline.whisper_choice import choose_whisper
from inkplex_data.problems import Problem
from inkplex_data.store.publish_snapshot import publish_snapshot


def build_store(
    corpus: Path,
    store: Path,
    *,
    recipe: Recipe,
    workers: int | None = None,
    scheduler: str | None = None,
    wait_s: float | None = None,
    add: bool = False,
    update: bool = False,
    restart: bool = False,
    root: Path | None = None,
    part: PartName | None = None,
    device: str | None = None,
    reporter: Reporter | None = None,
) -> Summary:
    """Encode `corpus` into `store`, going on where an earlier run stopped.

    A call that cannot be built is refused and named in the summary; the others are published. `add`
    allows calls that the store's last snapshot does not know. `update` makes the store what the corpus is now, in a
    new snapshot: with new calls, changed ones built anew, and without those that are gone. `restart` empties the
    store first. A listed shard that is lost is made again, in the same bytes. `wait_s` is how long a build waits for
    workers of `scheduler`. `part`: only these calls of the corpus (`parts.cut_corpus`), for `parts.merge_stores`.
    `device`: `cpu`, `cuda` or `cuda:N` for the models, whose class becomes the recipe's; the recipe's own by default.

    Raises CorpusError for a corpus that cannot be listed, ConfigError and UsageError for wrong options, and for
    calls that are new, changed or gone where none of these is asked for; StoreError for a store of another
    configuration, one that is being written, and a lost shard that cannot be made again; MachineFault where disk,
    memory, workers or scheduler give out: nothing of what they were making is published, and a rerun goes on.
    """
    reporter = reporter or SilentReporter()
    place = device or recipe.device
    recipe = recipe.model_copy(update={"device": device_class(place)})
    _check_tools(recipe)
    refuse_foreign(output_path(store))
    executor_of = make_executor(workers=workers, scheduler=scheduler, wait_s=wait_s, note=reporter.note)
    with machine_faults_said(store), _closing(executor_of) as executor:
        found = read_corpus(corpus, root=root)
        if not found.entries and not found.problems:
            raise CorpusError(
                "there are no calls in it",
                where=str(corpus),
                next_step="Name a manifest, a Moshi inventory or a folder of audio files.",
            )
        listed, taken = with_clips(found.entries)
        if recipe.audio.swap_roles:
            listed, twice = with_swapped(listed)
            taken += twice
        own = cut_corpus(listed, part) if part is not None else None
        listed = list(own.entries) if own is not None else listed
        ledger = Ledger(store)
        with ledger.locked():
            if restart:
                empty_store(store)
            target = open_target(store, recipe)
            refuse_other_part(target, own.described() if own is not None else None)
            refusals = Refusals(root or found.root)
            problems = [*_own_names(found), *taken]
            refusals.extend(problems)
            for note in refusals.notes():
                reporter.note(str(note))
            digests = FileDigests(store)
            changes = find_changes(listed, problems, target, digests, has_memory=recipe.memory is not None)
            digests.keep()
            wanted = {entry.call_id for entry in changes.new} | (changes.changed.keys() if update else set())
            heard = [entry for entry in listed if target.lost or entry.call_id in wanted]
            used, whisper = choose_whisper(recipe, heard)
            build = Build(used, target.root, root or found.root, recipe_files(used), place)
            run = StageRun(target, build, executor, reporter, refusals, recipe, whisper, own)
            retired: frozenset[str] | None = frozenset() if update else None
            if update and (changes.changed or changes.gone or target.lost):
                published, retired = update_store(run, listed, changes)
            else:
                if not update:
                    refuse_unasked(changes, target, add=add)
                if target.lost:
                    repair(run, {entry.call_id: entry for entry in listed})
                published = _build_calls(run, changes.new)
            if target.described is None:
                # Nothing could be built; what was refused, and why, is still worth opening.
                target.describe(recipe, {"tools": tool_versions(), **run.part_identity()}, [])
            # A call that is stored, and stays, is not refused for what has become of its files.
            stays = frozenset() if update else changes.gone.keys()
            refused = [problem for problem in refusals.errors() if problem.call_id not in stays]
            publish_snapshot(store, refused=[*refusals.notes(), *refused], retired=retired)
            ledger.remove()
    return summarise(
        store,
        published,
        gone=tuple(changes.gone),
        is_updated=update,
        refusals=refusals,
        whisper=whisper,
    )


def _build_calls(run: StageRun, entries: Sequence[CallEntry]) -> list[str]:
    """Build and publish calls that the store does not hold, in new shards; returns the ids of those published."""
    scans = run.scan(entries)
    recordings = run.read_recordings([entry for entry in entries if entry.call_id in scans])
    if all(entry.call_id in run.refusals for entry in entries):
        run.target.drop_unlisted()
        return []
    codec_sha256 = run.describe(recordings)
    planner = Planner(
        run.build, run.target, scans, recordings, run.refusals, codec_sha256, call_ix=run.places_in_corpus
    )
    plan = planner.plan(entries)
    write_recordings(run.target, new_recordings(run.target, plan), run.build.recipe, run.reporter)
    using: dict[str, list[str]] = {}
    for job in plan.jobs:
        using.setdefault(job.prefix_id or "", []).append(job.key)
    made = run.prefixes(plan.prefixes, lambda job: using.get(job.key, ()))
    write_prefixes(run.target, [PrefixMember.of(job) for job in made])
    shards = CallShards(run.target, plan, run.refusals, run.build.recipe.store.shard_bytes)
    for job in plan.jobs:
        if job.key in run.refusals:
            shards.finished(job.key)
    for job in run.encode([job for job in plan.jobs if job.key not in run.refusals]):
        shards.finished(job.key)
    shards.close()
    return shards.published


def _check_tools(recipe: Recipe) -> None:
    """Fail before any work where the recipe names noise, a voice or a model that is not there. Raises ConfigError."""
    check_voices(recipe)
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


@contextmanager
def _closing(executor: Executor) -> Iterator[Executor]:
    try:
        yield executor
    except BaseException:
        executor.close(cancel=True)
        raise
    executor.close()
