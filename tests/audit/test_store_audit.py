"""`audit` of whole stores: what a build makes passes, and anything that is shifted, lost or borrowed fails."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

import inkplex_data as ink
from inkplex_data.audit.audit_totals import StoreAudit
from inkplex_data.audit.store_audit import audit_store
from inkplex_data.audit.token_tables import word_of_row
from inkplex_data.config.recipe import Recipe
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.memory.words import assemble_words
from inkplex_data.pipeline.run import build_store
from inkplex_data.store.publish_snapshot import publish_snapshot
from tests.audit.made import Audited
from tests.pipeline.memory_made import WINDOW, make_trace_corpus
from tests.store.made import publish_again

CALLS = 3 + 2 + 2 + 1 + 2


def build(corpus: Path, recipe: Recipe) -> Path:
    memory = recipe.memory.model_copy(update={"window": WINDOW, "capture": None})  # type: ignore[union-attr]
    store = recipe.store.model_copy(update={"shard_bytes": 60_000})
    target = corpus.parent.parent / "store"
    ours = recipe.model_copy(update={"memory": memory, "store": store})
    summary = build_store(corpus, target, recipe=ours, workers=1)
    assert summary.exit_code == 0, summary.text()
    return target


@pytest.fixture
def with_memory(audited: Audited) -> Path:
    """Calls over dialogues, several over one recording, twins with sidecars; not to be written to."""
    return audited.store


@pytest.fixture
def tampered(with_memory: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    shutil.copytree(with_memory, tmp_path / "store")
    return tmp_path / "store"


def rewrite(store: Path, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change a table of every shard that has it, as a builder would that publishes what is wrong."""
    for path in store.glob(f"*/*/{table}.parquet"):
        old = pl.read_parquet(path)
        new = change(old)
        if not new.equals(old):
            schema = pq.read_schema(path)
            pq.write_table(new.to_arrow().cast(schema), path, row_group_size=max(len(new), 1))
            publish_again(str(store), path.parent.relative_to(store).as_posix(), path.name)


def where(condition: pl.Expr, **columns: pl.Expr) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Set columns in the first row for which `condition` holds."""
    first = condition & (condition.cast(pl.Int32).cum_sum() == 1)
    return lambda table: table.with_columns(
        pl.when(first).then(value.cast(table.schema[name])).otherwise(pl.col(name)).alias(name)
        for name, value in columns.items()
    )


def audit(store: Path) -> StoreAudit:
    with ink.open_store(store) as opened:
        return audit_store(opened)


def test_calls_over_every_airline_dialogue_pass(
    real_data: Path, recipe: Recipe, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("airline")
    store = build(make_trace_corpus(folder / "corpus", real_data / "traces" / "airline_12.json"), recipe)
    result = audit(store)
    assert result.violations == []
    assert (result.calls, result.without_memory, result.recordings, result.partners) == (12, 0, 12, 2)
    opened = ink.open_store(store)
    calls = opened.calls().collect()
    # Each call's versions were looked at as stored; those of its start once more, with the prefix.
    assert result.versions > calls["versions"].sum() > 0
    assert result.steps == 12 * (7 + 13)
    assert result.tokens == opened.recordings().collect()["tokens"].sum()


def test_a_clean_store_passes(with_memory: Path) -> None:
    result = audit(with_memory)
    assert result.violations == []
    assert (result.calls, result.without_memory, result.recordings) == (CALLS, 3, 5)
    assert (result.sidecars, result.twins, result.pairs) == (2, 1, 1)
    assert result.partners == 5  # two of the dialogues, the twins, and the one without memory
    # The window is smaller than the recordings: tokens leave it within calls.
    store = ink.open_store(with_memory)
    ends = store.versions().collect().group_by("call_id", "row").agg(pl.col("end").max())
    joined = ends.join(store.calls().collect(), on="call_id")
    assert (joined["end"] < joined["frames"]).any()


def test_calls_over_one_recording_store_its_tokens_once(with_memory: Path) -> None:
    store = ink.open_store(with_memory)
    calls = store.calls().collect()
    several = calls.filter(pl.len().over("recording_id") > 1, pl.col("recording_id").is_not_null())
    assert sorted(several["call_id"]) == ["again-0", "again-1", "call-0"]
    (recording,) = several["recording_id"].unique()
    rows = store.recordings().filter(recording_id=recording).collect()
    tokens = store.tokens().filter(pl.col("recording_id") == recording).collect()
    assert (rows.height, tokens.height) == (1, rows["tokens"][0])
    versions = [store.call(name).versions for name in several["call_id"]]
    assert not versions[0].equals(versions[1]) and not versions[1].equals(versions[2])


def test_words_are_found_alike_by_both_routes(with_memory: Path) -> None:
    for _, tokens in ink.open_store(with_memory).tokens().collect().group_by("recording_id"):
        expected = [None if word < 0 else word for word in assemble_words(tokens).word_of_row().tolist()]
        assert word_of_row(tokens) == expected


def test_wrong_memory_is_built_anew_with_the_calls_own_prefix_and_frames(with_memory: Path) -> None:
    store = ink.open_store(with_memory)
    partners = store.calls().filter(pl.col("wrong_memory_of").is_not_null()).collect()
    windowed = withheld = 0
    for row in partners.iter_rows(named=True):
        call, partner = store.call(row["call_id"]), store.call(row["wrong_memory_of"])
        assert partner.row["family"] != row["family"]
        wrong = call.wrong_memory().with_prefix()
        prefix = call.with_prefix().prefix_frames
        assert wrong.prefix_frames == prefix > 0
        clock = SessionClock(partner.row["recording_starts_at_us"], prefix, prefix + call.frames)
        assert wrong.tokens.equals(partner.tokens)
        own = build_versions(partner.tokens, clock, window=WINDOW, permitted=partner.permitted)
        assert wrong.versions.equals(own)
        windowed += not wrong.versions.equals(
            build_versions(partner.tokens, clock, permitted=partner.permitted)
        )
        withheld += not wrong.versions.equals(build_versions(partner.tokens, clock, window=WINDOW))
    assert store.window == WINDOW and partners.height == 5 and windowed and withheld


def test_pairs_are_the_same_question_with_other_evidence(with_memory: Path) -> None:
    pair = ink.open_store(with_memory).pairs().collect().row(0, named=True)
    assert (pair["call_id"], pair["twin_call_id"], pair["same_start"], pair["same_audio"]) == (
        "late",
        "paid",
        True,
        False,
    )
    assert pair["fork_frame"] == 4  # 300 ms after the start


IN_CALL = pl.col("start") > 0
ARRIVES = pl.col("row") != pl.col("row").shift(1)
"""The first version of a token."""
VERSIONS: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], str]] = {
    "seen before it arrived": (
        where(IN_CALL & ARRIVES, start=pl.col("start") - 1),
        r"is visible but arrives at \d+ µs",
    ),
    "seen after it left the window": (
        where((pl.col("end") < 6) & (pl.col("row") != pl.col("row").shift(-1)), end=pl.col("end") + 1),
        r"is visible but left the window at \d+ µs",
    ),
    "not seen although live": (
        where(IN_CALL & ARRIVES & (pl.col("end") - pl.col("start") > 1), start=pl.col("start") + 1),
        r"is not visible although it arrived at \d+ µs",
    ),
    "seen twice": (
        lambda table: pl.concat([table.head(1), table.head(1), table.tail(len(table) - 2)]),
        "has two versions",
    ),
    "another recency": (where(IN_CALL, recency=pl.col("recency") + 1), "has recency bucket"),
    "another age": (where(IN_CALL, age=pl.col("age") + 1), "has age bucket"),
    "whole too early": (
        where(~pl.col("whole"), whole=pl.lit(True)),
        "has its words whole; they are complete from|has its words whole, but touches no word",
    ),
    "of a token that is not there": (where(IN_CALL, row=pl.lit(10**6)), "the recording has"),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_tampered_versions_fail(tampered: Path, name: str) -> None:
    change, message = VERSIONS[name]
    rewrite(tampered, "versions", change)
    result = audit(tampered)
    assert result.violations
    for violation in result.violations:
        assert re.search(rf"step \d+.*({message})|{message}", violation.rule), violation


ARRIVAL = pl.col("arrival_us")
SHIFTED = (pl.col("kind") == "tool_result") & ~pl.col("special")
TOKENS: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], str]] = {
    "arrivals of one recording later": (
        lambda table: table.with_columns(
            pl.when(pl.col("recording_ix") == 1).then(ARRIVAL + 60_000_000).otherwise(ARRIVAL)
        ),
        r"is visible but arrives at",
    ),
    "delivered later than it arrives": (
        where(SHIFTED, ready_us=ARRIVAL + 1),
        "does not arrive when it is both available and delivered",
    ),
    "available before it happened": (
        where(SHIFTED, source_us=pl.col("available_us") + 1),
        "was available before what it tells of happened",
    ),
    "one arrival earlier": (where(SHIFTED, arrival_us=ARRIVAL - 1), "arrives before row"),
    "another rank": (where(pl.lit(True), rank=pl.col("rank") + 1), "place in the arrival order"),
    "another word": (where(pl.col("word_ix") == 3, word_ix=pl.lit(2)), "another word"),
    "a space where none was": (where(pl.col("bytes") == b"bill", bytes=pl.lit(b"b ll")), "row"),
    "pieces of no word": (
        where(pl.col("word_ix").is_null(), piece_ids=pl.lit([5], pl.List(pl.Int32))),
        "belongs to no word, but has pieces",
    ),
    "a piece of another vocabulary": (
        where(pl.col("word_ix").is_not_null(), piece_ids=pl.lit([10**6], pl.List(pl.Int32))),
        "vocabulary does not have",
    ),
    "a row moved": (where(pl.col("row") == 5, row=pl.lit(6)), "stored with another number"),
}


@pytest.mark.parametrize("name", TOKENS)
def test_tampered_tokens_fail(tampered: Path, name: str) -> None:
    change, message = TOKENS[name]
    rewrite(tampered, "tokens", change)
    found = [violation.rule for violation in audit(tampered).violations]
    assert any(message in text for text in found), found


def test_a_clock_that_is_off_by_a_frame_fails(tampered: Path) -> None:
    late = pl.col("recording_starts_at_us") - 80_000
    rewrite(tampered, "calls", lambda table: table.with_columns(recording_starts_at_us=late))
    found = audit(tampered).violations
    assert {violation.where for violation in found} >= {"call-0", "late"}
    assert "step" in found[0].rule


def test_one_violation_does_not_stop_the_others(tampered: Path) -> None:
    ids = dict(ink.open_store(tampered).calls().select("call_id", "call_ix").collect().iter_rows())
    wrong = [ids["call-2"], ids["paid"]]
    rewrite(
        tampered,
        "versions",
        lambda table: table.with_columns(pl.col("age") + pl.col("call_ix").is_in(wrong).cast(pl.UInt8)),
    )
    result = audit(tampered)
    assert [violation.where for violation in result.violations] == ["call-2", "paid"]
    assert result.calls == CALLS
    assert "violations in 2 of the calls and recordings" in result.text()


def sidecar(change: Callable[[dict[str, Any]], None]) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def apply(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return lambda table: table.with_columns(
        pl.col("sidecar").map_elements(apply, return_dtype=pl.String, skip_nulls=True)
    )


def updates(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The call of the tool and its result."""
    return document["private_updates"]["updates"][1:]


SIDECARS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "tokens before their update": (
        lambda d: (
            updates(d)[1].update(ready_at_s=updates(d)[1]["available_at_s"] + 0.001),
            d["masks"]["permitted_updates"][0].update(start_s=updates(d)[1]["ready_at_s"]),
        ),
        r"sidecar update 'tool_result': token row \d+ arrives at \d+ µs, before the item was available at \d+ µs",
    ),
    "a sampled update whose end came before it": (
        lambda d: updates(d)[0].update(available_at_s=updates(d)[0]["available_at_s"] + 0.001),
        "sidecar update 'tool_call': token row",
    ),
    "rows that are not there": (lambda d: updates(d)[1].update(rows=[0, 10**6]), "names rows 0 to 1000000"),
    "an update before its evidence": (
        lambda d: updates(d)[0].update(source_events=["tool_result"]),
        "sidecar update 'tool_call' arrives at .* before its evidence 'tool_result' at",
    ),
    "a claim at another time": (
        lambda d: d["evidence"]["claims"][0].update(start_s=-9.0),
        "its claim 0 is stored with start_us",
    ),
    "evidence of another status": (
        lambda d: d["evidence"]["items"][0].update(status="failed"),
        "its evidence 0 is stored with status 'unknown', its sidecar says 'failed'",
    ),
    "an update that may be seen longer": (
        lambda d: d["masks"]["permitted_updates"].append({"update": "tool_call", "start_s": 0.2}),
        r"is not visible although it arrived at \d+ µs",
    ),
    "permitted before it arrives": (
        lambda d: d["masks"]["permitted_updates"][0].update(start_s=-9.0),
        "permits 'tool_result' before it arrives",
    ),
    "another clock": (
        lambda d: d["private_updates"]["mapping"].update(recording_starts_at_s=0.5),
        "starts at 0.5 s according to its sidecar",
    ),
    "no sidecar": (lambda d: d.clear(), "cannot be read"),
}


@pytest.mark.parametrize("name", SIDECARS)
def test_tampered_sidecars_fail(tampered: Path, name: str) -> None:
    change, message = SIDECARS[name]
    rewrite(tampered, "calls", sidecar(change))
    found = audit(tampered).violations
    assert {violation.where for violation in found} == {"late", "paid"}
    for violation in found:
        assert re.search(message, violation.rule), violation


@pytest.mark.parametrize(
    ("partner", "message"),
    [
        ("nobody", "is not in the store"),
        ("plain", "has no recording"),
        ("paid", "is of its own family 'bill'"),
    ],
)
def test_a_partner_that_is_none_fails(tampered: Path, partner: str, message: str) -> None:
    own = pl.col("call_id") == "late"
    rewrite(tampered, "calls", where(own, wrong_memory_of=pl.lit(partner)))
    found = audit(tampered).violations
    assert [violation.where for violation in found] == ["late"]
    assert message in found[0].rule


def test_twins_that_differ_before_their_fork_fail(tampered: Path) -> None:
    own = pl.col("bytes") == b" answer"
    count = 0

    def change(table: pl.DataFrame) -> pl.DataFrame:
        nonlocal count
        names = [name for name in ("late-0000", "paid-0000") if name in indices.values()]
        mine = table.filter(own, pl.col("recording_ix").is_in(list(indices)))
        count += mine.height
        assert names
        return where(own & (pl.col("recording_ix") == paid), token_id=pl.lit(7))(table)

    rows = ink.open_store(tampered).recordings().collect()
    indices = dict(rows.select("recording_ix", "recording_id").iter_rows())
    paid = next(ix for ix, name in indices.items() if name == "paid-0000")
    rewrite(tampered, "tokens", change)
    assert count >= 2
    messages = {violation.where: violation.rule for violation in audit(tampered).violations}
    assert "differ before it" in messages["paid-0000"]
    assert "late-0000 has request 0 position" in messages["paid-0000"]
    assert "is seen differently by 'late'" in messages["paid"]


def test_a_twin_with_the_tokens_of_the_other_branch_fails(tampered: Path) -> None:
    """The recording of one branch put in the place of the other: the same past, and the same future."""
    rows = ink.open_store(tampered).recordings().collect()
    by_id = {row["recording_id"]: row for row in rows.iter_rows(named=True)}
    late, paid = by_id["late-0000"], by_id["paid-0000"]
    folder = tampered / "recordings" / f"{late['shard']:06d}"
    tokens = pl.read_parquet(folder / "tokens.parquet").slice(late["token_offset"], late["tokens"])

    def change(table: pl.DataFrame) -> pl.DataFrame:
        if not table["recording_ix"].is_in([paid["recording_ix"]]).any():
            return table
        before, after = (
            table.filter(pl.col("recording_ix") < paid["recording_ix"]),
            table.filter(pl.col("recording_ix") > paid["recording_ix"]),
        )
        borrowed = tokens.head(paid["tokens"]).with_columns(
            recording_ix=pl.lit(paid["recording_ix"], pl.Int32)
        )
        return pl.concat([before, borrowed, after])

    assert late["tokens"] == paid["tokens"]
    rewrite(tampered, "tokens", change)
    messages = {violation.where: violation.rule for violation in audit(tampered).violations}
    assert "has all the tokens of 'late-0000' after their fork" in messages["paid-0000"]


def test_a_lost_recording_is_named(tampered: Path) -> None:
    shutil.rmtree(tampered / "recordings")
    shutil.rmtree(tampered / "snapshots")
    (tampered / "newest.json").unlink()
    publish_snapshot(tampered)
    found = {violation.where: violation.rule for violation in audit(tampered).violations}
    assert found["call-0"] == "its recording 'dialogues-101' is not in the store"
    assert "plain" not in found


def test_progress_ends_at_its_total(with_memory: Path) -> None:
    seen: list[tuple[int, int]] = []
    with ink.open_store(with_memory) as store:
        audit_store(store, progress=lambda item, done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == CALLS + 5 + 2 + 3  # recordings, twins and their pair, prefixes
