"""Inputs of all verbs, made once."""

from __future__ import annotations

import pytest

from tests.outputs.verbs import Inputs


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("inputs"))
