"""Whole builds of a small corpus with the real codec on untrained weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile

import inkplex_data as ink
from inkplex_data.clock import FRAME_US
from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.grid import MASK_ALL, MASK_CALLER
from inkplex_data.pipeline.calls import build_call as build_call_module
from inkplex_data.pipeline.progress import SilentReporter
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.target import empty_store
from inkplex_data.store.verify import verify_store
from tests.pipeline.conftest import RATE_HZ, plain_loop, tree, voice, write_call, write_manifest
from tests.store.made import make_store


def test_codes_are_those_of_a_plain_loop_over_the_model(mimi_built: Path, corpus: Path) -> None:
    """Each side on its own through `MimiModel.encode`, 25 frames at a time, the last frame padded with zeros."""
    call = ink.open_store(mimi_built).call("two")
    stereo, _ = soundfile.read(corpus.parent / "two.wav", dtype="float32")
    for side in range(2):
        np.testing.assert_array_equal(call.codes[8 * side : 8 * side + 8], plain_loop(stereo[:, side]))


def test_the_stored_call_says_what_the_corpus_said(built: Path) -> None:
    store = ink.open_store(built)
    call = store.call("one")
    assert (call.frames, call.row["samples"], call.split) == (32, 60_000, "train")
    words = call.words
    assert words["text"].to_list()[:2] == ["Hello?", "Good"]
    main = words.filter(pl.col("speaker") == "SPEAKER_MAIN", pl.col("placed") > 0)
    assert main.height == 7
    assert (main["frame"] == main["start_us"] // FRAME_US).all()
    for frame, pieces in zip(main["frame"].to_list(), main["pieces"].to_list(), strict=True):
        assert call.text[frame] == pieces[0]
    # The caller's word is kept as a word, and never in the agent's text.
    assert words.filter(pl.col("speaker") == "SPEAKER_CALLER")["placed"].to_list() == [0]
    assert store.calls().select("words_dropped").collect()["words_dropped"].to_list() == [0, 0, 0]
    assert verify_store(built) == []


def test_prefixes_take_the_voice_of_another_call_of_the_split(built: Path) -> None:
    store = ink.open_store(built)
    prefixes = store.prefixes().collect()
    sources = {row["prefix_id"]: row for row in prefixes.iter_rows(named=True)}
    rows = {
        row["call_id"]: sources[row["prefix_id"]] for row in store.calls().collect().iter_rows(named=True)
    }
    assert rows["one"]["voice_source"].startswith("call:two@")
    assert rows["two"]["voice_source"].startswith("call:one@")
    assert rows["three"]["voice_source"] is None  # nobody else of that voice is in its split
    composed = store.call("one").with_prefix()
    assert (
        composed.prefix_frames
        == rows["one"]["frames"]
        == rows["one"]["voice_frames"] + 12 + rows["one"]["role_pieces"]
    )
    assert composed.codes.shape == (16, composed.prefix_frames + 32)
    assert not composed.mask[: composed.prefix_frames].any()
    np.testing.assert_array_equal(composed.codes[:, composed.prefix_frames :], store.call("one").codes)


@pytest.mark.parametrize("kind", ["fifo", "nothing", "text"])
def test_a_voice_that_cannot_be_heard_stops_before_any_work(
    corpus: Path, tmp_path: Path, recipe: Recipe, kind: str
) -> None:
    """A pipe that nobody writes to would be waited for without end."""
    file = tmp_path / "voice.wav"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "text":
        file.write_text("hello")
    assert recipe.prefix is not None
    named = recipe.model_copy(
        update={"prefix": recipe.prefix.model_copy(update={"voices": {"v": str(file)}})}
    )
    with pytest.raises(ConfigError, match=r"prefix\.voices\.v"):
        build_store(corpus, tmp_path / "store", recipe=named, workers=1)
    assert not (tmp_path / "store").exists()


def test_two_more_voices_give_two_composed_examples_without_a_rebuild(
    corpus: Path, recipe: Recipe, tmp_path: Path
) -> None:
    for name, pitch in (("low", 90), ("high", 300)):
        soundfile.write(tmp_path / f"{name}.wav", voice(7, 1.6, pitch), RATE_HZ)
    voices = {name: str(tmp_path / f"{name}.wav") for name in ("low", "high")}
    many = recipe.model_copy(update={"prefix": recipe.prefix.model_copy(update={"voices": voices})})
    build_store(corpus, tmp_path / "store", recipe=many, workers=1)
    call = ink.open_store(tmp_path / "store").call("one")
    low, high = (call.with_prefix(voice=name, role="You are kind.") for name in ("low", "high"))
    assert (
        low.prefix_frames == high.prefix_frames == 20 + 12 + (low.text[26 : low.prefix_frames - 6] != 3).sum()
    )
    assert not np.array_equal(low.codes[:8, :20], high.codes[:8, :20])
    np.testing.assert_array_equal(low.codes[:, low.prefix_frames :], high.codes[:, high.prefix_frames :])


def test_any_way_of_running_gives_the_same_bytes(
    mimi_built: Path, corpus: Path, mimi_recipe: Recipe, tmp_path: Path
) -> None:
    summary = build_store(corpus, tmp_path / "parallel", recipe=mimi_recipe, workers=2)
    assert summary.exit_code == 0
    assert tree(tmp_path / "parallel") == tree(mimi_built)
    assert not (mimi_built / ".build").exists()


def test_a_run_stopped_anywhere_is_finished_by_a_rerun(
    built: Path, corpus: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop before each call in turn; the store opens with what was published, and the rerun ends in equal bytes."""
    whole = tree(built)
    real = build_call_module.encode
    encoded: list[int] = []

    def one_call_only(limit: int) -> Any:
        def encode(*arguments: Any) -> Any:
            if len(encoded) == limit:
                raise KeyboardInterrupt
            encoded.append(1)
            return real(*arguments)

        return encode

    for limit in range(3):
        monkeypatch.setattr(build_call_module, "encode", one_call_only(limit))
        with pytest.raises(KeyboardInterrupt):
            build_store(corpus, tmp_path / "again", recipe=recipe, workers=1)
        assert len(encoded) == limit, "no call is encoded twice"
        opened = ink.open_store(tmp_path / "again")
        assert not opened.complete
        assert all(opened.call(call_id).frames == 32 for call_id in opened.call_ids)
    monkeypatch.setattr(build_call_module, "encode", one_call_only(3))
    assert build_store(corpus, tmp_path / "again", recipe=recipe, workers=1).exit_code == 0
    assert tree(tmp_path / "again") == whole
    assert len(encoded) == 3


@pytest.mark.slow
def test_killed_in_the_middle_and_run_again(
    mimi_built: Path, corpus: Path, mimi_recipe: Recipe, tmp_path: Path
) -> None:
    """kill -9 as soon as the first shard is there."""
    store = tmp_path / "killed"
    command = [
        sys.executable, "-m", "inkplex_data.cli.app", "build", str(corpus), "-o", str(store),
        "--codec", "untrained:0", "--set", "store.shard_bytes=4000", "--workers", "1",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while (
        not (store / "calls" / "000000" / "shard.json").exists()
        and time.monotonic() < deadline
        and process.poll() is None
    ):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (store / "calls" / "000000" / "shard.json").exists()
    assert "one" in ink.open_store(store)
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert tree(store) == tree(mimi_built)


def test_a_bad_call_stops_nobody_and_is_named(own_corpus: Path, recipe: Recipe, tmp_path: Path) -> None:
    folder = own_corpus.parent
    lines = [json.loads(line) for line in own_corpus.read_text().splitlines()]
    soundfile.write(folder / "mono.wav", voice(1, 1.0, 100), RATE_HZ)
    (folder / "mono.json").write_text('{"alignments": [["hi", [0.1, 0.2], "SPEAKER_MAIN"]]}')
    write_call(folder, "silent-words", 9, 1.0)
    (folder / "silent-words.json").write_text('{"alignments": []}')
    (folder / "copy.wav").write_bytes((folder / "one.wav").read_bytes())
    (folder / "copy.json").write_bytes((folder / "one.json").read_bytes())
    lines += [
        {"id": "mono", "path": "mono.wav"},
        {"id": "silent-words", "path": "silent-words.wav"},
        {"id": "copy", "path": "copy.wav", "family": "other"},
        {"id": "gone", "path": "gone.wav"},
        {"id": "outside", "path": "../outside.wav"},
        {"id": "one", "path": "two.wav"},
    ]
    summary = build_store(write_manifest(folder, lines), tmp_path / "store", recipe=recipe, workers=1)
    assert summary.exit_code == 3
    assert summary.calls == ("one", "three", "two")
    codes = {problem.call_id: problem.code for problem in summary.refused}
    assert codes == {
        "mono": "audio-mono",
        "silent-words": "text-all-pad",
        "copy": "audio-in-two-families",
        "gone": "file-missing",
        "outside": "path-outside-corpus",
        "one (manifest.jsonl:9)": "duplicate-id",
    }
    listed = ink.open_store(tmp_path / "store").problems().filter(pl.col("severity") == "error").collect()
    assert set(listed["call_id"]) == codes.keys()
    assert "--mono" in summary.text()
    assert str(folder) not in "".join(problem.message + problem.item for problem in summary.refused)


def test_missing_audio_of_one_side_is_masked_not_silence(tmp_path: Path, recipe: Recipe) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    soundfile.write(folder / "agent.wav", voice(1, 2.0, 100), RATE_HZ)
    soundfile.write(folder / "caller.wav", voice(2, 1.5, 200)[::3], 8_000)
    (folder / "words.json").write_text('{"alignments": [["Hello", [0.1, 0.4], "SPEAKER_MAIN"]]}')
    manifest = write_manifest(
        folder,
        [{"id": "pair", "path": {"agent": "agent.wav", "caller": "caller.wav"}, "words": "words.json"}],
    )
    build_store(manifest, tmp_path / "store", recipe=recipe, workers=1)
    mask = ink.open_store(tmp_path / "store").call("pair").mask
    assert len(mask) == 25
    assert (mask[:18] == MASK_ALL).all()
    assert (mask[18:] == MASK_ALL ^ MASK_CALLER).all()


def test_a_finished_store_takes_new_calls_only_when_asked(
    own_store: Path, own_corpus: Path, recipe: Recipe
) -> None:
    before = tree(own_store)
    assert build_store(own_corpus, own_store, recipe=recipe, workers=1).already == 3
    assert tree(own_store) == before
    write_call(own_corpus.parent, "four", 44)
    lines = [json.loads(line) for line in own_corpus.read_text().splitlines()]
    lines.append({"id": "four", "path": "four.wav", "family": "f3"})
    write_manifest(own_corpus.parent, lines)
    with pytest.raises(UsageError, match="--add"):
        build_store(own_corpus, own_store, recipe=recipe, workers=1)
    summary = build_store(own_corpus, own_store, recipe=recipe, workers=1, add=True)
    assert (summary.calls, summary.already) == (("four",), 3)
    store = ink.open_store(own_store)
    assert store.call("four").split == "validation"  # its family is frozen there
    assert len(ink.open_store(own_store, snapshot=1)) == 3
    after = tree(own_store)
    assert {name: after[name] for name in before if name.startswith(("calls/", "snapshots/"))} == {
        name: data for name, data in before.items() if name.startswith(("calls/", "snapshots/"))
    }
    with pytest.raises(ConfigError, match=r"text\.delay_s"):
        build_store(
            own_corpus,
            own_store,
            recipe=load_recipe(
                None, {"codec.id": "untrained:0", "store.shard_bytes": 4_000, "text.delay_s": 0.5}
            ),
        )
    assert verify_store(own_store) == []


def test_a_store_older_than_a_recipe_key_is_one_with_its_default(
    own_store: Path, corpus: Path, recipe: Recipe
) -> None:
    description = json.loads((own_store / "store.json").read_text())
    assert description["configuration"]["audio"].pop("streams") == "two"
    (own_store / "store.json").write_text(json.dumps(description))
    assert build_store(corpus, own_store, recipe=recipe, workers=1).already == 3
    description["configuration"]["audio"]["streams"] = "neither"
    (own_store / "store.json").write_text(json.dumps(description))
    with pytest.raises(ConfigError, match=r"audio\.streams: the store has 'neither'"):
        build_store(corpus, own_store, recipe=recipe, workers=1)


def test_a_corpus_without_one_good_call_fails_as_a_whole(tmp_path: Path, recipe: Recipe) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "x.wav").write_bytes(b"RIFF")
    (folder / "notes.txt").touch()
    noted: list[str] = []
    reporter = SilentReporter()
    reporter.note = noted.append  # type: ignore[method-assign]
    summary = build_store(folder, tmp_path / "store", recipe=recipe, workers=1, reporter=reporter)
    assert summary.exit_code == 1
    assert [problem.code for problem in summary.refused] == ["audio-unreadable"]
    # What was noted of the corpus reaches the log, the summary and the store, under no call's id.
    assert noted == [str(note) for note in summary.notes] == ["corpus: [files-ignored] notes.txt"]
    assert noted[0] in summary.text() and summary.as_json()["notes"][0]["item"] == "corpus"
    stored = ink.open_store(tmp_path / "store").problems().filter(pl.col("call_id") == "").collect()
    assert stored["message"].to_list() == ["notes.txt"]
    assert len(ink.open_store(tmp_path / "store")) == 0


def test_a_folder_that_is_no_store_is_left_alone(corpus: Path, recipe: Recipe) -> None:
    before = tree(corpus.parent)
    with pytest.raises(UsageError, match="no store"):
        build_store(corpus, corpus.parent, recipe=recipe)
    assert {
        name: data for name, data in tree(corpus.parent).items() if not name.startswith(".build")
    } == before


@pytest.mark.slow
def test_dask_processes_give_the_same_bytes(
    mimi_built: Path, corpus: Path, mimi_recipe: Recipe, tmp_path: Path
) -> None:
    """A real scheduler and two real workers, as separate processes."""
    scheduler_file = tmp_path / "scheduler.json"
    environment = {
        **os.environ,
        "DASK_DISTRIBUTED__DASHBOARD__LINK": "",
        "DASK_DISTRIBUTED__WORKER__DAEMON": "False",
    }
    dask = [sys.executable, "-m", "dask"]
    common = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": environment,
        "cwd": tmp_path,
        "start_new_session": True,
    }
    processes = [
        subprocess.Popen(
            [
                *dask,
                "scheduler",
                "--scheduler-file",
                str(scheduler_file),
                "--host",
                "127.0.0.1",
                "--port",
                "0",
                "--no-dashboard",
            ],
            **common,
        )
    ]
    try:
        processes += [
            subprocess.Popen(
                [
                    *dask,
                    "worker",
                    "--scheduler-file",
                    str(scheduler_file),
                    "--nthreads",
                    "1",
                    "--no-dashboard",
                    "--host",
                    "127.0.0.1",
                ],
                **common,
            )
            for _ in range(2)
        ]
        deadline = time.monotonic() + 120
        while not scheduler_file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        address = json.loads(scheduler_file.read_text())["address"]
        summary = build_store(corpus, tmp_path / "dask", recipe=mimi_recipe, scheduler=address)
        assert summary.exit_code == 0, summary.text()
        assert tree(tmp_path / "dask") == tree(mimi_built)
    finally:
        for process in processes:
            # A worker's nanny has a child of its own, and neither has anything to save.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_restart_removes_all_that_a_build_makes(tmp_path: Path) -> None:
    make_store(tmp_path / "store")
    (tmp_path / "store/notes.txt").write_text("of somebody")
    empty_store(tmp_path / "store")
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["notes.txt"]
