"""The review page: nothing but text of the document in it, and its script in a real browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.errors import UsageError
from inkplex_data.report.grounding_page import SCHEMA, find_cases, grounding_page, read_cases
from tests.report.test_html import HOSTILE

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def document(**run: Any) -> dict[str, Any]:
    claims = [
        {
            "claim_ix": at,
            "text": text,
            "kind": "date",
            "verdict": verdict,
            "event": "lookup",
            "withdrawn": False,
            "start_s": 1.0 + at,
        }
        for at, (text, verdict) in enumerate([("Friday", "supported"), ("Monday", "contradicted")])
    ]
    item = {
        "id": "lookup",
        "status": "succeeded",
        "given": False,
        "text": "Friday",
        "arrival_s": 0.9,
        "arrives": "during it",
        "ends_s": None,
    }
    own = {
        "system": "trained", "branch": "unchanged", "status": "said", "reason": None, "answer": "complete", "right": False,
        "agrees": True, "free_from_s": 0.5, "ends_s": 3.0, "latency_s": 0.1,
        "words": [{"text": "Friday", "start_s": 1.0}, {"text": "Monday", "start_s": 2.0}], "claims": claims,
    }  # fmt: skip
    branch = {
        "name": "unchanged",
        "kind": "unchanged",
        "due": [{"text": "Friday", "event": "lookup", "arrival_s": 0.9}],
        "evidence": [item],
    }
    case = {
        "call_id": "one",
        "family": "f",
        "fork_s": 0.9,
        "branches": [branch],
        "runs": [{**own, **run}, {**own, "system": "no connector"}],
    }
    return {
        "schema": SCHEMA,
        "checkpoint": "c",
        "summary": [{"system": "trained", "kind": "both", "right": 0.5}],
        "cases": [case],
    }


def page(given: dict[str, Any]) -> str:
    return "".join(grounding_page(given, {("one", "trained", "unchanged"): "audio/one.wav"}))


def test_hostile_text_stays_text() -> None:
    given = document(reason=HOSTILE, status=HOSTILE, words=[{"text": HOSTILE, "start_s": 1.0}])
    given["checkpoint"] = given["cases"][0]["call_id"] = HOSTILE
    text = page(given)
    assert text.count("<script>") == text.count("</script>") == 1
    assert "alert('x')" in html.unescape(text) and "\x1b" not in text


def test_words_are_coloured_by_the_verdict_of_their_claim_and_arrivals_are_drawn() -> None:
    text = page(document())
    assert re.search(r'<text class="supported" x="45.0"[^>]*>Friday', text)
    assert re.search(r'<text class="contradicted" x="135.0"[^>]*>Monday', text)
    assert 'x1="36.0"' in text and 'src="audio/one.wav"' in text and text.count("<audio") == 1
    assert text.count("<section") == 2 and not re.search(r"https?:", text)


def test_another_document_is_refused_and_the_newest_evaluation_is_found(tmp_path: Path) -> None:
    assert find_cases(tmp_path) is None
    file = tmp_path / "evaluation-validation-update-000001" / "grounding" / "cases.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"schema": "other"}')
    assert find_cases(tmp_path) == find_cases(file.parent) == find_cases(file.parent.parent) == file
    with pytest.raises(UsageError, match="schema"):
        read_cases(file)
    file.write_text(json.dumps(document()))
    assert read_cases(file)["cases"]


@pytest.mark.skipif(BROWSER is None, reason="needs a headless Chromium")
def test_a_reviewer_s_verdicts_are_counted_kept_and_saved_as_json_lines(tmp_path: Path) -> None:
    driver = """<script>
    const boxes = document.querySelectorAll("select[data-claim]");
    boxes[0].value = "supported"; boxes[0].dispatchEvent(new Event("change"));
    boxes[1].value = "stale"; boxes[1].dispatchEvent(new Event("change"));
    URL.createObjectURL = (blob) => { blob.text().then((text) => { document.body.dataset.saved = text; }); return "about:blank"; };
    HTMLAnchorElement.prototype.click = function () { document.body.dataset.name = this.download; };
    document.getElementById("save").click();
    </script></body>"""
    file = tmp_path / "page.html"
    file.write_text(page(document()).replace("</body>", driver))
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", f"--user-data-dir={tmp_path}/profile",
         "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "2 of 4 claims reviewed, 1 as the automatic verdict" in done.stdout, done.stderr[-2_000:]
    saved = re.search(r'data-saved="([^"]*)"', done.stdout)
    assert saved is not None and 'data-name="verdicts.jsonl"' in done.stdout
    lines = [json.loads(line) for line in html.unescape(saved[1]).splitlines()]
    assert [(line["claim_ix"], line["verdict"], line["call_id"]) for line in lines] == [
        (0, "supported", "one"),
        (1, "stale", "one"),
    ]
    (tmp_path / "verdicts.jsonl").write_text(html.unescape(saved[1]))
    from inkplex_data.trainer.grounding.reviewed import read_verdicts

    assert read_verdicts(tmp_path / "verdicts.jsonl").height == 2
