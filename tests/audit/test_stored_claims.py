"""Claims against their evidence: tables as a build makes them, exceptions by code, and tables that were changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import inkplex_data as ink
from inkplex_data.audit.store_audit import audit_store
from inkplex_data.audit.stored_claims import audit_claims
from inkplex_data.corpus.sidecars.claims import claim_faults, claim_words
from inkplex_data.corpus.sidecars.sidecar_models import Claim, Sidecar
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, TimedWord
from inkplex_data.errors import CausalityError
from inkplex_data.pipeline.calls.evidence_tables import claims_table, evidence_table, note_claims
from inkplex_data.problems import ProblemLog
from inkplex_data.store.describe import write_description
from inkplex_data.store.format import WORDS
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.shard import CallPart
from tests.store.made import Made, add_calls, call_part, table

SAID = [
    ("It", 1.0),
    ("is", 1.2),
    ("ten", 1.5),
    ("pounds.", 1.9),
    ("Now", 3.0),
    ("it", 3.2),
    ("is", 3.4),
    ("twelve.", 3.6),
]


def sidecar(claims: list[dict[str, Any]], **second: Any) -> Sidecar:
    """Evidence `old` of 0.5 s (ready at 0.9 s), which `new`, of 2 s, supersedes; and `void`, superseded at no known time."""
    items = [
        {
            "id": "old",
            "kind": "tool_result",
            "available_at_s": 0.5,
            "ready_at_s": 0.9,
            "status": "completed",
            "superseded_by": "new",
        },
        {
            "id": "new",
            "kind": "tool_result",
            "available_at_s": 2,
            "status": "succeeded",
            "attribution": "execution",
        },
        {
            "id": "void",
            "kind": "tool_error",
            "available_at_s": 0,
            "status": "contradicted",
            "reference": "trace#4",
        },
    ]
    targets = {
        "items": [
            {"text": "It is ten pounds.", "start_s": 1, "end_s": 2.5},
            {"text": "Now it is twelve.", "start_s": 3, "end_s": 4},
        ]
    }
    evidence = {"items": items, "claims": claims}
    return Sidecar.model_validate(
        {
            "schema": "inkplex/sidecar@1",
            "identity": {"clip_id": "call"},
            "evidence": evidence,
            "targets": targets,
        }
        | second
    )


def words() -> list[TimedWord]:
    agent = [
        TimedWord(text, round(at * 1e6), round(at * 1e6) + 100_000, SPEAKER_MAIN, None, "given")
        for text, at in SAID
    ]
    return sorted(
        [*agent, TimedWord("ten", 1_400_000, 1_450_000, "SPEAKER_CALLER", None, "given")],
        key=lambda word: word.start_us,
    )


def part(known: Sidecar | None, name: str = "call") -> CallPart:
    said = words()
    made = call_part(
        name,
        60,
        sidecar=None
        if known is None
        else json.dumps(known.model_dump(mode="json", by_alias=True, exclude_none=True)),
    )
    made.words = table(
        WORDS,
        len(said),
        word_ix=range(len(said)),
        text=[word.text for word in said],
        start_us=[word.start_us for word in said],
        end_us=[word.end_us for word in said],
        speaker=[word.speaker for word in said],
        frame=[-1] * len(said),
        pieces=[[] for _ in said],
        placed=[0] * len(said),
        method=["given"] * len(said),
    )
    made.evidence, made.claims = evidence_table(known), claims_table(known, said, SPEAKER_MAIN)
    return made


def stored(folder: Path, *made: CallPart) -> Any:
    write_description(str(folder), {"codec": {"id": "made"}})
    add_calls(Made(str(folder)), 0, [call_part("other", 5), *made])
    publish_snapshot(str(folder))
    return ink.open_store(folder)


TEN = {"text": "It is ten pounds.", "start_s": 1, "end_s": 2.5}
TWELVE = {"text": "Now it is twelve.", "start_s": 3, "end_s": 4}
CARRIED = [{**TEN, "supported_by": ["old"]}, {**TWELVE, "supported_by": ["new"]}]
CASES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "carried": (CARRIED, []),
    "found by its text": ([{"text": "it is  TEN pounds", "supported_by": ["old"]}], []),
    "before its evidence": ([{**TEN, "supported_by": ["new"]}], ["claim-before-evidence"]),
    "before it is ready": (
        [{**TEN, "start_s": 0.7, "end_s": 0.95, "supported_by": ["old"]}],
        ["claim-before-evidence"],
    ),
    "just when it is ready": ([{**TEN, "start_s": 0.9, "end_s": 0.95, "supported_by": ["old"]}], []),
    "after it was superseded": ([{**TWELVE, "supported_by": ["old", "new"]}], ["claim-superseded"]),
    "its last words": ([{**TEN, "end_s": 3.1, "supported_by": ["old"]}], ["claim-superseded"]),
    "superseded at no known time": ([{**TEN, "supported_by": ["void"]}], ["claim-superseded"]),
    "on nothing": ([TEN, {"text": "sorry"}], ["claim-unsupported", "claim-unsupported"]),
    "by its text, too early": ([{"text": "it is ten", "supported_by": ["new"]}], ["claim-before-evidence"]),
    "nowhere": ([{"text": "it is ninety", "supported_by": ["new"]}], []),
}


def test_exceptions_have_codes_by_both_routes_and_in_a_build(tmp_path: Path) -> None:
    known = {name: sidecar(claims) for name, (claims, _) in CASES.items()}
    said = [(word.start_us, word.text) for word in words() if word.speaker == SPEAKER_MAIN]
    with stored(tmp_path, *(part(one, name) for name, one in known.items())) as store:
        listed = audit_store(store).violations
        for name, (_, codes) in CASES.items():
            assert [fault.code for fault in audit_claims(store.call(name), SPEAKER_MAIN)] == codes, name
            assert [fault.code for fault in listed if fault.where == name and fault.code] == codes
            assert [fault.code for fault in claim_faults(known[name], said)] == codes
            log = ProblemLog(name)
            note_claims(known[name], words(), SPEAKER_MAIN, log)
            assert [problem.code for problem in log] == codes


def test_the_tables_say_what_rests_on_what(tmp_path: Path) -> None:
    claims = [*CARRIED, {"text": "it is", "supported_by": ["old"]}]
    with stored(tmp_path, part(sidecar(claims))) as store:
        evidence = store.evidence().select(pl.exclude("call_ix", "reference")).collect()
        assert evidence.rows() == [
            ("call", "old", "tool_result", "succeeded", None, 500_000, 900_000, 900_000, "new", 2_000_000),
            ("call", "new", "tool_result", "succeeded", "execution", 2_000_000, None, 2_000_000, None, None),
            ("call", "void", "tool_error", "superseded", None, 0, None, 0, None, None),
        ]
        made = store.claims().filter(pl.col("call_id") == "call").collect()
        # Word 2 is the caller's; a claim without times is wherever its text is said.
        assert made["words"].to_list() == [[0, 1, 3, 4], [5, 6, 7, 8], [0, 1, 6, 7]]
        assert made["targets"].to_list() == [[0], [1], [0, 1]]
        assert made["supported_by"].to_list() == [["old"], ["new"], ["old"]]
        assert made["start_us"].to_list() == [1_000_000, 3_000_000, None]
        assert store.call("other").claims.height == 0 == store.call("other").evidence.height


TAMPERED: dict[str, tuple[str, dict[str, pl.Expr]]] = {
    "its evidence 0 is stored with available_us 400000": ("evidence", {"available_us": pl.lit(400_000)}),
    "'old' is stored with other times": ("evidence", {"arrival_us": pl.lit(500_000)}),
    "'new' is stored with other times": ("evidence", {"superseded_us": pl.lit(9, pl.Int64)}),
    "status 'pending', its sidecar says 'succeeded'": ("evidence", {"status": pl.lit("pending")}),
    "evidence 1 is stored with superseded_by": ("evidence", {"superseded_by": pl.lit("void")}),
    "its claim 0 is stored with supported_by": ("claims", {"supported_by": pl.lit(["new"])}),
    "words .5., which do not make it": ("claims", {"words": pl.lit([5], pl.List(pl.Int32))}),
    "0 rows of claim, and its sidecar 2": ("claims", {}),
}


def test_changed_tables_are_found(tmp_path: Path) -> None:
    parts = []
    for message, (table_name, columns) in TAMPERED.items():
        made = part(sidecar(CARRIED), message)
        rows = getattr(made, table_name)
        first = pl.int_range(pl.len()) == (1 if "'new'" in message or "evidence 1" in message else 0)
        changed = [
            pl.when(first).then(value).otherwise(pl.col(name)).alias(name) for name, value in columns.items()
        ]
        setattr(made, table_name, rows.with_columns(changed) if columns else rows.clear())
        parts.append(made)
    with stored(tmp_path, *parts) as store:
        for message in TAMPERED:
            with pytest.raises(CausalityError, match=message):
                audit_claims(store.call(message), SPEAKER_MAIN)


def test_words_of_a_claim_across_words_and_twice() -> None:
    said = [(0, "ninety-nine"), (1, "pounds;"), (2, "yes"), (3, "Nine"), (4, "pounds")]
    assert claim_words(Claim(text="nine pounds"), said) == [0, 1, 3, 4]
    assert claim_words(Claim(text="…"), said) == [] == claim_words(Claim(text="pounds yes no"), said)


def test_a_successor_must_be_another_item_of_the_sidecar() -> None:
    for name in ("old", "nothing"):
        items = [{"id": "old", "kind": "tool_call", "available_at_s": 0, "superseded_by": name}]
        with pytest.raises(ValueError, match=f"'{name}' names nothing"):
            sidecar([], evidence={"items": items})
