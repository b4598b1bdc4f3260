"""Lost shards come back in the same bytes, or it is said why not."""

from __future__ import annotations

import shutil

import pytest

from inkplex_data.errors import StoreError, UsageError
from inkplex_data.store.verify import verify_store
from tests.pipeline.conftest import tree
from tests.pipeline.standing.conftest import Standing

SHARDS = ("calls/000000", "calls/000002", "recordings/000000", "prefixes/000000")


def test_any_lost_shards_are_made_again_in_the_same_bytes(standing: Standing) -> None:
    before = tree(standing.store)
    for lost in ([SHARDS[0]], [SHARDS[1], SHARDS[3]], [SHARDS[2]], list(SHARDS)):
        for key in lost:
            shutil.rmtree(standing.store / key)
        summary = standing.build()
        assert (summary.calls, summary.already, summary.exit_code) == ((), 6, 0)
        assert tree(standing.store) == before


@pytest.mark.parametrize("damage", ["cut", "gone", "shard.json"])
def test_a_damaged_shard_is_one_that_is_lost(standing: Standing, damage: str) -> None:
    before = tree(standing.store)
    codes = standing.store / "calls/000001/arrays.zarr/codes/c/0/0"
    if damage == "cut":
        codes.write_bytes(codes.read_bytes()[:40])
    elif damage == "gone":
        codes.unlink()
    else:
        (standing.store / "calls/000001/shard.json").write_text("{}")
    standing.build()
    assert tree(standing.store) == before


def test_a_flipped_byte_needs_the_deletion_that_verify_advises(standing: Standing) -> None:
    before = tree(standing.store)
    codes = standing.store / "calls/000001/arrays.zarr/codes/c/0/0"
    codes.write_bytes(codes.read_bytes()[:-1] + bytes([codes.read_bytes()[-1] ^ 1]))
    fault = verify_store(standing.store)[0]
    assert "delete its shard folder and run the same build again" in fault.next_step
    shutil.rmtree(standing.store / "calls/000001")
    standing.build()
    assert tree(standing.store) == before


def test_a_lost_shard_of_a_changed_corpus_is_refused_by_name_and_updated(standing: Standing) -> None:
    shutil.rmtree(standing.store / "calls/000000")
    standing.say("a", "Goodbye?")
    with pytest.raises(UsageError, match=r"a \(words\)"):
        standing.build()
    summary = standing.build(update=True)
    assert summary.exit_code == 0 and "a" in summary.calls
    assert [fault.code for fault in verify_store(standing.store)] == ["missing-shard"]  # of snapshot 1


@pytest.mark.parametrize("kind", ["calls", "recordings", "prefixes"])
def test_without_the_root_table_the_corpus_alone_says_what_was_lost(standing: Standing, kind: str) -> None:
    shutil.rmtree(standing.store / kind / "000000")
    (standing.store / f"{kind}.parquet").unlink()
    with pytest.raises(StoreError, match="do not say what it held"):
        standing.build()
    summary = standing.build(update=True)
    assert summary.exit_code == 0
    faults = verify_store(standing.store)
    assert {fault.code for fault in faults} == {"missing-shard"}
    assert sorted([*summary.calls, *range(summary.already)], key=str)[-1] == summary.calls[-1]


def test_bytes_that_other_tools_would_make_do_not_take_a_lost_shards_place(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inkplex_data.pipeline.calls import turn_columns

    shutil.rmtree(standing.store / "calls/000000")
    real = turn_columns.turn_row
    monkeypatch.setattr(
        "inkplex_data.pipeline.calls.build_call.turn_row",
        lambda *given, **named: real(*given, **named) | {"agent_speech_ratio": 0.125},
    )
    with pytest.raises(StoreError, match="differ from those that were published"):
        standing.build()
    assert not (standing.store / "calls/000000").exists()
