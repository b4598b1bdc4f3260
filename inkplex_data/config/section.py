"""The base of every part of a recipe."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a recipe: immutable, and a misspelt key is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True)
