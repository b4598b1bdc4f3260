from __future__ import annotations

import re
from pathlib import Path

import pytest

from inkplex_data.errors import UsageError
from inkplex_data.report import write_report as module
from inkplex_data.report.call_sound import CallSound
from inkplex_data.report.write_report import write_report
from inkplex_data.store.reader import Store, open_store
from tests.store.made import make_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = make_store(tmp_path_factory.mktemp("reported") / "store")
    return open_store(made.root)


def test_a_folder_has_a_page_for_each_drawn_call(store: Store, tmp_path: Path) -> None:
    asked: list[str] = []

    def sound(call: object) -> CallSound:
        asked.append(call.call_id)  # type: ignore[attr-defined]
        return CallSound(b"OggS", "made <here>")

    told: list[tuple[int, int]] = []
    index = write_report(
        store,
        tmp_path / "report",
        calls=["second", "first", "second"],
        sound=sound,
        progress=lambda done, total: told.append((done, total)),
    )
    assert asked == ["second", "first"] and told == [(0, 2), (1, 2), (2, 2)]
    page = index.read_text(encoding="utf-8")
    links = re.findall(r'<a href="(calls/[^"]+)">([^<]+)</a>', page)
    assert sorted(name for _, name in links) == ["first", "second"]
    for link, name in links:
        own = (index.parent / link).read_text(encoding="utf-8")
        assert f"<h1>{name}</h1>" in own and "data:audio/ogg;base64,T2dnUw==" in own
        assert "made &lt;here&gt;" in own
    assert all(f'data-call="{call_id}"' in page for call_id in ("first", "second", "fourth"))
    with pytest.raises(UsageError, match="not empty"):
        write_report(store, tmp_path / "report")


def test_more_than_a_page_holds_is_refused_before_anything_is_drawn(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ONE_PAGE", 1)
    with pytest.raises(UsageError, match=r"(?s)one page holds 1 calls, not 2.*-o report"):
        write_report(store, tmp_path / "report.html", draw=2)
    assert not list(tmp_path.iterdir())


def test_an_unknown_call_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no call 'fifth'"):
        write_report(store, tmp_path / "report.html", calls=["fifth"])
