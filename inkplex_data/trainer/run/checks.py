"""Periodic checks of a run on its frozen panel: baseline once, then each checked state against it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from inkplex_data.errors import CheckpointError
from inkplex_data.store.reader import Store
from inkplex_data.trainer.evaluate.scores import MEASURES, compare, loss_of, objective_loss
from inkplex_data.trainer.evaluate.scoring import score_calls
from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.run.panel import Panel, choose_panel, read_panel, write_panel
from inkplex_data.trainer.run.processes.ranks import Ranks
from inkplex_data.trainer.run.selection import Check
from inkplex_data.trainer.run.train_config import ChecksConfig, TrainRecipe

PANEL_FILE = "panel.json"


class PanelChecks:
    """Checks a model on the panel of a run. The panel is drawn and written when the run begins."""

    def __init__(
        self,
        config: ChecksConfig,
        recipe: TrainRecipe,
        run: Path,
        store: Store,
        ranks: Ranks,
        *,
        workers: int,
        resumed: bool,
    ) -> None:
        """config: the recipe's. resumed: whether the run goes on from a checkpoint, with the panel that it began with; what a run that
        never came to a checkpoint has left is replaced.

        Raises CheckpointError for a panel whose calls the store lacks, ConfigError where none can be drawn."""
        self.config, self.seed, self.recipe = config, recipe.seed, recipe
        self._store, self._ranks = store, ranks
        self._workers = workers
        self._baseline: pl.DataFrame | None = None
        self._own = ["own"] if recipe.reads_memory else []
        if self._own and config.wrong_memory:
            self._own.append("wrong")
        path = run / PANEL_FILE
        if resumed and path.is_file():
            self.panel = read_panel(path)
            if lacking := [call for call in self.panel.calls if call not in store]:
                raise CheckpointError(
                    f"{len(lacking)} calls of the panel are not in the store: {', '.join(lacking[:5])}",
                    where=str(path),
                    next_step="Resume on the store that the run began with.",
                )
        else:
            self.panel = _draw(store, config, self.seed, memory=recipe.reads_memory)
            if ranks.first:
                write_panel(path, self.panel)

    def check(self, model: ConnectedLM, update: int) -> dict[str, Any]:
        """Losses by measure and memory, and differences with their bounds, as JSON values; the same on every rank.

        `loss` is that of the run's objective where the speech model itself trains, else None.
        """
        if self._baseline is None or self.recipe.trains_speech:  # A frozen model stays as it is.
            self._baseline = self._score(model, ["none"])
        memories = self._own
        scores = pl.concat([self._baseline, self._score(model, memories)]) if memories else self._baseline
        losses: dict[str, dict[str, float | None]] = {}
        kept: dict[str, dict[str, Any]] = {}
        for measure in MEASURES:
            losses[measure] = {memory: loss_of(scores, measure, memory) for memory in ("none", *memories)}
            for other in ("none", *memories[1:]):
                found = compare(
                    scores, measure, other, "own", resamples=self.config.resamples, seed=self.seed
                )
                if found is not None:
                    kept.setdefault(f"{other} - own", {})[measure] = vars(found)
        loss = None
        if self.recipe.trains_speech:
            loss = objective_loss(scores, "own" if memories else "none", self.recipe.objective.make())
        return {
            "update": update,
            "calls": len(self.panel.calls),
            "loss": loss,
            "losses": losses,
            "differences": kept,
        }

    def _score(self, model: ConnectedLM, memories: Sequence[str]) -> pl.DataFrame:
        return score_calls(
            model,
            self._store,
            split=self.panel.split,
            calls=self.panel.calls,
            memories=memories,
            window_frames=self.recipe.data.longest_frames,
            ranks=self._ranks,
            workers=self._workers,
        )


def as_check(row: dict[str, Any]) -> Check:
    """What selection looks at in a check's row."""
    bounds = row["differences"].get("none - own", {})

    def lower(measure: str) -> float | None:
        return bounds[measure]["lower"] if measure in bounds else None

    return Check(
        update=row["update"],
        first_piece=row["losses"]["first piece"].get("own"),
        semantic_lower=lower("agent semantic"),
        acoustic_lower=lower("agent acoustic"),
        loss=row.get("loss"),
    )


def _draw(store: Store, config: ChecksConfig, seed: int, *, memory: bool) -> Panel:
    calls = store.calls()
    if memory:
        with_states = store.recordings().filter(pl.col("state_width") > 0).select("recording_id")
        calls = calls.join(with_states, on="recording_id", how="semi")
    else:  # A call of no recorded task is a task of its own.
        calls = calls.with_columns(pl.col("recording_id").fill_null(pl.col("call_id")))
    columns = calls.select("call_id", "split", "family", "recording_id").collect()
    return choose_panel(columns, split=config.split, tasks=config.tasks, seed=seed)
