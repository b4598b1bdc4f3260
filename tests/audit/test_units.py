"""An audit in parts: chosen calls, other processes, going on from a log; and each table of a shard is read once."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

import inkplex_data as ink
from inkplex_data.audit.audit_totals import StoreAudit
from inkplex_data.audit.audit_units import AuditLog, unit_key
from inkplex_data.audit.store_audit import StoreAuditor, audit_store
from inkplex_data.errors import UsageError
from inkplex_data.faults import Fault
from inkplex_data.pipeline.execute import LocalExecutor
from inkplex_data.store.parquet import TableReader
from tests.audit.made import Audited


@pytest.fixture(scope="module")
def whole(audited: Audited) -> StoreAudit:
    with ink.open_store(audited.store) as store:
        return audit_store(store)


def test_other_processes_find_the_same(audited: Audited, whole: StoreAudit) -> None:
    runner = LocalExecutor(1)
    try:
        with ink.open_store(audited.store) as store:
            assert audit_store(store, runner=runner) == whole
    finally:
        runner.close()


def test_chosen_calls_bring_what_they_rest_on(audited: Audited) -> None:
    with ink.open_store(audited.store) as store:
        some = audit_store(store, calls=["late", "plain"])
        assert (some.calls, some.without_memory, some.recordings, some.sidecars) == (2, 1, 1, 1)
        assert (some.twins, some.pairs, some.prefixes) == (1, 1, 1)
        with pytest.raises(UsageError, match="no call 'nobody'"):
            audit_store(store, calls=["nobody"])


def test_an_audit_that_was_stopped_goes_on(audited: Audited, whole: StoreAudit, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    seen: list[str] = []

    def stop(item: str, done: int, total: int) -> None:
        seen.append(item)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with ink.open_store(audited.store) as store:
        with pytest.raises(KeyboardInterrupt):
            audit_store(store, log=log, progress=stop)
        log.write_bytes(log.read_bytes() + b'{"unit": "half a li')
        first, again = len(seen), len(StoreAuditor(store).units())
        assert audit_store(store, log=log, progress=lambda item, done, total: seen.append(item)) == whole
        assert len(seen) == again > first
        assert audit_store(store, log=log, progress=stop) == whole, "nothing is left to do"


def test_violations_go_through_the_log(audited: Audited, tmp_path: Path) -> None:
    bad = StoreAudit(
        calls=1, violations=[Fault("a", where="one")], between=[(Fault("b", where="two"), "one")]
    )
    with ink.open_store(audited.store) as store:
        unit = StoreAuditor(store).units()[0]
        AuditLog(tmp_path / "log", store.snapshot).note(unit, bad)
        with (tmp_path / "log").open("a") as log:
            log.write('{"unit": "of another version", "found": {"calls": 1}}\n{"unit": 3}\n[]\n')
        assert AuditLog(tmp_path / "log", store.snapshot).known == {unit_key(unit): bad}
        other = dataclasses.replace(store.snapshot, number=7)
        with pytest.raises(UsageError, match="not the log of an audit of this snapshot"):
            AuditLog(tmp_path / "log", other)
        (tmp_path / "notes").write_text("something of mine\n")
        with pytest.raises(UsageError):
            AuditLog(tmp_path / "notes", store.snapshot)
        assert (tmp_path / "notes").read_text() == "something of mine\n"


def test_what_two_calls_see_says_nothing_where_one_is_to_blame() -> None:
    between = [(Fault("differs", where="b"), "a"), (Fault("differs", where="d"), "c")]
    audit = StoreAudit(violations=[Fault("z", where="a"), Fault("later", where="a")], between=between)
    audit.settle()
    assert [(fault.where, fault.rule) for fault in audit.violations] == [("a", "z"), ("d", "differs")]


def test_a_call_does_not_read_its_shards_tables_again(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[tuple[str, int]] = Counter()
    real = TableReader.read_arrow

    def counting(self: TableReader, offset: int = 0, rows: int | None = None, **options: object) -> object:
        read[self.where, offset] += rows is None or rows > 0
        return real(self, offset, rows, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(TableReader, "read_arrow", counting)
    with ink.open_store(audited.store) as store:
        audit_store(store)
        calls = store.calls().collect()
    for (place, offset), times in read.items():
        if "/calls/" in place:
            table = Path(place).stem
            # Versions and calls of twins are looked at once more where what two calls see is compared.
            assert times <= (1 if table in ("calls", "problems", "words") else 2), (place, offset, times)
    assert calls.height > calls["shard"].n_unique()
