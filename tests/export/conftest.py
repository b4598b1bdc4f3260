"""One made corpus for the whole folder."""

from __future__ import annotations

import pytest

from inkplex_data.corpus.entry import Corpus
from inkplex_data.corpus.read_corpus import read_corpus
from tests.export.made import make_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Not to be written to."""
    return read_corpus(make_corpus(tmp_path_factory.mktemp("made") / "corpus"))
