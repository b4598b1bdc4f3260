"""The report in a real Chromium: it draws, sounds, filters, obeys the keyboard and fits a phone, without an error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inkplex_data.report.call_sound import CallSound, ogg_opus
from inkplex_data.report.write_report import write_report
from inkplex_data.store.reader import open_store
from tests.browser import opened_page, running_chromium
from tests.pipeline.conftest import voice
from tests.store.made import make_store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_store(tmp_path_factory.mktemp("browsed") / "store")
    sound = CallSound(ogg_opus(np.stack([voice(1, 200, 120), voice(2, 200, 210)])), "made")
    with open_store(made.root) as store:
        return write_report(store, Path(made.root).parent / "report.html", draw=2, sound=lambda call: sound)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(browser: Any, report: Path) -> Iterator[Any]:
    with opened_page(browser, report.as_uri(), viewport={"width": 1280, "height": 900}) as page:
        yield page


def wait_for(page: Any, expression: str) -> None:
    """Until a JavaScript expression is true; the page's policy forbids Playwright's own way of waiting."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never: {expression}")


def test_charts_and_timelines_are_drawn(page: Any) -> None:
    assert page.locator(".chart svg rect").count() > 4
    box = page.locator("svg.timeline").first.bounding_box()
    assert box["width"] > 900 and box["height"] > 500
    assert page.locator("audio").count() == 2


def test_sound_plays_and_the_playhead_goes_with_it(page: Any) -> None:
    page.evaluate("document.querySelector('audio').play()")
    wait_for(page, "document.querySelector('audio').currentTime > 0.5")
    page.evaluate("document.querySelector('audio').pause()")
    page.wait_for_timeout(300)
    seconds = page.evaluate("document.querySelector('audio').currentTime")
    x = float(page.locator(".playhead").first.get_attribute("x1"))
    assert abs((x - 92) / 8 * 0.08 - seconds) < 0.02, "gutter of 92, 8 units a frame"
    page.get_by_role("button", name="caller").first.click()
    assert page.locator("button[data-ear=caller]").first.get_attribute("aria-pressed") == "true"


def test_the_keyboard_moves_the_playhead(page: Any) -> None:
    timeline = page.get_by_role("slider").first
    timeline.focus()
    for key, second in (
        ("Home", 0),
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("Shift+ArrowRight", 2.08),
        ("ArrowLeft", 1.08),
    ):
        page.keyboard.press(key)
        assert float(timeline.get_attribute("aria-valuenow")) == pytest.approx(second, abs=0.01)
    page.keyboard.press("Space")
    wait_for(page, "!document.querySelector('audio').paused")
    page.keyboard.press("Space")
    wait_for(page, "document.querySelector('audio').paused")


def test_a_click_hears_the_place(page: Any) -> None:
    timeline = page.locator("svg.timeline").first
    first, top, bottom = map(float, timeline.get_attribute("data-bands").split(",")[1].split(" "))
    page.evaluate(
        """([x, y]) => { const svg = document.querySelector("svg.timeline");
        const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
        svg.dispatchEvent(new MouseEvent("click", {clientX: at.x, clientY: at.y, bubbles: true})); }""",
        [92 + 10 * 8, (top + bottom) / 2],
    )
    assert page.evaluate("document.querySelector('audio').currentTime") == pytest.approx(
        (first + 10) * 0.08, abs=0.02
    )


def test_filters_leave_what_matches(page: Any) -> None:
    page.get_by_label("Split").select_option("test")
    shown = page.locator("tr[data-call]:visible")
    assert [row.get_attribute("data-call") for row in shown.all()] == ["fourth"]
    assert page.locator("details.call:visible").count() == 0
    page.get_by_label("Split").select_option("")
    page.get_by_label("Call", exact=True).fill("sec")
    assert [row.get_attribute("data-call") for row in shown.all()] == ["second"]
    page.get_by_label("Call", exact=True).fill("")
    assert page.locator("tr[data-call]:visible").count() == 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(browser: Any, report: Path, scheme: str) -> None:
    size = {"width": 390, "height": 844}
    with opened_page(browser, report.as_uri(), viewport=size, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground.strip("rgb()").split(","))) < 200) == (scheme == "dark")
        if folder := os.environ.get("REPORT_PICTURES"):
            page.locator("details.call").first.scroll_into_view_if_needed()
            page.screenshot(path=str(Path(folder) / f"phone-{scheme}.png"))
