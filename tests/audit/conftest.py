"""The golden sessions and a built store, as the rooms that make them have them."""

from tests.memory.conftest import golden_sessions
from tests.pipeline.conftest import built, corpus, recipe

__all__ = ["built", "corpus", "golden_sessions", "recipe"]
