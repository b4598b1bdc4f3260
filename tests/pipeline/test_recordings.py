"""Recordings that contradict themselves: one clear error each, and the other calls are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import inkplex_data as ink
from inkplex_data.config.recipe import Recipe
from inkplex_data.pipeline.run import build_store
from tests.pipeline.conftest import write_call, write_manifest

HEADER: dict[str, Any] = {"schema": "inkplex/recording@1", "recording": "task"}


def token(at: float = 1.0, **fields: Any) -> dict[str, Any]:
    return {"id": 5, "kind": "user", "text": " a", "at": at} | fields


def call(number: int, *tokens: dict[str, Any], cached: tuple[int, int] | None = None) -> dict[str, Any]:
    prefix = None if cached is None else {"call": cached[0], "tokens": cached[1]}
    return {"call": number, "cached": prefix, "tokens": list(tokens)}


SCHEDULED = HEADER | {"times": "constructed", "schedule": {"seed": 7}}
GOOD = [SCHEDULED, call(0, token(), token()), call(1, token(2.0), cached=(0, 2))]
TWO_TIMES = json.dumps(call(0, token())).replace('"at": 1.0', '"at": 1.0, "at": 2.0')

FAULTY: dict[str, tuple[list[Any], str, tuple[str, ...]]] = {
    "long-prefix": (
        [HEADER, call(0, token()), call(1, token(2.0), cached=(0, 2))],
        "recording-prefix-too-long",
        (":3: request 1 begins with 2 tokens of request 0 (line 2), which has 1",),
    ),
    "circle": (
        [HEADER, call(0, token(), cached=(1, 1)), call(1, token(), cached=(0, 1))],
        "recording-prefix-cycle",
        ("request 0 (line 2)", "request 1 (line 3)"),
    ),
    "falling-arrival": (
        [HEADER, call(0, token(2.0), token(1.0))],
        "recording-arrival-order",
        (":2: request 0: position 1 arrives at 1000000 µs, before position 0 at 2000000 µs",),
    ),
    "before-its-owner": (
        [HEADER, call(1, token(), cached=(2, 1)), call(2, token())],
        "recording-prefix-order",
        ("request 1 comes before request 2 (line 3)",),
    ),
    "unknown-owner": (
        [HEADER, call(1, token(), cached=(7, 1))],
        "recording-prefix-unknown",
        (":2: request 1 begins with a prefix of request 7",),
    ),
    "bad-base64": (
        [HEADER, call(0, {"id": 5, "kind": "user", "bytes_b64": "/w=", "at": 1.0})],
        "recording-bytes",
        (":2: /tokens/0/bytes_b64 must be standard base64 (got '/w=')",),
    ),
    "unknown-kind": (
        [HEADER, call(0, token(kind="thought"))],
        "recording-kind",
        (":2: /tokens/0/kind must be one of setup", "(got 'thought')"),
    ),
    "two-times": ([HEADER, TWO_TIMES], "recording-time", (":2:", "'at' twice", "1.0 and 2.0")),
    "a-list-of-times": (
        [HEADER, call(0, token(at=[1.0, 2.0]))],  # type: ignore[arg-type]
        "recording-time",
        (":2: /tokens/0/at must be one number of seconds, not several",),
    ),
    "no-header": ([call(0, token())], "recording-header", (":1: /schema is not a header",)),
    "cut": (
        [*GOOD[:2], json.dumps(GOOD[2])[:40]],
        "recording-cut",
        (":3:", "the file ends within this line"),
    ),
}


def test_each_contradiction_is_one_error_and_the_others_are_published(recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_call(folder, "one", 1, 0.5)
    recordings = {"good": GOOD, **{name: lines for name, (lines, _, _) in FAULTY.items()}}
    for name, lines in recordings.items():
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        end = "" if name == "cut" else "\n"
        (folder / f"{name}.recording.jsonl").write_text("\n".join(texts) + end)
    entries: list[dict[str, object]] = [
        {"id": name, "path": "one.wav", "recording": f"{name}.recording.jsonl", "recording_starts_at": 1}
        for name in recordings
    ]
    entries.append({"id": "plain", "path": "one.wav", "family": "good"})
    updates = [{"id": "u", "rows": [1, 9], "available_at_s": 0}]
    sidecar = {
        "schema": "inkplex/sidecar@1",
        "identity": {"clip_id": "outside"},
        "private_updates": {"updates": updates},
    }
    (folder / "outside.sidecar.json").write_text(json.dumps(sidecar))
    entries.append({**entries[0], "id": "outside", "sidecar": "outside.sidecar.json"})
    summary = build_store(write_manifest(folder, entries), tmp_path / "store", recipe=recipe, workers=1)
    assert (summary.exit_code, summary.calls) == (3, ("good", "plain"))
    problems = {problem.call_id: problem for problem in summary.refused}
    assert len(problems) == len(summary.refused) == len(FAULTY) + 1
    assert problems["outside"].code == "update-rows"
    assert "update 'u' names rows 1 to 9 of a recording of 3 tokens" in problems["outside"].message
    for name, (_, code, parts) in FAULTY.items():
        assert problems[name].code == code, problems[name]
        for part in (f"{name}.recording.jsonl:", *parts):
            assert part in problems[name].message, problems[name].message
    store = ink.open_store(tmp_path / "store")
    tokens = store.call("good").tokens
    assert tokens["position"].to_list() == [0, 1, 2]
    assert tokens["arrival_us"].equals(tokens["available_us"].rename("arrival_us"))
    row = store.recordings().collect().row(0, named=True)
    assert (row["times"], json.loads(row["schedule"])) == ("constructed", {"seed": 7})
    refused = store.problems().filter(severity="error").collect()
    assert sorted(refused["call_id"]) == sorted([*FAULTY, "outside"])
