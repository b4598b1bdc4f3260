"""The command as a whole: help without heavy libraries, mistakes as sentences, exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from inkplex_data.cli.app import app, main

HEAVY = (
    "torch",
    "polars",
    "numpy",
    "zarr",
    "pyarrow",
    "transformers",
    "pydantic",
    "soundfile",
    "distributed",
)


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; sys.argv = ['inkplex-data', '--help']\n"
        "from inkplex_data.cli.app import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "inkplex-data demo" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["build", "nowhere", "-o", "store"], 1, ["nowhere", "does not exist", "Name a manifest"]),
        (["build", "corpus", "-o", "store", "-p", "nope"], 2, ["no recipe 'nope'", "demo"]),
        (
            ["build", "corpus", "-o", "store", "--set", "text.policy=x"],
            2,
            ["text.policy", "kyutai", "got 'x'"],
        ),
        (["build", "corpus", "-o", "store", "--set", "text"], 2, ["KEY=VALUE"]),
        (["build", "corpus", "-o", "corpus"], 2, ["holds no store"]),
        (["build", "corpus", "-o", "store", "--workers", "0"], 2, ["at least 1"]),
        (["inspect", "nowhere"], 1, ["store.json is missing", "inkplex-data build"]),
        (["verify", "nowhere"], 1, ["store.json is missing"]),
        (["validate", "corpus/odd.bin"], 1, ["cannot be recognised", "--kind"]),
        (["schema", "show", "nope"], 2, ["no schema 'nope'", "manifest"]),
        (["bench", "nope"], 2, ["no benchmark 'nope'"]),
    ],
)
def test_a_mistake_gets_a_sentence_and_an_exit_code(
    arguments: list[str],
    exit_code: int,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "odd.bin").write_bytes(b"\x00\x01")
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    printed = capsys.readouterr()
    assert stopped.value.code == exit_code, printed
    for part in said:
        assert part in printed.err
    assert "Traceback" not in printed.err + printed.out


def test_a_codec_that_cannot_be_had_names_the_ways_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.pipeline.conftest import make_corpus

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "empty"))
    corpus = make_corpus(tmp_path / "corpus")
    with pytest.raises(SystemExit) as stopped:
        main(["build", str(corpus), "-o", str(tmp_path / "store"), "--workers", "1"])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    for part in ("kyutai/mimi", "folder", "untrained:0"):
        assert part in said


def test_validate_names_line_value_and_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_text('{"id": "a", "path": "a.wav", "splt": "train"}\n{"id": 3, "path": "b.wav"}\n')
    with pytest.raises(SystemExit) as stopped:
        main(["validate", str(path)])
    said = capsys.readouterr().out
    assert stopped.value.code == 1
    assert "manifest.jsonl:1" in said
    assert "splt" in said
    assert "manifest.jsonl:2" in said
    assert "got 3" in said


def test_every_verb_has_help() -> None:
    from typer.main import get_command

    def walk(command: object, path: str) -> None:
        told = getattr(command, "help", None)
        assert told, path
        assert all("\n" not in part for part in told.split("\n\n")), f"{path}: broken where its source is"
        for name, child in getattr(command, "commands", {}).items():
            walk(child, f"{path} {name}")

    walk(get_command(app), "inkplex-data")
