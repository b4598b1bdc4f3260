"""A store is tampered with in every way that a buggy writer might, and each time an audit names what is wrong."""

from __future__ import annotations

import os
from collections.abc import Collection

import pytest

import inkplex_data as ink
from inkplex_data.audit.states_sample import audit_states_sample
from inkplex_data.audit.store_audit import audit_store
from inkplex_data.faults import Fault
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.standing.against import against_faults
from inkplex_data.store.reader import Store
from tests.audit.made import Audited, Bench
from tests.audit.tampering import GROUPS
from tests.conftest import ROOT

PAGE = ROOT / "docs/reference/tampering.md"
EVERYTHING = 10**6


@pytest.fixture(scope="module")
def bench(audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.copy(audited.store, tmp_path_factory.mktemp("tampered") / "store")


def found(store: Store, sound: Store, calls: Collection[str]) -> tuple[str, list[Fault]]:
    """What finds something wrong, the cheapest first, and what it says."""
    faults = audit_store(store, calls=calls).violations
    if faults:
        return "`audit`", faults
    # What a build of the corpus gives is what it gave: the store as it was.
    faults = list(against_faults(store, sound))
    if faults:
        return "`audit --against`", faults
    memory = [call_id for call_id in calls if store.call_row(call_id)["recording_id"] is not None]
    sample = audit_states_sample(store, EVERYTHING, calls=memory[:1], load=tools.inkling)
    return "`audit --states-sample`", sample.faults


def test_every_tampering_is_found(bench: Bench, audited: Audited) -> None:
    rows: dict[str, list[tuple[str, str]]] = {}
    silent = []
    with ink.open_store(bench.root) as store, ink.open_store(audited.store) as sound:
        everybody = {call_id for calls, _ in GROUPS.values() for call_id in calls}
        assert found(store, sound, everybody)[1] == [], "the store is sound before"
        for group, (calls, tampers) in GROUPS.items():
            for name, tamper in tampers.items():
                with bench.tampered(tamper), ink.open_store(bench.root) as tampered:
                    by, faults = found(tampered, sound, calls)
                if os.environ.get("INKPLEX_SHOW"):
                    print(f"{group} | {name} | {by} | {faults[0] if faults else '-'}")
                if not faults:
                    silent.append(f"{group}: {name}")
                rows.setdefault(group, []).append((name, by))
        assert silent == []
        assert sum(map(len, rows.values())) >= 70
    with ink.open_store(bench.root) as store:
        assert audit_store(store).violations == [], "and after"
    text = page(rows)
    if os.environ.get("INKPLEX_UPDATE"):
        PAGE.write_text(text, encoding="utf-8")
    assert text == PAGE.read_text(encoding="utf-8"), "run it with INKPLEX_UPDATE=1"


def page(rows: dict[str, list[tuple[str, str]]]) -> str:
    """docs/reference/tampering.md"""
    count = sum(map(len, rows.values()))
    by = [name for found_by in rows.values() for _, name in found_by]
    lines = [
        "# What an audit finds",
        "",
        f"Each row is something that a buggy writer could publish, {count} in all: every digest and checksum fits, so `verify`",
        "and readers have nothing to say. The second column says what finds it first:",
        "",
        f"- `inkplex-data audit STORE` ({by.count('`audit`')} of them), which needs nothing but the store;",
        f"- `audit --against CORPUS` ({by.count('`audit --against`')}), for what fits itself and is not what the sources say:"
        " it builds the corpus",
        "  once more and compares;",
        f"- `audit --states-sample N` ({by.count('`audit --states-sample`')}), for states that were wrong when they were made:"
        " it computes some",
        "  again. It finds what is in its sample; `N` was all tokens here.",
        "",
        "The page is written by `INKPLEX_UPDATE=1 pytest tests/audit/test_tampering.py`, which does each of it to a small store;",
        "without the variable the test compares.",
    ]
    for group, found_by in rows.items():
        lines += ["", f"## {group.capitalize()}", "| what is wrong | found by |", "|---|---|"]
        lines += [f"| {name} | {one} |" for name, one in found_by]
    return "\n".join([*lines, ""])
