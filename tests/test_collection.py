"""No folder of tests is passed over."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.conftest import ROOT


def test_every_folder_of_tests_is_searched(request: pytest.FixtureRequest) -> None:
    """pytest's own list of folders to leave out holds names such as `build`."""
    left_out = request.config.getini("norecursedirs")
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    names = {part for folder in folders for part in Path(folder).relative_to(ROOT).parts}
    assert {"tests", "pipeline"} <= names
    assert not [name for name in names if any(fnmatch(name, pattern) for pattern in left_out)]
