"""A training run: from a store and a recipe to checkpoints, metrics and the one that is selected.

    RUN/checkpoints/update-000050.safetensors …   RUN/metrics.jsonl   RUN/checks.jsonl
    RUN/model.json   RUN/panel.json   RUN/selected.json   RUN/tensorboard/

What trains is a choice of the recipe: writer and readers on a frozen model (seeds/000, "Current sequence memory",
section 10), adapters, or the speech model itself. The position in the data is
part of each checkpoint, and moves on disk with it alone.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from inkplex_data.atomic import only_writer, write_json
from inkplex_data.checkpoint_sidecar import check_compatibility
from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.loader import Loader, make_loader
from inkplex_data.loader.options import PREFETCH_BYTES
from inkplex_data.loader.saved_position import reopen
from inkplex_data.plural import counted
from inkplex_data.store.reader import Store, open_store
from inkplex_data.trainer.evaluate.scoring import scorable
from inkplex_data.trainer.model.speech_model import (
    SpeechModel,
    StoreIdentity,
    open_speech_model,
    store_identity,
)
from inkplex_data.trainer.run.checkpoint import Checkpoint
from inkplex_data.trainer.run.checks import PanelChecks, as_check
from inkplex_data.trainer.run.metrics import MetricsLog
from inkplex_data.trainer.run.optimiser import make_optimizer, updates_in_run
from inkplex_data.trainer.run.ranks import Ranks, meet
from inkplex_data.trainer.run.run_files import begin_from
from inkplex_data.trainer.run.run_progress import TrainReporter
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
from inkplex_data.trainer.run.train_config import TrainRecipe, recipe_differences
from inkplex_data.trainer.run.trained_parts import make_model, trained_groups
from inkplex_data.trainer.run.update import Updater

MODEL_FILE = "model.json"


@dataclass(frozen=True)
class RunOptions:
    """How a run runs, which changes none of its losses on one machine. device: `auto` takes a GPU where there
    is one. stop_after: updates after which it stops, as if interrupted, with a checkpoint. begin_from: a run or
    checkpoint whose trained weights a new run begins with; what goes on from a checkpoint of its own leaves it aside."""

    device: str = "auto"
    workers: int = 2
    prefetch_bytes: int = PREFETCH_BYTES
    allow_untrained_codec: bool = False
    resume: bool = False
    tensorboard: bool = True
    stop_after: int | None = None
    begin_from: Path | None = None


@dataclass(frozen=True)
class RunSummary:
    """Where a run stands. selected: the check of the chosen checkpoint, None where none keeps the voice."""

    run: Path
    update: int
    updates: int
    selected: Check | None
    rank: int = 0

    @property
    def checkpoint(self) -> Path:
        """The selected checkpoint, or the newest one."""
        folder = CheckpointFolder(self.run / CHECKPOINTS)
        return folder.path(self.selected.update if self.selected else self.update)


def train(
    recipe: TrainRecipe,
    store: str | Path,
    run: Path,
    options: RunOptions | None = None,
    reporter: TrainReporter | None = None,
) -> RunSummary:
    """Train on a store, in the folder `run`; with `resume`, go on from its newest checkpoint if it has one.

    Under `torchrun` every process calls it. Raises UsageError where the folder holds a run already,
    ConfigError for a store that does not fit, CheckpointError for a checkpoint that does not, DivergedError,
    OutputError for a full disk, and while another process trains in the folder.
    """
    options = options or RunOptions()
    with meet(options.device) as ranks:
        teller = reporter if reporter is not None and ranks.first else TrainReporter()
        with ExitStack() as stack:
            # What a run saves of torch's random state follows from its recipe, not from who calls it.
            stack.enter_context(torch.random.fork_rng(devices=[]))
            torch.manual_seed(recipe.seed)
            if ranks.first:
                stack.enter_context(only_writer(run))
            return _Run(recipe, store, run, options, ranks=ranks, reporter=teller, stack=stack).go()


class _Run:
    """One process's part of a run."""

    def __init__(
        self,
        recipe: TrainRecipe,
        store: str | Path,
        run: Path,
        options: RunOptions,
        *,
        ranks: Ranks,
        reporter: TrainReporter,
        stack: ExitStack,
    ) -> None:
        self.recipe, self.run, self.options, self.ranks, self.reporter = recipe, run, options, ranks, reporter
        self.folder = CheckpointFolder(run / CHECKPOINTS)
        found = self.folder.load_latest()
        if found is not None and not options.resume:
            raise UsageError(
                f"it holds a run that has made {counted(found[0], 'update')}",
                where=str(run),
                next_step="Give --resume to continue it, or another folder.",
            )
        start = None if options.begin_from is None else find_checkpoint(options.begin_from)
        self.done = found[0] if found is not None else 0
        self.saved: Checkpoint | None = found[1] if found is not None else None
        self.store = stack.enter_context(self._open_store(store))
        identity = store_identity(
            self.store,
            split=recipe.data.split,
            allow_untrained_codec=options.allow_untrained_codec,
            memory=recipe.reads_memory,
        )
        speech = open_speech_model(recipe.model, identity, device=ranks.device)
        self.model = make_model(recipe, speech.lm, state_width=identity.state_width)
        self.compatibility = compatibility(speech, identity, self.model.memory)
        self._refuse_another_run()
        self.origin: dict[str, Any] | None = None
        if self.saved is not None:
            self.origin = self.saved.progress.get("from")
        elif start is not None:
            self.origin = begin_from(start, self.model, recipe, self.compatibility)
            reporter.note(f"beginning with what {start} has after {counted(self.origin['update'], 'update')}")
        self.loader = stack.enter_context(self._make_loader())
        self.updates = updates_in_run(
            self.loader.samples, passes=recipe.data.passes, calls_per_update=recipe.data.calls_per_update
        )
        optimizer, schedule = make_optimizer(
            trained_groups(self.model), recipe.optimizer, updates=self.updates
        )
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
        if self.saved is not None:
            restore(self.saved, self.model, optimizer, schedule)
            self.loader.load_state_dict(self.saved.cursor)
        ranks.same_everywhere(self.updater.trained)
        # The panel of a run is written once; other ranks read it only when the first has done so.
        if not ranks.first:
            ranks.wait()
        self.checks = self._make_checks()
        if ranks.first:
            ranks.wait()
        self.log: MetricsLog | None = None
        if ranks.first:
            self.log = MetricsLog(run, done=self.done, tensorboard=options.tensorboard)
            stack.callback(self.log.close)
            if self.saved is not None:  # the save may have been killed before its end
                self.folder.complete(self.done, self.saved)
                self._settle()
        self._introduce(identity, speech)

    def go(self) -> RunSummary:
        """Make the updates that are left."""
        stop = min(self.updates, self.options.stop_after or self.updates)
        while self.done < stop:
            began, pass_ = time.perf_counter(), self.loader.epoch + 1
            for group in self.loader.groups():
                result = self.updater.make(group)
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
                self._check_and_save(last=self.done == stop)
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

    def _save(self) -> None:
        if self.ranks.first:
            tensors, values = capture(self.model, self.updater.optimizer, self.updater.schedule)
            progress = {
                "update": self.done,
                "updates": self.updates,
                "recipe": self.recipe.model_dump(mode="json"),
                "from": self.origin,
                **values,
            }
            fresh = Checkpoint(tensors, self.compatibility, self.loader.state_dict(), progress)
            if self.saved is not None:
                fresh.checkpoint_id = self.saved.checkpoint_id
                fresh.revision_id, fresh.profile = self.saved.revision_id, self.saved.profile
            self.folder.save(self.done, fresh)
            fresh.tensors = {}
            self.saved = fresh
            self._settle()
        self.ranks.wait()

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

    def _open_store(self, path: str | Path) -> Store:
        store = open_store(path)
        if self.saved is None:
            return store
        try:
            pinned = self.saved.cursor["stores"][0]
        except (KeyError, IndexError, TypeError) as error:
            raise CheckpointError("its data cursor names no store", where=str(self.run)) from error
        # What a build has added since is no part of this run.
        return reopen(store, pinned)

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

    def _make_loader(self) -> Loader:
        data, able = self.recipe.data, None
        self.left_out = 0
        if not self.recipe.trains_speech:
            # Calls without memory train nothing of it and would only thin out the update's gradient.
            able = scorable(self.store, data.split, "own")
            self.left_out = len(scorable(self.store, data.split, "none")) - len(able)
        return make_loader(
            self.store,
            data.split,
            seed=self.recipe.seed,
            rank=self.ranks.rank,
            world_size=self.ranks.world_size,
            workers=self.options.workers,
            prefetch_bytes=self.options.prefetch_bytes,
            device=self.ranks.device,
            window_frames=data.longest_frames,
            memory="own" if self.recipe.reads_memory else "none",
            cut="seeded",
            context_frames=self.model.lm.config.context,
            call_ids=able if self.left_out else None,
            prefix=data.prefix,
            group=data.calls_per_update,
        )

    def _make_checks(self) -> PanelChecks | None:
        if self.recipe.checks is None:
            return None
        return PanelChecks(
            self.recipe.checks,
            self.recipe,
            self.run,
            self.store,
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
            f"{self.ranks.world_size} × {self.ranks.device.type}"
        )
        if speech.untrained:
            say(f"the speech model is {speech.identity}, small and untrained: only the machinery is tried")
        for mark in identity.marks():
            say(mark)
        if self.left_out:
            say(f"left out: {counted(self.left_out, 'call')} without memory")
        if self.done:
            say(f"going on after update {self.done}")
