"""The base of every section of a recipe."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of a recipe: immutable; an unknown key is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True)
