"""Calls whose channels share the codec's rows: grouped by length, encoded as each alone, and failing alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inkplex_data.config.recipe import load_recipe
from inkplex_data.errors import MachineFault
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls import build_call
from inkplex_data.pipeline.calls.calls_in_step import SORTED_GROUPS, InStep, groups_of
from inkplex_data.pipeline.calls.encode import Encoded
from inkplex_data.pipeline.execute import InlineExecutor, Outcome
from inkplex_data.pipeline.run import build_store
from inkplex_data.problems import refusal
from inkplex_data.speech.codec_rows import MimiRows
from inkplex_data.store.reader import open_store
from tests.pipeline.conftest import write_call, write_manifest


def test_groups_are_of_similar_lengths_and_hold_every_call_once() -> None:
    assert groups_of([5, 90, 7, 80, 6], 2) == [(1, 3), (2, 4), (0,)]
    assert groups_of([1, 1, 1], 2) == [(0, 1), (2,)]
    assert groups_of([3, 4], 1) == [(1,), (0,)]
    assert groups_of([], 4) == []
    frames = [int(value) for value in np.random.default_rng(1).integers(1, 999, 500)]
    groups = groups_of(frames, 3)
    assert sorted(place for group in groups for place in group) == list(range(500))
    # Far calls do not wait for each other: a shard is done nearly in order.
    assert all(max(group) - min(group) < 3 * SORTED_GROUPS for group in groups)


def codes(store: Path) -> dict[str, np.ndarray]:
    with open_store(store) as opened:
        return {
            call_id: np.array(opened.call(call_id).codes) for call_id in opened.calls().collect()["call_id"]
        }


def test_calls_in_step_have_the_codes_that_each_has_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for seed, (name, seconds) in enumerate({"one": 2.5, "two": 1.0, "bad": 0.5}.items()):
        write_call(folder, name, seed, seconds)
    corpus = write_manifest(folder, [{"id": name, "path": f"{name}.wav"} for name in ("one", "two", "bad")])
    options = {"codec.id": "untrained:0", "codec.batch_rows": 6, "prefix": None, "words.source": "none"}
    recipe = load_recipe(None, options)
    rows: list[int] = []
    step, encode = MimiRows.step, build_call.encode

    def counted(self: MimiRows, samples: np.ndarray) -> np.ndarray:
        rows.append(int((samples != 0).any(axis=1).sum()))
        return step(self, samples)

    def failing(streams: object, *given: object) -> Encoded:
        encoded = encode(streams, *given)  # type: ignore[arg-type]
        if len(encoded.codes) == 7:
            raise refusal("audio-unreadable", "made so")
        return encoded

    monkeypatch.setattr(MimiRows, "step", counted)
    monkeypatch.setattr(build_call, "encode", failing)
    summary = build_store(corpus, tmp_path / "store", recipe=recipe, workers=1)
    assert summary.exit_code == 3
    # All three in one step, then what was left of the longest.
    assert rows == [6, 2]
    codec = tools.codec(recipe.codec, "cpu")
    together = codes(tmp_path / "store")
    assert together.keys() == {"one", "two"}
    monkeypatch.undo()
    alone = write_manifest(folder, [{"id": "two", "path": "two.wav"}])
    build_store(alone, tmp_path / "alone", recipe=recipe, workers=1)
    np.testing.assert_array_equal(codes(tmp_path / "alone")["two"], together["two"])
    with open_store(tmp_path / "store") as store:
        assert store.description["codec"] == codec.identity.as_dict()
        assert store.description["codec"]["batch_rows"] == 6


@dataclass
class Length:
    """As much of a call's job as grouping reads."""

    frames: int

    @property
    def scan(self) -> Length:
        return self


class FailsTogether(InlineExecutor):
    """Loses whatever it is given as more than one call."""

    def map(
        self, function: Callable[[Any], Any], arguments: Sequence[Any], *, alone: bool = False
    ) -> Iterator[Outcome[Any]]:
        for index, (perform, jobs) in enumerate(arguments):
            if len(jobs) > 1:
                yield Outcome(index, error=MachineFault("gone"))
            else:
                yield Outcome(index, value=[(perform(jobs[0]), None)])


def test_calls_of_a_lost_group_are_tried_one_by_one() -> None:
    jobs = [Length(frames) for frames in (5, 90, 7, 80, 6)]
    outcomes = list(InStep(FailsTogether(), 4).map(lambda job: job.frames, jobs))
    assert {outcome.index: outcome.value for outcome in outcomes} == dict(enumerate((5, 90, 7, 80, 6)))
    assert all(outcome.error is None for outcome in outcomes)
