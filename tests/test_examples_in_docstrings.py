"""The worked examples of dense array code say what that code does."""

from __future__ import annotations

import doctest
import importlib

import pytest

from inkplex_data.memory.words import assemble_words
from inkplex_data.speech.tokenizer import TextTokenizer

MODULES = [
    "memory.pieces",
    "memory.plan",
    "memory.token_order",
    "memory.versions",
    "memory.words",
    "speech.interleave",
    "speech.interleave_grid",
    "trainer.memory.visibility",
    "trainer.model.delays",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name: str) -> None:
    module = importlib.import_module(f"inkplex_data.{name}")
    examples = {"assemble_words": assemble_words, "tokenizer": TextTokenizer.load()}
    result = doctest.testmod(module, extraglobs=examples)
    assert result.attempted and not result.failed
