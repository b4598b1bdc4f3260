"""Small inputs that once went wrong, each with what is right for it. They lie with the real recordings."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import Result
from typer.testing import CliRunner

import inkplex_data as ink
from inkplex_data.cli.app import app
from tests.quick_codec import QUICK

CHECKS: dict[str, Callable[[Path], None]] = {}
"""By the folder's name; each is given a copy of the folder, in which it stands."""


def case(check: Callable[[Path], None]) -> Callable[[Path], None]:
    CHECKS[check.__name__] = check
    return check


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def said(result: Result) -> str:
    """All that a command printed; an error of the family is its exception here."""
    return f"{result.output}\n{result.exception if result.exception is not None else ''}"


def build(corpus: Path, out: Path, *more: str) -> Result:
    return run("build", corpus, "-o", out, "-p", "moshi_stereo", "--codec", QUICK, "--workers", "1", *more)


def calls(store: Path, *columns: str) -> list[Any]:
    with ink.open_store(store) as opened:
        return opened.calls().sort("call_id").select(columns).collect().rows()


def problems(store: Path) -> dict[str, set[str]]:
    """Codes by call."""
    with ink.open_store(store) as opened:
        table = opened.problems().collect()
    found: dict[str, set[str]] = {}
    for call_id, code in table.select("call_id", "code").iter_rows():
        found.setdefault(call_id, set()).add(code)
    return found


@pytest.mark.parametrize(
    "name", sorted(path.name for path in Path(__file__).parents[2].glob("shared/data/cases/*/")) or [""]
)
def test_case(name: str, real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / name
    shutil.copytree(real_data / "cases" / name, folder, symlinks=True)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(
            0o755 if path.is_dir() else 0o644, follow_symlinks=False
        ) if not path.is_symlink() else None
    (folder / "README").unlink()
    monkeypatch.chdir(tmp_path)
    CHECKS[name](folder)


def test_every_case_has_its_check(real_data: Path) -> None:
    assert {path.name for path in (real_data / "cases").iterdir() if path.is_dir()} == CHECKS.keys()


@case
def dup_key(folder: Path) -> None:
    result = build(folder, folder.parent / "out")
    assert result.exit_code == 1
    assert problems(folder.parent / "out")["a"] == {"words-unreadable"}
    assert "gives the key 'alignments' twice" in said(result)
    assert "'alignments' twice" in said(run("validate", folder))


@case
def export_control_id(folder: Path) -> None:
    out = folder.parent / "out"
    result = run("export", "moshi-finetune", folder, "-o", out)
    exported = {json.loads(line)["id"] for line in (out / "manifest.jsonl").read_text().splitlines()}
    built = build(out, folder.parent / "store")
    assert built.exit_code == 0, said(built)
    assert {call_id for (call_id,) in calls(folder.parent / "store", "call_id")} == exported
    assert "plain" in exported
    if len(exported) == 1:
        assert result.exit_code == 3
        assert "call-unnamable" in said(result)


@case
def no_words_message(folder: Path) -> None:
    result = build(folder, folder.parent / "out")
    told = {line["call_id"]: line["message"] for line in _refused(folder.parent / "out")}
    assert result.exit_code == 1
    assert "taken as milliseconds, all times lie within the audio" in told["ms"]
    assert "ending at or before their start" in told["zero"]
    assert "without a text, a pair of times or a speaker's label" in told["null"]
    for message in told.values():
        assert "read and none is left" in message


def _refused(store: Path) -> list[dict[str, str]]:
    with ink.open_store(store) as opened:
        return opened.problems().filter(pl.col("severity") == "error").collect().to_dicts()


@case
def out_with_colon(folder: Path) -> None:
    out = Path("run-2024-05-01T10:30/store")
    assert build(folder / "corpus", out).exit_code == 0
    assert calls(out, "call_id") == [("a",)]
    before = sorted(path.name for path in Path().iterdir())
    refused = run(
        "build", folder / "corpus", "-o", "s3://bucket/store", "-p", "moshi_stereo", "--codec", QUICK
    )
    assert refused.exit_code != 0
    assert "s3://bucket/store" in said(refused)
    assert sorted(path.name for path in Path().iterdir()) == before
    spelled = f"file://{folder.parent / 'other'}"
    given = run(
        "build",
        folder / "corpus",
        "-o",
        spelled,
        "-p",
        "moshi_stereo",
        "--codec",
        QUICK,
        "--workers",
        1,
    )
    assert given.exit_code == 0, said(given)
    assert calls(folder.parent / "other", "call_id") == [("a",)]
    assert sorted(path.name for path in Path().iterdir()) == sorted([*before, "other"])


@case
def repair_shard(folder: Path) -> None:
    out = folder.parent / "out"
    assert build(folder, out, "--set", "store.shard_bytes=4000").exit_code == 0
    whole = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    chunk = out / "calls/000000/arrays.zarr/codes/c/0/0"
    os.truncate(chunk, 40)
    told = said(run("verify", out))
    assert "delete its shard folder and run the same build again" in told
    shutil.rmtree(out / "calls/000000")
    again = run("build", folder, "-o", out, "--workers", "1")
    assert again.exit_code == 0, said(again)
    assert run("verify", out).exit_code == 0
    assert {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()} == whole
    os.truncate(chunk, 40)
    assert run("build", folder, "-o", out, "--workers", "1").exit_code == 0
    assert chunk.read_bytes() == whole[chunk.relative_to(out)]


@case
def sibling_name(folder: Path) -> None:
    # The case holds the text of the link, so that it can be copied anywhere.
    (folder / "corpus" / "a.wav").unlink()
    (folder / "corpus" / "a.wav").symlink_to("../corpus_2024/a.wav")
    told = said(build(folder / "corpus", folder.parent / "out"))
    assert "corpus folder_2024" not in told
    assert "corpus_2024/a.wav" in told


@case
def split_ignored(folder: Path) -> None:
    out = folder.parent / "out"
    result = build(folder / "data.jsonl", out)
    assert result.exit_code == 0, said(result)
    lines = [json.loads(line) for line in (folder / "data.jsonl").read_text().splitlines()]
    wanted = {
        Path(line["path"]).stem: tuple(line.get(name) for name in ("split", "role", "voice"))
        for line in lines
    }
    found = {call_id: tuple(rest) for call_id, *rest in calls(out, "call_id", "split", "role", "voice")}
    for call_id, (split, role, voice) in wanted.items():
        assert found[call_id] == (split or found[call_id][0], role, voice)
    assert any(split for split, _, _ in wanted.values())


@case
def stale_rebuild(folder: Path) -> None:
    out, corpus = folder.parent / "out", folder.parent / "corpus"
    shutil.copytree(folder / "before", corpus)
    assert build(corpus, out).exit_code == 0
    old = dict(calls(out, "call_id", "audio_sha256"))
    shutil.rmtree(corpus)
    shutil.copytree(folder / "after", corpus)
    for more in ((), ("--add",)):
        refused = run("build", corpus, "-o", out, "--workers", "1", *more)
        assert refused.exit_code != 0
        for part in ("c0 (words)", "c1 (audio)", "--update"):
            assert part in said(refused)
    assert dict(calls(out, "call_id", "audio_sha256")) == old
    updated = run("build", corpus, "-o", out, "--workers", "1", "--update")
    assert updated.exit_code == 0, said(updated)
    new = dict(calls(out, "call_id", "audio_sha256"))
    assert new["c0"] == old["c0"] and new["c1"] != old["c1"]
    with ink.open_store(out) as store:
        given = [word for word, *_ in json.loads((corpus / "c0.json").read_text())["alignments"]]
        assert store.call("c0").words["text"].to_list() == given
    assert run("verify", out).exit_code == 0 and run("audit", out).exit_code == 0
    with ink.open_store(out, snapshot=1) as store:
        assert dict(store.calls().select("call_id", "audio_sha256").collect().rows()) == old


@case
def states_zero_rows(folder: Path) -> None:
    result = run(
        "import", "states", folder / "rec.recording.jsonl", folder / "captured", "-o", folder.parent / "out"
    )
    assert result.exit_code != 0
    assert "tokens 25 to 80" in said(result) and "zero" in said(result)
    assert not list(folder.parent.glob("out/**/*.recording.jsonl"))


@case
def timestamp_gap(folder: Path) -> None:
    out = folder.parent / "out"
    result = build(folder, out)
    assert result.exit_code == 0, said(result)
    rows = calls(out, "call_id", "frames")
    assert [call_id for call_id, _ in rows] == ["gap_m4a", "gap_mka", "gap_webm"]
    for call_id, frames in rows:
        assert frames == pytest.approx(5 * 12.5, abs=1), call_id
        assert "audio-damaged" in problems(out)[call_id]
        with ink.open_store(out) as store:
            mask = store.call(call_id).mask
        assert not mask[14:24].any(), "the second that is missing carries no loss"
        assert mask[28:60].all() and mask[1:12].all()


@case
def validate_truncated_json(folder: Path) -> None:
    told = said(run("validate", folder))
    assert "cut.json" in told and "not JSON" in told
    assert "labels.json" in told and "labels seen" in told
    alone = run("validate", folder / "cut.json")
    assert alone.exit_code == 1 and "not JSON" in said(alone)
    built = build(folder, folder.parent / "out")
    assert built.exit_code == 1
    assert problems(folder.parent / "out") == {"cut": {"words-unreadable"}, "labels": {"text-all-pad"}}


@case
def words_dropped_zero(folder: Path) -> None:
    out = folder.parent / "out"
    assert build(folder, out).exit_code == 0
    assert calls(out, "words_dropped") == [(4,)]
    assert re.search(r"dropped +4 words", said(run("inspect", out)))
