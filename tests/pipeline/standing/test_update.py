"""A store that follows its corpus: what is stale is named, and built anew only when asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import inkplex_data as ink
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.pipeline.calls import build_call as build_call_module
from inkplex_data.store.frame_streams import STREAMS
from inkplex_data.store.verify import verify_store
from tests.pipeline.conftest import tree, write_call
from tests.pipeline.standing.conftest import Standing, line, write_recording

PLACE = (
    "shard", "frame_offset", "word_offset", "version_offset", "evidence_offset", "claim_offset", "call_ix",
)  # fmt: skip
"""Columns that say where a call lies; all others say what it is."""


def changed_words(standing: Standing) -> None:
    standing.say("a", "Goodbye?")


def changed_audio(standing: Standing) -> None:
    write_call(standing.folder, "d", 99, 1.0)


def changed_line(standing: Standing) -> None:
    standing.write([one | {"role": "Be stern."} if one["id"] == "b" else one for one in standing.lines])


def changed_recording(standing: Standing) -> None:
    write_recording(standing.folder / "red.jsonl", "red", "the red bill was paid on time after all")


def changed_states(standing: Standing) -> None:
    other = standing.folder / "green.safetensors"
    other.write_bytes(other.read_bytes()[:-2] + b"\x00\x40")


def other_recording(standing: Standing) -> None:
    standing.write([one | {"recording": "blue.jsonl"} if one["id"] == "e" else one for one in standing.lines])


def missing_words(standing: Standing) -> None:
    (standing.folder / "c.json").unlink()


CHANGES: list[tuple[Callable[[Standing], None], str]] = [
    (changed_words, r"1 call differs from what was published: a \(words\)"),
    (changed_audio, r"d \(audio\)"),
    (changed_line, r"b \(line\)"),
    (changed_recording, r"2 calls differ from what was published: a \(recording\), b \(recording\)"),
    (changed_states, r"d \(recording\)"),
    (other_recording, r"e \(recording\)"),
    (missing_words, r"c \(words\)"),
    (lambda standing: standing.without("d"), r"1 published call is not in the corpus: d"),
    (lambda standing: (standing.folder / "d.wav").unlink(), r"not in the corpus: d \(file-missing\)"),
]


@pytest.mark.parametrize(("change", "named"), CHANGES)
def test_a_rerun_names_what_is_stale_and_touches_nothing(
    standing: Standing, change: Callable[[Standing], None], named: str
) -> None:
    before = tree(standing.store)
    change(standing)
    with pytest.raises(UsageError, match=named) as refused:
        standing.build()
    assert "--update" in str(refused.value)
    if "not in the corpus" in named:
        assert standing.build(add=True).gone == ("d",)
    else:
        with pytest.raises(UsageError, match=named):
            standing.build(add=True)
    assert {name: data for name, data in tree(standing.store).items() if ".build" not in name} == before


def test_a_touched_file_is_not_a_changed_one(standing: Standing) -> None:
    for path in standing.folder.iterdir():
        path.touch()
    assert standing.build().already == 6


def contents(store: Path, snapshot: int | None = None) -> dict[str, dict[str, Any]]:
    """All that a store says of each call, wherever it lies: row, streams, tables, prefix, states."""
    found = {}
    with ink.open_store(store, snapshot=snapshot) as opened:
        for call_id in opened.call_ids:
            call = opened.call(call_id)
            states = call.states_u16
            found[call_id] = {
                "row": {name: value for name, value in call.row.items() if name not in PLACE},
                "tables": [
                    call.words,
                    call.versions,
                    call.tokens,
                    opened.problems_of(call_id).sort("code", "message"),
                ],
                "arrays": [call.stream(stream.name) for stream in STREAMS]
                + [call.with_prefix().codes]
                + ([] if states is None else [states]),
            }
    return found


def assert_same(one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]]) -> None:
    assert one.keys() == other.keys()
    for call_id, call in one.items():
        assert call["row"] == other[call_id]["row"], call_id
        for mine, theirs in zip(call["tables"], other[call_id]["tables"], strict=True):
            assert_frame_equal(mine, theirs)
        for mine, theirs in zip(call["arrays"], other[call_id]["arrays"], strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("change", [*(change for change, _ in CHANGES if change is not missing_words)])
def test_an_updated_store_says_what_a_fresh_one_would(
    standing: Standing, change: Callable[[Standing], None], tmp_path: Path
) -> None:
    """And the snapshot before it says what it said; calls keep their numbers, shards their bytes."""
    before, files = contents(standing.store), tree(standing.store)
    numbers = index_of(standing.store)
    change(standing)
    summary = standing.build(update=True)
    fresh = dataclasses.replace(standing, store=tmp_path / "fresh")
    fresh.build()
    assert_same(contents(standing.store), contents(fresh.store))
    assert_same(contents(standing.store, snapshot=1), before)
    assert verify_store(standing.store) == []
    after = tree(standing.store)
    assert all(after[name] == data for name, data in files.items() if "/" in name)
    now = index_of(standing.store)
    assert {name: now[name] for name in numbers if name in now} == {
        n: i for n, i in numbers.items() if n in now
    }
    assert summary.calls or summary.gone == ("d",)
    # And then there is nothing more to do, in whatever way one asks.
    for options in ({}, {"add": True}, {"update": True}):
        if not summary.refused:
            assert standing.build(**options).calls == ()
    assert tree(standing.store) == after


def index_of(store: Path) -> dict[str, int]:
    with ink.open_store(store) as opened:
        return dict(opened.calls().select("call_id", "call_ix").collect().iter_rows())


def test_everything_at_once_and_a_stop_before_the_snapshot(
    standing: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed_words(standing)
    changed_recording(standing)
    standing.without("c")
    write_call(standing.folder, "g", 77, 1.0)
    standing.write([*standing.lines, line("g", "train", "amy", "red")])
    from inkplex_data.pipeline import run

    def stopped(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(run, "publish_snapshot", stopped)
        standing.build(update=True)
    assert len(ink.open_store(standing.store)) == 6
    summary = standing.build(update=True)
    assert summary.calls == ("a", "b", "g") and summary.gone == ("c",)
    assert "left, because" in summary.text()
    fresh = dataclasses.replace(standing, store=tmp_path / "fresh")
    fresh.build()
    assert_same(contents(standing.store), contents(fresh.store))
    assert verify_store(standing.store) == []


def test_a_changed_call_that_cannot_be_built_leaves_and_is_named(standing: Standing) -> None:
    (standing.folder / "d.json").write_text('{"alignments": []}')
    summary = standing.build(update=True)
    assert summary.exit_code == 3
    assert [problem.code for problem in summary.refused] == ["text-all-pad"]
    assert sorted(ink.open_store(standing.store).call_ids) == ["a", "b", "c", "e", "f"]
    assert verify_store(standing.store) == []


def partners(store: Path) -> dict[str, str | None]:
    with ink.open_store(store) as opened:
        return dict(opened.calls().select("call_id", "wrong_memory_of").collect().iter_rows())


def test_a_call_refused_while_it_is_encoded_is_nobodys_partner(
    made: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next in order takes its place, as if it had never been there; whichever call is refused, in any order."""
    real = build_call_module.encode
    chosen = partners(made.store)
    for name in sorted({partner for partner in chosen.values() if partner is not None}):

        def encode(streams: Any, *arguments: Any, name: str = name) -> Any:
            if streams.scan.call_id == name:
                raise CallRefused("audio-changed", "it was replaced", where=name)
            return real(streams, *arguments)

        store = tmp_path / name
        with monkeypatch.context() as patched:
            patched.setattr(build_call_module, "encode", encode)
            summary = dataclasses.replace(made, store=store).build()
        assert {problem.call_id for problem in summary.refused} == {name}
        assert verify_store(store) == []
        expected = partners(store)
        assert all(other != name for other in expected.values())
        kept = {call_id: other for call_id, other in chosen.items() if other != name and call_id != name}
        assert {call_id: expected[call_id] for call_id in kept} == kept
    assert pl.Series(list(chosen.values())).n_unique() > 2
