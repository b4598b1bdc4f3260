"""A training run: from a store and a recipe to checkpoints, metrics and the one that is selected.

    RUN/checkpoints/update-000050.safetensors …   RUN/metrics.jsonl   RUN/checks.jsonl
    RUN/model.json   RUN/panel.json   RUN/selected.json   RUN/tensorboard/

What trains is a choice of the recipe: writer and readers on a frozen model (seeds/000, "Current sequence memory",
section 10), adapters, or the speech model itself. The position in the data is
part of each checkpoint, and moves on disk with it alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from inkplex_data.atomic import only_writer, write_json
from inkplex_data.checkpoint_sidecar import check_compatibility
from inkplex_data.errors import ConfigError, Interrupted
from inkplex_data.loader import Loader
from inkplex_data.loader.saved_position import pin, state_digest
from inkplex_data.plural import counted
from inkplex_data.trainer.model.speech_model import SpeechModel, StoreIdentity, open_speech_model
from inkplex_data.trainer.run.bad_samples import BadSamples, refused
from inkplex_data.trainer.run.checkpoint import Checkpoint
from inkplex_data.trainer.run.checks import PanelChecks, as_check
from inkplex_data.trainer.run.logs.metrics import MetricsLog
from inkplex_data.trainer.run.logs.run_progress import TrainReporter
from inkplex_data.trainer.run.logs.trackers import open_tracker
from inkplex_data.trainer.run.optimiser import make_optimizer, updates_in_run
from inkplex_data.trainer.run.processes.ranks import Ranks, meet
from inkplex_data.trainer.run.processes.stop_signals import StopSignals
from inkplex_data.trainer.run.resume import resume_point
from inkplex_data.trainer.run.run_data import on_cpu_first, open_stores, run_loader, stores_identity
from inkplex_data.trainer.run.run_files import begin_from
from inkplex_data.trainer.run.run_options import RunOptions, RunSummary
from inkplex_data.trainer.run.run_state import (
    CHECKPOINTS,
    SELECTED_FILE,
    CheckpointFolder,
    capture,
    compatibility,
    find_checkpoint,
    restore,
)
from inkplex_data.trainer.run.selection import Check, select
from inkplex_data.trainer.run.sharding.parts import is_whole
from inkplex_data.trainer.run.sharding.sharded_state import fill_divided, refuse_apart, save_divided
from inkplex_data.trainer.run.train_config import TrainRecipe, recipe_differences
from inkplex_data.trainer.run.trained_parts import make_model, trained_groups
from inkplex_data.trainer.run.update import Updater

MODEL_FILE = "model.json"


def train(
    recipe: TrainRecipe,
    store: str | Path | Sequence[str | Path],
    run: Path,
    options: RunOptions | None = None,
    reporter: TrainReporter | None = None,
) -> RunSummary:
    """Train on a store, or several by the recipe's `data.mix`, in the folder `run`; with `resume`, go on from its newest
    checkpoint if it has one.

    Under `torchrun` every process calls it. Raises UsageError where the folder holds a run already,
    ConfigError for stores or ranks that do not fit, CheckpointError for a checkpoint that does not, DivergedError,
    Interrupted after a signal, with the state saved, BadSampleError for more bad calls than the recipe allows, OutputError for a full disk, and while another process
    trains in the folder.
    """
    options = options or RunOptions()
    stores = [store] if isinstance(store, str | Path) else list(store)
    with meet(options.device, patience_s=options.patience_s) as ranks:
        teller = reporter if reporter is not None and ranks.first else TrainReporter()
        with ExitStack() as stack:
            # What a run saves of torch's random state follows from its recipe, not from who calls it.
            stack.enter_context(torch.random.fork_rng(devices=[]))
            torch.manual_seed(recipe.seed)
            with ranks.alike():
                if ranks.first:
                    stack.enter_context(only_writer(run))
            if ranks.world_size == 1:
                options = replace(options, shard=False)  # There is nobody to divide anything with.
            made = _Run(recipe, stores, run, options, ranks=ranks, reporter=teller, stack=stack)
            with StopSignals() as signals:
                return made.go(signals)


class _Run:
    """One process's part of a run."""

    def __init__(
        self,
        recipe: TrainRecipe,
        stores: list[str | Path],
        run: Path,
        options: RunOptions,
        *,
        ranks: Ranks,
        reporter: TrainReporter,
        stack: ExitStack,
    ) -> None:
        self.recipe, self.run, self.options, self.ranks, self.reporter = recipe, run, options, ranks, reporter
        self.folder = CheckpointFolder(run / CHECKPOINTS)
        if options.shard:
            refuse_apart(run, ranks)
        self.done, self.saved = resume_point(
            self.folder, run, ranks, resume=options.resume, sharded=options.shard
        )
        with ranks.alike():
            start = None if options.begin_from is None else find_checkpoint(options.begin_from)
            self.stores = open_stores(stores, self.saved, run, stack)
            identity = stores_identity(self.stores, recipe, options)
            speech = open_speech_model(recipe.model, identity, device=on_cpu_first(options, ranks))
            dtype = speech.lm.text_emb.weight.dtype
            self.model = make_model(
                recipe, speech.lm, state_width=identity.state_width, wide=not options.shard
            )
            self.compatibility = compatibility(speech, identity, self.model.memory)
            self._refuse_another_run()
        self._refuse_apart()
        if options.compile or options.shard:
            from inkplex_data.trainer.run.sharding import shard_model

            if options.compile:
                shard_model.compile_blocks(self.model.lm)
            if options.shard:
                shard_model.shard_model(self.model, ranks, dtype)
        self.loader, optimizer, schedule = self._begin(start, stack)
        self.updater = Updater(
            self.model,
            optimizer,
            schedule,
            recipe.objective.make(),
            recipe.optimizer,
            ranks,
            recompute=recipe.model.recompute,
            forward_frames=recipe.data.forward_frames,
        )
        self.left_out: list[dict[str, Any]] = []
        self.alone = False
        if self.saved is not None:
            if self.saved.shards is not None and options.shard:
                fill_divided(self.folder.path(self.done), self.saved, self.model)
            with ranks.alike():
                restore(self.saved, self.model, optimizer, schedule)
                self.loader.load_state_dict(self.saved.cursor)
                self.left_out = list(self.saved.progress.get("left_out", ()))
                self.loader.leave_out((row["store"], row["call_id"]) for row in self.left_out)
        ranks.same_everywhere(value for value in self.updater.trained if is_whole(value))
        self.log: MetricsLog | None = None
        with ranks.alike():
            if ranks.first:
                self.checks = self._make_checks()
                values = recipe.model_dump(mode="json")
                trackers = [open_tracker(name, run, values) for name in options.log]
                self.log = MetricsLog(run, done=self.done, tensorboard=options.tensorboard, trackers=trackers)
                stack.callback(self.log.close)
                if self.saved is not None:  # the save may have been killed before its end
                    self.folder.complete(self.done, self.saved)
                    self._settle()
        with ranks.alike():
            # The panel of a run is written once; other ranks read it only when the first has done so.
            if not ranks.first:
                self.checks = self._make_checks()
        self._introduce(identity, speech)

    def _begin(self, start: Path | None, stack: ExitStack) -> tuple[Loader, AdamW, OneCycleLR]:
        """Loader, optimiser and schedule of a run whose model is where it will be; it takes over what `start` has."""
        with self.ranks.alike():
            self.origin: dict[str, Any] | None = None
            if self.saved is not None:
                self.origin = self.saved.progress.get("from")
            elif start is not None:
                self.origin = begin_from(start, self.model, self.recipe, self.compatibility)
                made = counted(self.origin["update"], "update")
                self.reporter.note(f"beginning with what {start} has after {made}")
            loader, self.without_memory = run_loader(
                self.recipe,
                self.stores,
                self.ranks,
                self.options,
                context_frames=self.model.lm.config.context,
            )
            loader = stack.enter_context(loader)
            self.updates = updates_in_run(
                loader.samples,
                passes=self.recipe.data.passes,
                calls_per_update=self.recipe.data.calls_per_update,
            )
            optimizer, schedule = make_optimizer(
                trained_groups(self.model), self.recipe.optimizer, updates=self.updates
            )
        return loader, optimizer, schedule

    def go(self, signals: StopSignals) -> RunSummary:
        """Make the updates that are left. Raises Interrupted, with the state saved, after a signal to any rank."""
        stop = min(self.updates, self.options.stop_after or self.updates)
        while self.done < stop:
            began, pass_ = time.perf_counter(), self.loader.epoch + 1
            for group in self.loader.groups():
                try:
                    result = self.updater.make(group, alone=self.alone)
                except BadSamples as bad:
                    self.loader.go_back(group)
                    self._leave_out(bad)
                    break
                self.alone = False
                self.done += 1
                report = self.loader.report(reset=True)
                seconds = time.perf_counter() - began
                row = {
                    "update": self.done,
                    "pass": pass_,
                    **vars(result),
                    "seconds": seconds,
                    # Of the whole update: the loader's own report ends with the last batch it handed out, and
                    # with one batch an update it would be nothing but waiting.
                    "wait_fraction": min(report.wait_s / seconds, 1.0),
                    "bytes_per_s": report.bytes_ / seconds,
                }
                if self.log is not None:
                    self.log.update(row)
                self.reporter.update(row, self.updates)
                ends = self.ranks.any(signals.heard is not None) and self.done < stop
                self._check_and_save(last=self.done == stop or ends)
                if ends:
                    self.reporter.finish()
                    raise Interrupted(
                        f"stopped by {signals.heard or 'a signal to another rank'} after update {self.done}, and saved",
                        where=str(self.run),
                        next_step="Run the same command with --resume; it goes on from here.",
                    )
                if self.done == stop:
                    break
                began = time.perf_counter()
        self.reporter.finish()
        return RunSummary(self.run, self.done, self.updates, self._selected(), self.ranks.rank)

    def _check_and_save(self, *, last: bool) -> None:
        """What is due after an update. Every check has a checkpoint, so that it can be selected."""
        checks, every = self.recipe.checks, self.recipe.checkpoints.every_updates
        due = checks is not None and (self.done % checks.every_updates == 0 or self.done == self.updates)
        if due:
            self._check()
        if due or last or self.done % every == 0:
            self._save()

    def _check(self) -> None:
        assert self.checks is not None and self.recipe.checks is not None
        row = self.checks.check(self.model, self.done)
        if not self.recipe.trains_speech:
            row["voice_kept"] = as_check(row).voice_kept(self.recipe.checks.margin_nats)
        if self.log is not None:
            self.log.check(row)
        self.reporter.check(row)

    def _leave_out(self, bad: BadSamples) -> None:
        """Go on without calls that cannot be used. Raises BadSampleError, with the state saved, where they are too many."""
        self.alone = bad.alone
        found = {(sample.store, sample.call_id): sample for sample in bad.found}
        allowed = self.recipe.data.bad_calls
        if len(self.left_out) + len(found) > allowed:
            if self.done and (self.saved is None or self.saved.progress["update"] != self.done):
                self._save()
            raise refused(bad.found, allowed=allowed, run=str(self.run))
        self.loader.leave_out(found)
        for sample in found.values():
            self.left_out.append(sample.row(self.done + 1))
            self.reporter.note(f"left out from update {self.done + 1} on: {sample.text()}")

    def _save(self) -> None:
        tensors, values = capture(self.model, self.updater.optimizer, self.updater.schedule)
        progress = {
            "update": self.done,
            "updates": self.updates,
            "recipe": self.recipe.model_dump(mode="json"),
            "from": self.origin,
            "left_out": self.left_out,
            **values,
        }
        fresh = Checkpoint(tensors, self.compatibility, self.loader.state_dict(), progress)
        if self.saved is not None:
            fresh.checkpoint_id = self.saved.checkpoint_id
            fresh.revision_id, fresh.profile = self.saved.revision_id, self.saved.profile
        if self.model.sharded:
            save_divided(self.folder, self.done, fresh, tensors, self.ranks)
        with self.ranks.alike():
            if self.ranks.first:
                if not self.model.sharded:
                    self.folder.save(self.done, fresh)
                self._settle()
        fresh.tensors = {}
        self.saved = fresh

    def _settle(self) -> None:
        """What follows a save: the selection, and fewer checkpoints."""
        selected = self._selected()
        self._write_selected(selected)
        spare = () if selected is None else (selected.update,)
        self.folder.prune(self.recipe.checkpoints.keep, spare=spare, upto=self.done)

    def _selected(self) -> Check | None:
        if self.log is None or self.recipe.checks is None:
            return None
        checks = [as_check(row) for row in self.log.checks.rows()]
        return select(checks, margin_nats=self.recipe.checks.margin_nats)

    def _write_selected(self, selected: Check | None) -> None:
        body: dict[str, Any] = {"update": None, "checkpoint": None}
        if selected is not None:
            path = self.folder.path(selected.update)
            body = {**vars(selected), "checkpoint": str(path.relative_to(self.run))}
        write_json(self.run / SELECTED_FILE, body, indent=1)

    def _refuse_another_run(self) -> None:
        if self.saved is None:
            return
        check_compatibility(self.saved.compatibility, self.compatibility, where=str(self.run))
        begun = TrainRecipe.model_validate(self.saved.progress["recipe"])
        if faults := recipe_differences(begun.decisive(), self.recipe.decisive()):
            raise ConfigError(
                "the recipe is not the one that this run began with",
                where=str(self.run),
                faults=faults,
                next_step="Resume with the same recipe, or start a run in another folder.",
            )

    def _refuse_apart(self) -> None:
        """Raise ConfigError where ranks read other data or another model."""
        alike = {
            "recipe": sha256(self.recipe.model_dump_json(exclude={"name"}).encode()).hexdigest()[:16],
            "model": self.compatibility["model"],
            "stores": state_digest([pin(store) for store in self.stores]),
        }
        self.ranks.agree(alike, next_step="Give every process the same recipe, weights and stores.")

    def _make_checks(self) -> PanelChecks | None:
        if self.recipe.checks is None:
            return None
        return PanelChecks(
            self.recipe.checks,
            self.recipe,
            self.run,
            self.stores[0],
            self.ranks,
            workers=self.options.workers,
            resumed=self.saved is not None,
        )

    def _introduce(self, identity: StoreIdentity, speech: SpeechModel) -> None:
        say = self.reporter.note
        about = {
            "identity": speech.identity,
            "weights": self.recipe.model.weights,
            "family": self.recipe.model.family,
            "sizes": asdict(speech.lm.config),
            "computes_in": self.recipe.model.dtype,
            "trains": self.recipe.trains,
            "expanded": list(speech.report.expanded),
            "cast": dict(speech.report.cast),
        }
        if self.ranks.first:
            write_json(self.run / MODEL_FILE, about, indent=1)
        if changed := speech.report.text():
            say(f"loading the model: {changed}")
        trained = sum(value.numel() for value in self.updater.trained)
        say(
            f"{self.loader.samples} calls or windows per pass, {self.updates} updates, {trained:,} trainable parameters, "
            f"{self.ranks.world_size} × {self.ranks.device.type}{', the model divided among them' * self.model.sharded}"
        )
        if speech.untrained:
            say(f"the speech model is {speech.identity}, small and untrained: only the machinery is tried")
        for mark in identity.marks():
            say(mark)
        if self.without_memory:
            say(f"left out: {counted(self.without_memory, 'call')} without memory")
        if len(self.stores) > 1 and self.checks is not None:
            say(f"checks are made on {self.stores[0].root}")
        if self.done:
            say(f"going on after update {self.done}")
