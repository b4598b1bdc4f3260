"""The part of a recipe that a stage declares: its values, the files they name, and a view that refuses the rest."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

from inkplex_data.audio.band_extension import source_of
from inkplex_data.config.recipe import Recipe
from inkplex_data.pipeline.stamp import named_files, stamp

FILE_KEYS: Final = (
    "audio.bandwidth",
    "audio.diarizer",
    "augment.noise.folder",
    "check_speech.model",
    "codec.id",
    "memory.capture.model",
    "prefix.voices",
    "surprise.scores",
    "text.tokenizer",
    "words.aligner",
    "words.whisper",
)
"""Keys whose values may name a file or folder: models, voices, noise, the source of a function."""


def recipe_value(recipe: Any, dotted: str) -> Any:
    """The value of a dotted key; None where a section above it is switched off."""
    value = recipe
    for name in dotted.split("."):
        value = getattr(value, name) if value is not None else None
    return value


def is_declared(dotted: str, keys: Set[str]) -> bool:
    """Whether a key, or a section that it lies in, is one of `keys`."""
    return any(dotted == key or dotted.startswith(f"{key}.") for key in keys)


def recipe_files(recipe: Recipe) -> dict[str, str]:
    """Per key of FILE_KEYS that names local files, a digest of their identities. Looked up once a build."""
    found = {}
    for key in FILE_KEYS:
        value = recipe_value(recipe, key)
        names = (
            list(value.values())
            if isinstance(value, dict)
            else value
            if isinstance(value, tuple)
            else [value]
        )
        if key == "audio.bandwidth":
            names = [str(source) for name in names if (source := source_of(name)) is not None]
        marks = [named_files(name) for name in names if isinstance(name, str)]
        if any(marks):
            found[key] = stamp(marks)
    return found


class RecipeKeys:
    """A recipe of which only the declared keys can be read, so that no stage reads what its stamp does not cover."""

    __slots__ = ("_at", "_keys", "_section", "_stage")

    def __init__(self, section: Any, keys: Set[str], *, stage: str, at: str = "") -> None:
        self._section = section
        self._keys = keys
        self._stage = stage
        self._at = at

    def __getattr__(self, name: str) -> Any:
        path = f"{self._at}{name}"
        value = getattr(self._section, name)
        if is_declared(path, self._keys):
            return value
        if any(key.startswith(f"{path}.") for key in self._keys):
            inside = RecipeKeys(value, self._keys, stage=self._stage, at=f"{path}.")
            return inside if value is not None else None
        # No AttributeError: `getattr` with a default would swallow it.
        raise RuntimeError(f"stage {self._stage!r} reads the recipe key {path!r} and does not declare it")
