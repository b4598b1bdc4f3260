"""One style for what to do next: a sentence with a capital letter and a full stop, wherever a message gives one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from inkplex_data.problems import CODES
from tests.conftest import ROOT

PACKAGE = ROOT / "inkplex_data"


def texts(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """First and last piece of each text that `node` can be, "" where a value stands there; nothing of unread names."""
    match node:
        case ast.Constant(value=str(text)):
            yield text, text
        case ast.JoinedStr(values=[first, *_] as values):
            start, end = (
                part.value if isinstance(part, ast.Constant) else "" for part in (first, values[-1])
            )
            yield str(start), str(end)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            starts = [start for start, _ in texts(left, constants)] or [""]
            ends = [end for _, end in texts(right, constants)] or [""]
            yield from ((start, end) for start in starts for end in ends)
        case ast.IfExp(body=body, orelse=orelse):
            yield from texts(body, constants)
            yield from texts(orelse, constants)
        case ast.Name(id=name) if name in constants:
            yield from texts(constants[name], constants)


def next_steps(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, start and end of every text that is given as `next_step` or `remedy`."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in {"next_step", "remedy"}:
            yield from ((node.value.lineno, start, end) for start, end in texts(node.value, constants))


def faults(source: str) -> list[int]:
    return [line for line, start, end in next_steps(source) if not start[:1].isupper() or end[-1:] != "."]


def test_every_next_step_is_a_sentence() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if (lines := faults(path.read_text(encoding="utf-8")))
    }
    assert not found, "lines by file"


def test_remedies_of_codes_are_sentences() -> None:
    for name, code in CODES.items():
        assert code.remedy[0].isupper() and code.remedy.endswith("."), name


@pytest.mark.parametrize(
    ("step", "right"),
    [
        ('"Build again."', True),
        ('"build again."', False),
        ('"Build again"', False),
        ('f"One of {a}."', True),
        ('f"{a} or {b}."', False),
        ('"Known: " + ", ".join(a) + "."', True),
        ('"Known: " + ", ".join(a)', False),
        ('"Build it." if a else "mend it."', False),
        ("AGAIN", False),
        ("error.next_step", True),
    ],
)
def test_the_style_is_told_apart(step: str, right: bool) -> None:
    assert (not faults(f"AGAIN = 'again'\nfail('what', next_step={step})")) == right
