"""Writes the reference pages that are derived from the code: problem codes and recipe keys.

Run `python docs/generate.py` after changing either; a test compares the pages with what this would write.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from inkplex_data.config.recipe import Recipe
from inkplex_data.problems import CODES

FOLDER = Path(__file__).parent / "reference"


def problems_page() -> str:
    """docs/reference/problems.md"""
    lines = [
        "# Problem codes",
        "",
        "Everything that happens to a call and that its owner should know about has a code. It appears in the summary",
        "of a build, in `problems.parquet` and in `store.problems()`. An **info** changes nothing. A **repair** has dropped",
        "or changed something, and is counted; with `--strict` it refuses the call. An **error** refuses the call; the",
        "others go on.",
        "",
    ]
    for stage in dict.fromkeys(code.stage for code in CODES.values()):
        lines += [f"## {stage}", "", "| code | severity | what it means | what to do |", "|---|---|---|---|"]
        lines += [
            f"| `{name}` | {code.severity} | {_cell(code.meaning)} | {_cell(code.remedy)} |"
            for name, code in CODES.items()
            if code.stage == stage
        ]
        lines.append("")
    return "\n".join(lines)


def recipes_page() -> str:
    """docs/reference/recipes.md"""
    lines = [
        "# Recipe keys",
        "",
        "A recipe (`pipelines/*.yaml`, or a file of your own) holds everything that affects the bytes of a store.",
        "Any key can be overridden on the command line: `--set text.delay_s=0.2`. A key that is not listed here is",
        "an error, and all faults in a file are reported together.",
        "",
        "| key | type | default | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{key}` | {kind} | {default} | {_cell(meaning)} |"
        for key, kind, default, meaning in _keys(Recipe, "")
    ]
    return "\n".join([*lines, ""])


def _keys(model: type[BaseModel], prefix: str) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, field in model.model_fields.items():
        key, section = f"{prefix}{name}", _section(field.annotation)
        default = field.get_default(call_default_factory=True)
        if section is not None:
            optional = type(None) in get_args(field.annotation)
            if optional:
                shown = "`null`" if default is None else "the keys below"
                rows.append((key, "section or `null`", shown, field.description or _first_line(section)))
            rows += _keys(section, f"{key}.")
            continue
        rows.append((key, _type(field.annotation), f"`{_yaml(default)}`", field.description or ""))
    return rows


def _section(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _type(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join("`null`" if part is type(None) else _type(part) for part in get_args(annotation))
    if origin is dict:
        return "mapping"
    if origin in (list, tuple):
        return "list"
    if hasattr(annotation, "__metadata__"):
        return _type(get_args(annotation)[0])
    return str(getattr(annotation, "__name__", annotation))


def _yaml(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _first_line(section: type[BaseModel]) -> str:
    return (section.__doc__ or "").strip().splitlines()[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


PAGES = {"problems.md": problems_page, "recipes.md": recipes_page}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
