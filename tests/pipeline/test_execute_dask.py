"""A cluster in this process: nobody to work, a scheduler that goes, and how much is in flight."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.config.recipe import Recipe
from inkplex_data.errors import CallRefused, MachineFault
from inkplex_data.pipeline import execute_dask
from inkplex_data.pipeline.execute_dask import IN_FLIGHT, DaskExecutor
from inkplex_data.pipeline.run import build_store
from tests.pipeline.conftest import tree

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(execute_dask, "LOOK_S", 0.05)
    short = {
        "distributed.comm.timeouts.connect": "2s"
    }  # what a closing cluster waits for a scheduler that is gone
    with (
        dask.config.set(short),
        distributed.LocalCluster(
            n_workers=0, processes=False, threads_per_worker=1, dashboard_address=None
        ) as cluster,
    ):
        yield cluster


def square(number: int) -> int:
    if number == 3:
        raise CallRefused("unexpected", "three is refused", where="item 3")
    return number * number


def test_nobody_to_work_is_said_and_then_ends(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute_dask, "SAY_AFTER_S", 0.1)
    said: list[str] = []
    executor = DaskExecutor(cluster.scheduler_address, wait_s=0.3, note=said.append)
    with pytest.raises(MachineFault, match=r"no worker came to .* for 0\.3 s"):
        list(executor.map(square, [1, 2]))
    executor.close(cancel=True)
    assert len(said) == 1 and f"dask worker {cluster.scheduler_address}" in said[0]


def test_units_are_given_out_a_few_at_a_time_and_each_outcome_comes_back(cluster: Any) -> None:
    cluster.scale(2)
    executor = DaskExecutor(cluster.scheduler_address, note=print)
    executor._client.wait_for_workers(2)
    given: list[int] = []
    real = executor._client.submit

    def submit(function: Any, argument: int, **options: Any) -> Any:
        given.append(argument)
        return real(function, argument, **options)

    executor._client.submit = submit
    outcomes, most = {}, 0
    for outcome in executor.map(square, list(range(40))):
        outcomes[outcome.index] = outcome
        most = max(most, len(given) - len(outcomes) + 1)
    executor.close()
    assert most <= 2 * IN_FLIGHT
    assert sorted(outcomes) == list(range(40))
    assert isinstance(outcomes[3].error, CallRefused)
    assert all(outcomes[n].value == n * n for n in range(40) if n != 3)


def test_a_build_on_a_cluster_gives_the_same_bytes(
    cluster: Any, built: Path, corpus: Path, recipe: Recipe, tmp_path: Path
) -> None:
    cluster.scale(2)
    summary = build_store(corpus, tmp_path / "store", recipe=recipe, scheduler=cluster.scheduler_address)
    assert summary.exit_code == 0, summary.text()
    assert tree(tmp_path / "store") == tree(built)


def test_a_scheduler_that_goes_is_a_sentence(cluster: Any) -> None:
    cluster.scale(1)
    executor = DaskExecutor(cluster.scheduler_address, note=print)
    executor._client.wait_for_workers(1)
    results = executor.map(time.sleep, [0.0, 2.0, 2.0])
    assert next(results).error is None
    cluster.sync(cluster.scheduler.close)
    with pytest.raises(MachineFault, match=r"Dask scheduler at .* (is gone|does not answer)"):
        list(results)
    executor.close(cancel=True)
