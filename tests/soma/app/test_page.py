"""The page of `soma serve` in a real Chromium without a window: Debian's, or any that Playwright finds."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.checkpoint_sidecar import meta_path
from inkplex_data.soma.app.web_server import SomaServer, open_server

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WAIT_MS = 120_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SomaServer]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "text.txt").write_text("the cat sat on the mat and the dog sat on the log\n" * 60)
    with open_server(folder) as opened:
        threading.Thread(target=opened.serve_forever, daemon=True).start()
        yield opened
        opened.shutdown()


@pytest.fixture(scope="module")
def page(server: SomaServer) -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        opened.set_default_timeout(WAIT_MS)
        playwright.expect.set_options(timeout=WAIT_MS)  # for busy machines: nothing here is judged by time
        faults: list[str] = []
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.goto(server.address)
        yield opened
        browser.close()
    assert faults == []


def shot(page: Any, name: str) -> None:
    """A picture, where the environment names a folder for them."""
    if folder := os.environ.get("SOMA_PICTURES"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_a_person_trains_talks_dreams_and_edits_a_profile(page: Any, server: SomaServer) -> None:
    expect = playwright.expect
    folder = server.workshop.folder
    # A model is trained, and the charts follow.
    page.get_by_label("Model", exact=True).fill("cat.pt")
    page.get_by_label("A store, or files of text").fill(str(folder / "text.txt"))
    page.get_by_label("Bands of a new model").fill("2")
    page.get_by_label("Decimation").fill("0")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#work")).to_have_text("training cat.pt")
    pid = server.workshop.work["pid"] if server.workshop.work else 0
    expect(page.locator("#work")).to_have_text("idle")
    expect(page.locator("#fault")).to_be_hidden()
    for title in (
        "Bits per byte",
        "Top-1",
        "Top-5",
        "Bytes a second",
        "Stride",
        "Compression",
        "Learning rate",
    ):
        expect(page.locator("#charts .card", has=page.get_by_text(title))).to_be_visible()
    assert float(page.locator("#charts .card b").first.inner_text()) > 0
    assert pid and not Path(f"/proc/{pid}").exists()
    # Its profile is edited, and only that.
    page.get_by_role("button", name="cat.pt").click()
    before = json.loads(meta_path(folder / "cat.pt").read_text())
    page.get_by_label("Name").fill("Cat <b>& dog</b>")
    page.get_by_label("Tagline").fill("it sat")
    page.get_by_role("button", name="Save profile").click()
    expect(page.get_by_role("button", name="Cat <b>& dog</b>")).to_be_visible()
    after = json.loads(meta_path(folder / "cat.pt").read_text())
    assert after.pop("profile") == before.pop("profile") | {"name": "Cat <b>& dog</b>", "tagline": "it sat"}
    assert after == before
    # It chats: the user's words are learned, and the reply comes in pieces.
    page.get_by_role("tab", name="Chat and dreams").click()
    page.get_by_role("button", name="Load the chosen model").click()
    expect(page.locator("#work")).to_have_text("cat.pt listens")
    page.get_by_label("Most tokens").fill("30")
    page.get_by_label("Say something").fill("the cat")
    page.get_by_role("button", name="Say", exact=True).click()
    expect(page.locator(".turn.user")).to_contain_text("bits/byte")
    expect(page.get_by_role("button", name="Dream")).to_be_enabled()
    shot(page, "chat")
    # A dream without an end is stopped between two tokens.
    page.get_by_label("Most tokens").fill("100000")
    page.get_by_label("Temperature").fill("5")
    page.get_by_role("button", name="Dream").click()
    expect(page.locator("#hush")).to_be_enabled()
    page.locator("#hush").click()
    expect(page.locator("#hush")).to_be_disabled()
    # What goes on inside.
    page.get_by_role("tab", name="Inside").click()
    for title in ("Input trace spectrum", "First-layer weight by band", "Residual spectrum"):
        expect(page.locator("#spectra .card", has=page.get_by_text(title))).to_be_visible()
    assert page.locator("#spectra .card").first.locator("rect").count() == 2
    assert page.locator("#likely li").count() == 12
    assert "<|turn|>" in page.locator("#active").inner_text()
    shot(page, "inside")
    # Stopping destroys the process.
    pid = server.workshop.work["pid"] if server.workshop.work else 0
    page.get_by_role("button", name="Stop").first.click()
    expect(page.locator("#work")).to_have_text("idle")
    assert pid and not Path(f"/proc/{pid}").exists()


def test_a_training_is_stopped_and_goes_on(page: Any, server: SomaServer) -> None:
    expect = playwright.expect
    folder = server.workshop.folder
    (folder / "long.txt").write_text("a long text that nobody waits for\n" * 20_000)
    page.reload()
    page.get_by_label("Model", exact=True).fill("long.pt")
    page.get_by_label("A store, or files of text").fill(str(folder / "long.txt"))
    page.get_by_label("Bands of a new model").fill("2")
    page.get_by_label("Decimation").fill("0")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#charts path").first).to_be_visible()
    page.get_by_role("button", name="Stop").first.click()
    expect(page.locator("#work")).to_have_text("idle")
    cursors = json.loads(meta_path(folder / "long.pt").read_text())["cursors"]
    [cursor] = cursors.values()
    assert 0 < cursor["source_bytes"] < 20_000 * 34
    # A source that is not there is said, with what to do.
    page.get_by_label("A store, or files of text").fill(str(folder / "none.txt"))
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#fault")).to_contain_text("there is no such file")
    for _ in range(50):
        if server.workshop.work is None:
            break
        time.sleep(0.1)
