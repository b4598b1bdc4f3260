from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from inkplex_data.clock import FRAME_US
from inkplex_data.grid import MASK_ALL
from inkplex_data.report.call_section import DrawnCall
from inkplex_data.report.gather import call_view
from inkplex_data.report.html import render_page
from inkplex_data.report.summary import summarise
from inkplex_data.report.svg import BAND_FRAMES, FRAME_PX, GUTTER_PX, timeline_svg
from inkplex_data.report.view import Mark, PrefixSummary, ViewedProblem
from inkplex_data.report.write_report import write_report
from inkplex_data.store.format import CALLS, PREFIXES, PROBLEMS, RECORDINGS
from inkplex_data.store.reader import open_store
from tests.report.made import a_view, token_table, word_table
from tests.store.made import make_store, table

HOSTILE = "<script>alert('x')</script>&\"\x00\x1b[31m\u202e"
VOID = {"meta", "br", "link", "input"}


class Checker(HTMLParser):
    """Tags must be balanced; collects what a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def a_page() -> str:
    calls = table(
        CALLS,
        2,
        call_id=[HOSTILE, "plain"],
        family=[HOSTILE, None],
        split=["train", None],
        duration_us=[1, 2],
        frames=[40, 40],
        words=[1, 1],
        versions=[0, 0],
    )
    problems = table(
        PROBLEMS, 1, call_id=[HOSTILE], code=[HOSTILE], severity=['error" onclick="x'], message=[HOSTILE]
    )
    summary = summarise(
        HOSTILE,
        calls=calls,
        problems=problems,
        recordings=table(RECORDINGS, 0),
        prefixes=table(PREFIXES, 0),
        description={"codec": {"id": HOSTILE, "untrained": True}},
    )
    words = word_table(
        (HOSTILE, 0, 80_000, "SPEAKER_MAIN", 0, [1], 1), (HOSTILE, 0, 80_000, HOSTILE, -1, [], 0)
    )
    view = a_view(
        call_id=HOSTILE,
        words=words,
        spelled={1: HOSTILE},
        facts={HOSTILE: HOSTILE},
        marks=[Mark(3, HOSTILE)],
        prefix=PrefixSummary(20, HOSTILE, HOSTILE, 4, 4),
        tokens=token_table((0, "user")),
        problems=[ViewedProblem(HOSTILE, HOSTILE, HOSTILE, 3)],
    )
    drawn = [DrawnCall(view, None, HOSTILE), DrawnCall(a_view())]
    return "".join(render_page(summary, calls, drawn, problems=problems))


def test_hostile_text_stays_text() -> None:
    page = a_page()
    checker = checked(page)
    assert checker.tags.count("script") == 1, "the page's own"
    assert "alert('x')" in "".join(checker.text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", page)


def test_nothing_is_fetched_from_anywhere() -> None:
    page = a_page()
    checker = checked(page)
    assert not {"img", "iframe", "object", "embed"} & set(checker.tags)
    assert checker.links
    assert all(link.startswith(("#call-", "data:")) for link in checker.links)
    without_namespaces = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp", without_namespaces)
    assert "default-src 'none'" in page


def test_only_the_pages_own_script_may_run() -> None:
    page = a_page()
    script = page[page.index("<script>") + len("<script>") : page.index("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page


def test_links_of_the_table_lead_to_drawn_calls() -> None:
    page = a_page()
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'id="([^"]+)"', page))


def test_the_svg_is_xml_and_puts_things_where_they_belong() -> None:
    mask = np.full(300, MASK_ALL, np.uint8)
    mask[130:140] = 0
    start_us = 150 * FRAME_US
    words = word_table(("late", start_us, start_us + 9, "SPEAKER_MAIN", 150, [100], 1))
    tokens = token_table(*[(0, "setup")] * 3, *[(12_000_000, "tool_result")] * 2)
    view = a_view(300, mask=mask, words=words, tokens=tokens, agent_db=np.full(300, -20, np.float32))
    root = ElementTree.fromstring(timeline_svg(view))
    late = next(text for text in root.iter("text") if (text.text or "").startswith("late"))
    assert float(late.attrib["x"]) == GUTTER_PX + (150 - BAND_FRAMES) * FRAME_PX
    gaps = [rect for rect in root.iter("rect") if rect.attrib["class"] == "gap"]
    assert len(gaps) == 3
    assert {(float(gap.attrib["x"]), float(gap.attrib["width"])) for gap in gaps} == {
        (GUTTER_PX + (130 - BAND_FRAMES) * FRAME_PX, 10 * FRAME_PX)
    }
    assert sum(rect.attrib["class"] == "fill-agent" for rect in root.iter("rect")) == 300 + 2
    results = [rect for rect in root.iter("rect") if rect.attrib["class"] == "kind-tool_result"]
    assert [rect.findtext("title") for rect in results] == ["2 tool_result tokens from frame 150 on"]
    assert len(list(root.iter("polygon"))) == -(-300 // BAND_FRAMES)
    bottom = float(root.attrib["viewBox"].split()[3])
    assert all(0 <= float(e.attrib["y"]) <= bottom for e in root.iter() if "y" in e.attrib)


def test_long_lists_are_cut_and_say_so() -> None:
    calls = table(CALLS, 5, call_id=list("abcde"), duration_us=[1] * 5, words=[0] * 5, versions=[0] * 5)
    summary = summarise(
        "s",
        calls=calls,
        problems=table(PROBLEMS, 0),
        recordings=table(RECORDINGS, 0),
        prefixes=table(PREFIXES, 0),
    )
    page = "".join(render_page(summary, calls, [], listed=2))
    assert "and 3 more calls" in page
    assert "<td>c</td>" not in page


def test_a_store_becomes_a_page(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store")
    with open_store(tmp_path / "store") as store:
        page = write_report(store, tmp_path / "report.html", draw=1).read_text(encoding="utf-8")
        view = call_view(store, "first")
    checked(page)
    assert page.count("<details ") == 1
    assert "split" in re.findall(r'data-filter="(\w+)"', page)
    assert all(call_id in page for call_id in made.parts)
    part = made.parts["first"]
    assert np.array_equal(view.ids, part.streams["text"])
    assert np.array_equal(view.tags, part.streams["role"])
    assert view.tokens is not None
    assert view.tokens.height == 150
    assert view.recording_starts_at_us == 20_000_000
    assert view.prefix == PrefixSummary(12, "anna", "clerk", 0, 0)
    assert view.piece(17) == "▁piece17"
    assert isinstance(view.words, pl.DataFrame)


@pytest.mark.parametrize("frames", [11, 125, 126])
def test_every_frame_is_in_one_band(frames: int) -> None:
    root = ElementTree.fromstring(timeline_svg(a_view(frames, tokens=token_table((0, "user")))))
    assert len(list(root.iter("polygon"))) == -(-frames // BAND_FRAMES)
