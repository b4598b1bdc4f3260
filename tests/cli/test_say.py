"""Whatever a verb prints of others' names is spelled out, and fits any encoding."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.main import get_command

from inkplex_data.cli import say as saying
from inkplex_data.cli.app import app, main
from inkplex_data.printable import in_ascii, plain, plain_lines
from inkplex_data.problems import Problem
from inkplex_data.store.publish_snapshot import publish_snapshot
from tests.cli.test_output import verbs
from tests.conftest import ROOT
from tests.export.made import noise
from tests.store.made import add_calls, call_part, make_store

BAD = "x\x1b[31m\u202e\x07y"
RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
VERBS: dict[tuple[str, ...], list[list[str]]] = {
    ("build",): [["corpus", "-o", "out", "-p", "moshi_stereo", "--codec", "untrained:0", "--workers", "1"], ["none", "-o", "o"],
                 ["corpus", "-o", "out", "-p", BAD], ["corpus", "-o", "out", "--set", f"{BAD}=1"]],
    ("merge",): [["store", "-o", "out"], ["store", "store", "-o", "out"], ["none", "-o", "out"]],
    ("demo",): [["-o", "corpus"]],
    ("align",): [["none"], ["corpus", "--text", "none"]],
    ("diarize",): [["none", "-o", "out"], ["corpus", "-o", "out", "--rttm", "none"]],
    ("check-speech",): [["none"]],
    ("channels",): [["corpus"], ["corpus", "--json"], ["none"]],
    ("interleave",): [["corpus/words.srt", "--frames", "9"], ["corpus/ok.json", "--frames", "9"]],
    ("encode",): [["none", "-o", "a.npy"], ["none", "-o", "a.txt"]],
    ("capture",): [["none", "-o", "out", "--model", BAD]],
    ("versions",): [["store", BAD], ["store", f"{BAD}2"]],
    ("validate",): [["corpus"], ["corpus", "--json"], ["corpus/m.jsonl"], ["none"], ["corpus/ok.json"]],
    ("verify",): [["store"], ["none"]],
    ("plan",): [["corpus"], ["none"], ["corpus", "--json"]],
    ("audit",): [["store"], ["store", "--json"], ["none"]],
    ("inspect",): [["store"], ["store", BAD], ["store", f"{BAD}2"], ["none"]],
    ("report",): [["store", "-o", "r.html"], ["none"]],
    ("stats",): [["store"], ["store", "--json"], ["none"]],
    ("split",): [["corpus"], ["none"]],
    ("crop",): [["corpus", "--from", "0", "--to", "1", "-o", "c1"], ["corpus", BAD, "--from", "0", "--to", "9", "-o", "c2"],
                ["none", "--from", "2", "--to", "1", "-o", "c3"]],
    ("schema", "export"): [["-o", "schemas"]],
    ("schema", "show"): [[BAD]],
    ("export", "moshi-finetune"): [["corpus", "-o", "e1"], ["store", "-o", "e2"], ["none", "-o", "e3"]],
    ("export", "hf"): [["none", "-o", "e4"]],
    ("export", "adapter"): [["none", "-o", "e5"], ["store", "-o", "e6"]],
    ("export", "model"): [["none", "-o", "e7"]],
    ("import", "hf"): [["none", "-o", "i1"]],
    ("import", "words"): [["corpus/words.srt", "corpus/ok.json", "-o", "i2"], ["none", "-o", "i3"]],
    ("import", "trace"): [["corpus/trace.json", "-o", "i4"], ["none", "-o", "i5"]],
    ("import", "states"): [["none", "none", "-o", "i6"]],
    ("record",): [["-o", "rec", "--", BAD], ["-o", "rec", "--tokenizer", BAD, "--", "http://127.0.0.1:9"]],
    ("train",): [["none", "-o", "run"], ["store", "-o", "run", "-p", BAD]],
    ("evaluate",): [["none", "store"]],
    ("generate",): [["none", "store", "-o", "g"]],
    ("soma", "train"): [["none", "-o", "m.pt"], ["corpus/ok.json", "-o", "m.txt"]],
    ("soma", "eval"): [["none", "none"]],
    ("soma", "score"): [["store", "-m", "none"]],
    ("soma", "chat"): [["none"]],
    ("soma", "dream"): [["none"]],
    ("soma", "models"): [["corpus"], ["none"], ["none", "--name", BAD]],
    ("soma", "serve"): [["none"]],
    ("bench",): [[BAD]],
}  # fmt: skip
"""Arguments for every verb; words are names in the folder of bad name that the test lays out."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bad name with a corpus and a store in it, whose names, labels, keys and ids are no better."""
    folder = tmp_path_factory.mktemp("say") / BAD
    corpus = folder / "corpus"
    corpus.mkdir(parents=True)
    stereo = np.stack([noise(1, 4_000), noise(2, 4_000)], 1)
    for name in (BAD, "bidi\u202e", "caf\udce9"):
        soundfile.write(corpus / "t.wav", stereo, 8_000)
        (corpus / "t.wav").rename(corpus / f"{name}.wav")
    (corpus / f"{BAD}.txt").touch()
    (corpus / "words.srt").write_text(f"1\n00:00:00,000 --> 00:00:00,400\n{BAD}: hi\n")
    words = [[BAD, [0.1, 0.2], BAD], [f"w{BAD}", [0.3, 0.2], BAD]]
    (corpus / "ok.json").write_text(json.dumps({"alignments": words}))
    (corpus / "trace.json").write_text(json.dumps([{"id": BAD, "messages": [{"role": BAD, "content": 1}]}]))
    lines = [{"path": "bidi\u202e.wav", BAD: 1}, {"path": BAD}, {"path": "n\u202e", "split": BAD}]
    (corpus / "m.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = make_store(folder / "store")
    part = call_part(BAD, 30)
    part.row.update(role=BAD, voice=BAD, source=BAD)
    part.words = part.words.with_columns(text=part.words["text"] + BAD, speaker=part.words["text"] + BAD)
    add_calls(made, 2, [part])
    publish_snapshot(folder / "store", refused=[Problem.of("unexpected", f"{BAD}3", BAD, item=BAD)])
    return folder


def test_every_verb_is_here() -> None:
    assert set(VERBS) == {path for path, _ in verbs(get_command(app))}


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [(verb, one) for verb, several in VERBS.items() for one in several],
    ids=lambda part: plain(" ".join(part)),
)
def test_a_verb_prints_no_raw_control_character(
    verb: tuple[str, ...],
    arguments: list[str],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(folder / one) if re.match("(corpus|store|none)", one) else one for one in arguments]
    with pytest.raises(SystemExit):
        main([*verb, *given])
    printed = capfd.readouterr()
    assert not RAW.search(printed.out + printed.err), repr(printed)
    assert "Traceback" not in printed.err
    if "--json" in arguments:
        assert [json.loads(line) for line in printed.out.splitlines()]
    elif verb in {("build",), ("channels",), ("validate",), ("inspect",)}:
        assert r"x\x1b[31m\u202e\x07y" in re.sub(r"\s", "", printed.out + printed.err)


def test_verbs_print_through_one_function() -> None:
    found = {
        (node.func.attr, path.name)
        for path in (ROOT / "inkplex_data" / "cli").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"echo", "secho"}
    }
    assert not found


def test_spelling() -> None:
    assert plain("a b é 通\u3000話 'x'") == "a b é 通\u3000話 'x'"
    assert plain(f"{BAD}\n\udce9") == r"x\x1b[31m\u202e\x07y\n\udce9"
    assert plain_lines("a\x9b\nb") == "a\\x9b\nb"
    assert "".join(map(in_ascii, "→…█▁─│┼é😀\udce9")) == "->...#_-|+\\xe9\\U0001f600\\udce9"


def test_streams_of_any_encoding_take_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    saying.fit_streams()
    saying.say("a → é\udce9\x1b")
    assert raw.getvalue() == b"a -> \\xe9\\udce9\\x1b\n"


def test_a_locale_without_utf8_gets_sentences(folder: Path) -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-m", "inkplex_data.cli.app", "inspect", str(folder / "store")]
    done = subprocess.run(run, capture_output=True, env={**os.environ, **locale}, check=False)
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    assert done.stdout.isascii() and done.stdout.count(b"-") and rb"\x1b[31m\u202e" in done.stdout
