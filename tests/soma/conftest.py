from __future__ import annotations

import pytest

from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer


@pytest.fixture(scope="session")
def tokenizer() -> SomaTokenizer:
    return SomaTokenizer.load()
