"""A corpus with memory: short calls over imported traces, several over one recording, twins, sidecars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inkplex_data.clock import us_to_seconds
from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.traces.arrival_schedule import TraceSchedule
from inkplex_data.corpus.traces.importer import import_traces
from inkplex_data.grid import KINDS
from inkplex_data.memory.ownership import tabulate
from tests.pipeline.conftest import write_call, write_manifest

DIALOGUES = Path(__file__).with_name("dialogues.json")
"""Three invented dialogues with buttons, in the layout of the Action-Based Conversations Dataset."""

SECONDS = 0.5
WINDOW = 40

BILL = [
    {"role": "system", "content": "You answer calls about bills."},
    {"role": "user", "content": "Why is my bill so high?"},
    {"role": "assistant", "thinking": "Look it up.", "tool_calls": [{"function": {"name": "bill"}}]},
    {"role": "tool", "name": "bill", "content": "eighty pounds, one late fee"},
    {"role": "assistant", "content": "It is eighty pounds because of a late fee."},
]
"""A session whose twin gets another result."""


def make_trace_corpus(folder: Path, trace: Path) -> Path:
    """Manifest of one call per dialogue of `trace`; the last two are for validation and test."""
    folder.mkdir(parents=True)
    recordings = [one.path for one in import_traces(trace, folder / "tasks").written]
    splits = ["train"] * (len(recordings) - 2) + ["validation", "test"]
    lines = [
        _call(folder, path, f"call-{index}", split)
        for index, (path, split) in enumerate(zip(recordings, splits, strict=True))
    ]
    return write_manifest(folder, lines)


def make_memory_corpus(folder: Path, trace: Path = DIALOGUES) -> Path:
    """As `make_trace_corpus`, and: two more calls over one recording, two twins with sidecars, one without memory."""
    manifest = make_trace_corpus(folder, trace)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    first = folder / str(lines[0]["recording"])
    for index in range(2):
        lines.append(_call(folder, first, f"again-{index}", "train", later_us=3_000_000 * (index + 1)))
    for name, result in (("late", "eighty pounds, one late fee"), ("paid", "zero pounds, all of it paid")):
        chat = [*BILL[:3], {**BILL[3], "content": result}, BILL[4]]
        (folder / f"{name}.trace").write_text(json.dumps([chat]))
        import_traces(folder / f"{name}.trace", folder / "tasks", schedule=TraceSchedule(tool_latency_s=0.1))
    late, paid = (folder / "tasks" / f"{name}-0000.recording.jsonl" for name in ("late", "paid"))
    fork_us = min(_arrivals(path, "tool_result")[0] for path in (late, paid))
    _branch(paid, "late-0000", fork_us)
    for path in (late, paid):
        line = _call(folder, path, path.name.split("-")[0], "test", at_us=fork_us - 300_000)
        lines.append({**line, "family": "bill", "sidecar": f"{line['id']}.sidecar.json"})
        (folder / f"{line['id']}.sidecar.json").write_text(json.dumps(_sidecar(path, line)))
    write_call(folder, "plain", 900, SECONDS)
    lines.append({"id": "plain", "path": "plain.wav", "split": "test"})
    return write_manifest(folder, lines)


def _call(
    folder: Path, recording: Path, name: str, split: str, *, at_us: int | None = None, later_us: int = 0
) -> dict[str, object]:
    """A line of the manifest: a call that begins while a reply in the middle of the recording is sampled."""
    write_call(folder, name, sum(name.encode()), SECONDS)
    replies = _arrivals(recording, "reply")
    starts_at_us = replies[len(replies) // 2] - 100_000 if at_us is None else at_us
    return {
        "id": name,
        "path": f"{name}.wav",
        "recording": f"tasks/{recording.name}",
        "recording_starts_at": us_to_seconds(starts_at_us + later_us),
        "family": recording.name.split(".")[0],
        "split": split,
    }


def _arrivals(recording: Path, kind: str) -> list[int]:
    found = []
    for request in read_recording(recording):
        found += request.arrival_us[request.kinds == KINDS.index(kind)].tolist()
    return found


def _branch(recording: Path, source: str, at_us: int) -> None:
    header, *rest = recording.read_text(encoding="utf-8").splitlines(keepends=True)
    branch = {"branch_of": {"recording": source, "at": us_to_seconds(at_us)}}
    recording.write_text(json.dumps(json.loads(header) | branch) + "\n" + "".join(rest), encoding="utf-8")


def _sidecar(recording: Path, line: dict[str, object]) -> dict[str, Any]:
    """What the tool gave, as evidence and update, at the time when its tokens arrive."""
    tokens = tabulate(list(read_recording(recording)))[0]
    starts_at = float(line["recording_starts_at"])  # type: ignore[arg-type]
    updates = []
    first = tokens.filter(kind="tool_call")["row"].min()
    for kind, part in (
        ("before", tokens.head(first)),
        ("tool_call", tokens.filter(kind="tool_call")),
        ("tool_result", tokens.filter(kind="tool_result")),
    ):
        arrives = us_to_seconds(part["arrival_us"].max()) - starts_at  # type: ignore[arg-type]
        updates.append(
            {
                "id": kind,
                "rows": [part["row"].min(), part["row"].max() + 1],  # type: ignore[operator]
                "available_at_s": round(arrives, 6),
                "source_events": [] if kind == "before" else [kind],
            }
        )
    result_at = updates[2]["available_at_s"]
    return {
        "schema": "inkplex/sidecar@1",
        "identity": {"clip_id": line["id"]},
        "private_updates": {
            "mapping": {"kind": "constructed", "recording_starts_at_s": starts_at},
            "updates": updates,
        },
        "evidence": {
            "items": [{"id": "tool_result", "kind": "tool_result", "available_at_s": result_at}],
            "claims": [
                {
                    "text": "late fee",
                    "start_s": round(result_at + 0.1, 6),
                    "end_s": round(result_at + 0.2, 6),
                    "supported_by": ["tool_result"],
                }
            ],
        },
        "masks": {
            "permitted_updates": [
                {"update": "tool_result", "start_s": result_at},
                {"update": "before", "start_s": updates[0]["available_at_s"], "end_s": 0.4},
            ]
        },
    }
