from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from inkplex_data.store.reader import Store, open_store
from tests.loader.made import make_store
from tests.store.made import Made


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Shared; tests only read it."""
    return make_store(tmp_path_factory.mktemp("loader") / "store")


@pytest.fixture(scope="session")
def store(made: Made) -> Iterator[Store]:
    with open_store(made.root) as opened:
        yield opened
