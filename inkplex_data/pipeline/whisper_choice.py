"""Which of the Whisper models that a recipe lists a build uses: the first that can be had, found once, before any call.

Every worker and every rerun then asks for that one alone, so what is heard does not depend on who listens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.errors import CallRefused, CheckpointError


@dataclass(frozen=True)
class WhisperChoice:
    """The model asked for, the one that is used, and why it is another; `listed`: the recipe left a choice."""

    asked: str
    used: str
    why: str
    listed: bool

    def text(self) -> str:
        """What the summary of a build says."""
        return f"words by Whisper {self.used}" + (
            f"; asked for was {self.asked}: {self.why}" if self.used != self.asked else ""
        )

    def identity(self) -> dict[str, Any]:
        """What `store.json` records where the recipe left a choice: calls that are added later get no other model."""
        return {"whisper": {"id": self.used}} if self.listed else {}


def choose_whisper(recipe: Recipe, entries: Sequence[CallEntry]) -> tuple[Recipe, WhisperChoice | None]:
    """The recipe with one model, and the choice; None where no call is to be listened to.

    The last of a list is not tried: where it cannot be had either, the first call that needs it says so.
    Raises MissingLibraryError.
    """
    named = recipe.words.whisper
    models = (named,) if isinstance(named, str) else named
    if recipe.words.source != "whisper" or not _lacks_words(entries, thoroughly=len(models) > 1):
        return recipe, None
    used, why = models[-1], []
    for model in models[:-1]:
        if (fault := _fault(model)) is None:
            used = model
            break
        why.append(fault)
    words = recipe.words.model_copy(update={"whisper": used})
    choice = WhisperChoice(models[0], used, "; ".join(why), listed=len(models) > 1)
    return recipe.model_copy(update={"words": words}), choice


def _lacks_words(entries: Sequence[CallEntry], *, thoroughly: bool) -> bool:
    """Whether a call brings no word times. Files are read only `thoroughly`, and where every call names one."""
    if any(entry.words is None and entry.sidecar is None for entry in entries):
        return True
    return thoroughly and not all(_has_words(entry) for entry in entries)


def _has_words(entry: CallEntry) -> bool:
    try:
        return CallText.of(entry).has_words
    except CallRefused:
        return True  # the scan refuses it, and nobody listens


def _fault(model: str) -> str | None:
    """Why a model cannot be had; None where it can."""
    from inkplex_data.speech.align.whisper_weights import load_whisper

    try:
        load_whisper(model)
    except CheckpointError as error:
        return error.what
    return None
