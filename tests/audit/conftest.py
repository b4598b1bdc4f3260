"""The golden sessions and built stores, as the rooms that make them have them."""

from __future__ import annotations

import pytest

from inkplex_data.config.recipe import Recipe
from tests.audit.made import Audited, make_audited
from tests.memory.conftest import golden_sessions
from tests.pipeline.conftest import recipe

__all__ = ["audited", "golden_sessions", "recipe"]


@pytest.fixture(scope="session")
def audited(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """A store with memory, states, sidecars and voices, and its corpus; not to be written to."""
    return make_audited(tmp_path_factory.mktemp("audited"), recipe)
