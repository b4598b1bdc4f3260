"""A limit on the size of files, which stands for a full disk, in the middle of a build, an update and a merge: path and what
to do are said, and the same command ends in the same bytes when there is room."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from inkplex_data.errors import InkplexError
from inkplex_data.pipeline.parts.merge_stores import merge_stores
from tests.outputs.test_full_disk import no_file_beyond
from tests.pipeline.conftest import tree
from tests.pipeline.standing.conftest import Parted, Standing
from tests.pipeline.standing.test_kills import keep_results

FEW, MANY = (1, 3_000), 40


def stopped_and_run_again(
    run: Callable[[], object], store: Path, limits: tuple[int, ...], begin: Callable[[], object]
) -> None:
    run()
    wanted = tree(store)
    sizes = limits or tuple(round(1.02 * max(map(len, wanted.values())) * n / MANY) + 1 for n in range(MANY))
    for limit in sizes:
        begin()
        try:
            with no_file_beyond(limit):
                run()
        except InkplexError as error:
            said = str(error)
            assert str(store) in said and "limit" in said and "again" in said, said
        else:
            assert limit > 10_000 and tree(store) == wanted
        run()
        assert tree(store) == wanted, limit


@pytest.mark.parametrize(
    "limits", [FEW, pytest.param((), marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_a_build(limits: tuple[int, ...], standing: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_results(monkeypatch)
    standing.write([one for one in standing.lines if one["id"] in "ac"])
    shutil.rmtree(standing.store)
    stopped_and_run_again(standing.build, standing.store, limits, lambda: shutil.rmtree(standing.store))


@pytest.mark.parametrize(
    "limits", [FEW[1:], pytest.param((), marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_a_merge(limits: tuple[int, ...], parted: Parted, tmp_path: Path) -> None:
    store = tmp_path / "store"
    stopped_and_run_again(
        lambda: merge_stores(parted.parts, store), store, limits, lambda: shutil.rmtree(store)
    )
