"""A full disk in the middle of every verb: path, bytes and what to do are said, nothing half is left, and the same
command ends well when there is room. A limit on the size of files stands for the disk."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.outputs.verbs import VERBS, Inputs, Verb, leftovers, run, tree


@contextmanager
def no_file_beyond(size_bytes: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


SLOW = ("import states", "capture", "align", "encode", "generate")


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(verb, id=verb.name, marks=[pytest.mark.slow] if verb.name in SLOW else [])
        for verb in VERBS
    ],
)
def test_a_full_disk(
    verb: Verb,
    inputs: Inputs,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, out = tmp_path / "good" / "out", tmp_path / "full" / "out"
    for folder in (good, out):
        folder.parent.mkdir()
        if not verb.whole:
            folder.mkdir()
    assert run(*verb.arguments(inputs, good)) == verb.code
    assert not leftovers(good)
    largest = max(map(len, tree(good).values()))
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    for limit in (1, largest // 4, largest // 2):
        capsys.readouterr()
        with no_file_beyond(limit):
            code = run(*verb.arguments(inputs, out))
        said = capsys.readouterr()
        assert code == 1, said
        assert str(tmp_path / "full") in said.err and "bytes were written" in said.err, said.err
        assert "run the same command again" in said.err and "Exception" not in said.err
        assert not [name for name in leftovers(out) if not name.endswith(".inkplex-unfinished")]
        if verb.whole:
            assert not out.exists()
    assert not lost
    assert run(*verb.arguments(inputs, out)) == verb.code
    assert verb.content(out) == verb.content(good)
    assert not leftovers(out)
