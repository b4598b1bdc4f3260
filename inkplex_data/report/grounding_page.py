"""The review page of a grounding evaluation: each case's runs side by side, and a reviewer's own verdicts.

Reads `cases.json` as `evaluate --grounding` writes it. The page fetches nothing but the recordings beside it. A reviewer's
verdicts are kept in the browser and saved as JSON lines, which `evaluate --reviewed` takes back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from inkplex_data.atomic import replacing
from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import UsageError
from inkplex_data.reading import read_bounded
from inkplex_data.report.svg import html_text as _text

SCHEMA: Final = "inkplex/grounding@1"
CASES: Final = "cases.json"
MAX_BYTES: Final = 1 << 30
VERDICTS: Final = ("supported", "stale", "premature", "contradicted", "unsupported")
COMPARED: Final = ("trained", "wrong memory", "no connector", "text in prompt")
"""Systems whose runs are drawn; scripted baselines are in the table alone."""
PX_PER_S: Final = 90


def find_cases(path: Path) -> Path | None:
    """The newest `cases.json` of a run, of an evaluation of it, or of a grounding folder; None where there is none."""
    for pattern in (CASES, f"grounding/{CASES}", f"evaluation-*/grounding/{CASES}"):
        found = sorted(path.glob(pattern), key=lambda file: (file.stat().st_mtime_ns, str(file)))
        if found:
            return found[-1]
    return None


def read_cases(path: Path) -> dict[str, Any]:
    """What a `cases.json` holds. Raises UsageError for anything else."""
    try:
        document = parse_json(read_bounded(path, MAX_BYTES))
    except ValueError as error:
        raise UsageError(f"it is no JSON: {error}", where=str(path)) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(
            f"it is not of schema {SCHEMA}",
            where=str(path),
            next_step="Give what evaluate --grounding wrote.",
        )
    return document


def write_grounding_page(cases: Path, page: Path) -> Path:
    """Write the review page of a `cases.json`; recordings are those in `audio` beside it."""
    document = read_cases(cases)
    sounds = {
        (one["call_id"], one["system"], one["branch"]): Path(
            os.path.relpath(cases.parent / "audio" / one["file"], page.parent)
        ).as_posix()
        for one in document.get("sounds", [])
        if Path(one["file"]).name == one["file"]
    }
    with replacing(page) as file:
        for piece in grounding_page(document, sounds):
            file.write(piece.encode())
    return page


def grounding_page(document: Mapping[str, Any], sounds: Mapping[tuple[str, str, str], str]) -> Iterator[str]:
    """The page in pieces. `sounds`: (call, system, branch) → a WAV's path relative to the page. All text is escaped."""
    style = files("inkplex_data.report").joinpath("style.css").read_text(encoding="utf-8")
    extra = files("inkplex_data.report").joinpath("grounding.css").read_text(encoding="utf-8")
    script = files("inkplex_data.report").joinpath("grounding.js").read_text(encoding="utf-8")
    title = _text(f"Grounding of {document.get('checkpoint', 'a run')}")
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; media-src 'self' file:\">"
        f"<title>{title}</title>\n<style>\n{style}{extra}</style></head>\n<body><main>\n<h1>{title}</h1>\n"
        '<p class="dim">What was said over time, when memory arrived, and whether each claim could be known.</p>\n'
        '<p><button id="save">Save verdicts</button> <span id="count" class="dim"></span></p>\n'
    )
    yield _summary(document.get("summary", []))
    for number, case in enumerate(document.get("cases", [])):
        yield _case(case, sounds, opened=number == 0)
    yield f"</main><script>\n{script}</script></body></html>\n"


def _summary(rows: list[dict[str, Any]]) -> str:
    names = (
        "system",
        "kind",
        "runs",
        "right",
        "right_lower",
        "complete",
        "missing",
        *VERDICTS,
        "latency_s",
        "trained_minus_lower",
    )
    head = "".join(f"<th>{_text(name.replace('_', ' '))}</th>" for name in names)
    body = "".join(
        f'<tr class="{"deciding" if row.get("kind") == "both" else ""}">'
        + "".join(f"<td>{_text(_cell(row.get(name)))}</td>" for name in names)
        + "</tr>\n"
        for row in rows
    )
    return f'<h2>Table</h2><div class="scroll"><table id="table"><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _case(case: Mapping[str, Any], sounds: Mapping[tuple[str, str, str], str], *, opened: bool) -> str:
    parts = [
        f'<details class="case"{" open" if opened else ""}><summary>{_text(case["call_id"])} '
        f'<span class="dim">branches at {case["fork_s"]:.2f} s</span></summary>'
    ]
    for branch in case["branches"]:
        due = "; ".join(one["text"] for one in branch["due"]) or "nothing"
        parts.append(
            f'<h3>{_text(branch["name"])} <span class="dim">due: {_text(due)}</span></h3><div class="side">'
        )
        for run in case["runs"]:
            if run["branch"] == branch["name"] and run["system"] in COMPARED:
                parts.append(
                    _run(case, branch, run, sounds.get((case["call_id"], run["system"], run["branch"])))
                )
        parts.append("</div>")
    return "".join(parts) + "</details>\n"


def _run(
    case: Mapping[str, Any], branch: Mapping[str, Any], run: Mapping[str, Any], sound: str | None
) -> str:
    mark = "right" if run["right"] else "wrong"
    about = f"{run['status']}, {run['answer']}" + (
        f", {run['latency_s']:.2f} s after it" if run["latency_s"] is not None else ""
    )
    player = f'<audio controls preload="none" src="{_text(sound)}"></audio>' if sound else ""
    reason = f'<p class="warning">{_text(run["reason"])}</p>' if run["reason"] else ""
    claims = "".join(_claim(case, run, claim) for claim in run["claims"])
    return (
        f'<section class="run {mark}"><h4>{_text(run["system"])} <span class="dim">{_text(about)}</span></h4>{reason}{player}'
        f'<div class="scroll">{_timeline(branch, run)}</div><ul class="claims">{claims}</ul></section>'
    )


def _timeline(branch: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Words at their times, coloured by the verdict of the claim that begins there, over the arrivals of memory."""
    begins, ends = run["free_from_s"], max(run["ends_s"], run["free_from_s"] + 1)
    width = (ends - begins) * PX_PER_S
    verdicts = {
        round(claim["start_s"] * 1000): claim["verdict"] for claim in run["claims"] if not claim["withdrawn"]
    }
    marks = [f'<svg width="{width:.0f}" height="64" role="img" aria-label="words over time">']
    for item in branch["evidence"]:
        at = item["arrival_s"]
        if at is not None and begins <= at <= ends and not item["given"]:
            x = (at - begins) * PX_PER_S
            label = _text(f"{item['id']} arrives at {at:.2f} s: {item['text'][:200]}")
            marks.append(
                f'<g class="arrival"><title>{label}</title><line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="64"/></g>'
            )
    for number, word in enumerate(run["words"]):
        x = (word["start_s"] - begins) * PX_PER_S
        kind = verdicts.get(round(word["start_s"] * 1000), "plain")
        y = 22 + 16 * (number % 3)
        marks.append(f'<text class="{_text(kind)}" x="{x:.1f}" y="{y}">{_text(word["text"])}</text>')
    return "".join(marks) + "</svg>"


def _claim(case: Mapping[str, Any], run: Mapping[str, Any], claim: Mapping[str, Any]) -> str:
    names = {
        "call_id": case["call_id"],
        "system": run["system"],
        "branch": run["branch"],
        "claim_ix": claim["claim_ix"],
    }
    key = _text(json.dumps(names, sort_keys=True))
    verdict = claim["verdict"] if claim["verdict"] in VERDICTS else "unsupported"
    options = "".join(f"<option>{name}</option>" for name in ("", *VERDICTS))
    event = f" by {_text(claim['event'])}" if claim["event"] else ""
    taken_back = " (taken back)" if claim["withdrawn"] else ""
    return (
        f'<li class="{verdict}"><b>{_text(claim["text"])}</b> at {claim["start_s"]:.2f} s: {verdict}{event}{taken_back} '
        f'<label>your verdict <select data-claim="{key}" data-automatic="{verdict}">{options}</select></label></li>'
    )
