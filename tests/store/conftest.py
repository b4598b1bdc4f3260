"""Roots for stores: a local folder and an object store in memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tests.store.made import Made, make_store


def _clear_memory() -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


@pytest.fixture(params=["local", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty place for a store: what holds for one must hold for the other."""
    if request.param == "local":
        yield str(tmp_path / "store, with a name")
        return
    _clear_memory()
    yield "memory://bucket/a store"
    _clear_memory()


@pytest.fixture(scope="session")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def made(_template: Made, tmp_path: Path) -> Made:
    """A made local store that the test may damage."""
    target = tmp_path / "store"
    shutil.copytree(_template.root, target)
    return Made(str(target), dict(_template.parts), dict(_template.tokens), dict(_template.states))
