"""A real Chromium without a window, for the tests of pages: Debian's, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def running_chromium() -> Iterator[Any]:
    """A Playwright browser; only one can run at a time. Skips the test where there is no Playwright or no Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as running:
        arguments = ["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        browser = running.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@contextmanager
def opened_page(browser: Any, address: str, **options: Any) -> Iterator[Any]:
    """A Playwright page at `address`; `options` are those of `new_page`. Ends with a check that the browser's console has
    no error."""
    page = browser.new_page(**options)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    page.goto(address)
    yield page
    page.close()
    assert faults == []
