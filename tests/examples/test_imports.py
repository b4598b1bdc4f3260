"""Whatever an example, a benchmark or the generator of pages imports from the package is there."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPTS = [
    path for folder in ("examples", "benchmarks", "docs") for path in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imported_names_exist(script: Path) -> None:
    """Also those within functions, which a start of the script alone would not reach."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "inkplex_data":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
