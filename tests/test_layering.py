"""The package is as docs/architecture.md draws it: layers, rooms, and sizes. Imports are read from the code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "inkplex_data"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")

MOST_MODULES, MOST_LINES = 20, 400

ONE_NAME = {
    "moshi.py": "reads and writes one layout, that of Moshi fine-tuning",
    "stages.py": "the stages of a build, as a list and as verbs",
}
"""File names that several folders have, and the subject that all of them share."""

CIRCLES = {
    ("store.call", "store.reader"): "a call names the type of the store that it is read through",
    ("store.lazy", "store.reader"): "and so does a table",
    (
        "pipeline.execute",
        "pipeline.execute_dask",
    ): "the one choice between the ways to run names each of them",
    ("pipeline.stage", "pipeline.stages"): "a stage travels to a worker as its name, and is looked up there",
}
"""Imports that close a circle, for types or at run time, and why."""


def modules(package: Path) -> dict[str, Path]:
    """Every module by its name within the package, such as `store.call`; a folder's own is its `__init__`."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(package: Path) -> dict[str, set[str]]:
    """What each module imports from its own package: at the top, within functions, and for types alone.

    `from inkplex_data import __version__` is an import of the package's face, "", which is no layer.
    """
    known = modules(package)
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        targets = graph.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name} imports relative to itself"
                source = node.module or ""
                wanted = [f"{source}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                source, wanted = "", [alias.name for alias in node.names]
            else:
                continue
            for full in wanted:
                if full.split(".")[0] != package.name:
                    continue
                inner = full.removeprefix(package.name).removeprefix(".")
                outer = source.removeprefix(package.name).removeprefix(".")
                targets.add(inner if inner in known else outer)
        targets.discard(name)
    return graph


def layers(page: str) -> dict[str, int]:
    """Height of each room in the fenced list of the page, the lowest 0."""
    [block] = re.findall(r"^```layers\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return {room: height for height, line in enumerate(block.splitlines()) for room in line.split()}


def against(graph: dict[str, set[str]], height: dict[str, int]) -> list[str]:
    """Imports that do not go to another room of a lower layer."""
    return [
        f"{name} imports {target}"
        for name, targets in sorted(graph.items())
        for target in sorted(targets)
        if name and target
        for room, used in [(name.split(".")[0], target.split(".")[0])]
        if room != used and height[used] >= height[room]
    ]


def test_the_page_lists_every_room_and_no_other() -> None:
    rooms = {name.split(".")[0] for name in modules(PACKAGE) if name}
    assert rooms == set(layers(PAGE))


def test_rooms_use_only_lower_layers() -> None:
    assert against(imports(PACKAGE), layers(PAGE)) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = imports(PACKAGE)
    for user, used in CIRCLES:
        graph[user].remove(used)
    graph.pop("")  # the face of the package hands out the store's names, and nothing below asks it for them
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_an_upward_import_a_lazy_one_and_a_circle_are_found(tmp_path: Path) -> None:
    package = tmp_path / "inkplex_data"
    texts = {
        "__init__.py": "__version__ = '1'",
        "low.py": "def f():\n    from inkplex_data import high\n",
        "high/__init__.py": "",
        "high/a.py": "from inkplex_data.high.b import x\nimport inkplex_data.low\nimport ast",
        "high/b.py": "if TYPE_CHECKING:\n    from inkplex_data.high import a\nfrom inkplex_data import __version__",
    }
    for name, text in texts.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    graph = imports(package)
    assert graph == {
        "": set(),
        "low": {"high"},
        "high": set(),
        "high.a": {"high.b", "low"},
        "high.b": {"high.a", ""},
    }
    assert against(graph, layers("```layers\nlow\nhigh\n```\n")) == ["low imports high"]
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


def test_folders_and_modules_stay_small() -> None:
    paths = list(modules(PACKAGE).values())
    folders: dict[Path, int] = defaultdict(int)
    for path in paths:
        folders[path.parent] += path.name != "__init__.py"
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {str(folder): count for folder, count in folders.items() if count > MOST_MODULES} == {}
    assert {str(path): count for path, count in lines.items() if count > MOST_LINES} == {}


def test_two_modules_of_one_name_share_a_subject() -> None:
    names = [path.name for path in modules(PACKAGE).values() if path.name != "__init__.py"]
    assert {name for name in names if names.count(name) > 1} == set(ONE_NAME)


def test_the_rooms_of_the_page_are_there() -> None:
    rows = re.findall(r"^\| (`.*?) \| .*? \| (.*?) \|$", PAGE, re.MULTILINE)
    assert len(rows) >= 15
    for rooms, beginnings in rows:
        folders = [PACKAGE / room for room in re.findall(r"`([\w/.]+)`", rooms)]
        missing = [
            folder for folder in folders if not folder.exists() and not folder.with_suffix(".py").exists()
        ]
        assert missing == []
        for beginning in re.findall(r"`([\w/.]+)`", beginnings):
            assert any((folder / beginning).is_file() for folder in folders), (rooms, beginning)
