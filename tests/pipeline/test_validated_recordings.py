"""`validate` and `build` say the same of a recording, whatever is wrong with it."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from inkplex_data.corpus.recordings.recording import check_requests, read_recording
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import RecordingError
from inkplex_data.memory.ownership import tabulate

HEADER = {"schema": "inkplex/recording@1", "recording": "r"}


def lines() -> list[dict[str, Any]]:
    """Four requests, of which two go on from parts of others."""
    sizes, cached = (
        (4, 3, 0, 2),
        (None, {"call": 0, "tokens": 4}, {"call": 1, "tokens": 6}, {"call": 2, "tokens": 5}),
    )
    return [
        {
            "call": call,
            "cached": cached[call],
            "tokens": [
                {"id": 7 * call + index, "kind": "user", "text": " w", "at": call + index / 10}
                for index in range(size)
            ],
        }
        for call, size in enumerate(sizes)
    ]


def mutated(draw: random.Random) -> list[Any]:
    """The header and the requests, with one to three things changed in any of them."""
    found: list[Any] = [dict(HEADER), *lines()]
    for _ in range(draw.randint(1, 3)):
        requests = [one for one in found if "call" in one]
        if not requests:
            break
        request = draw.choice(requests)
        tokens, cached = request["tokens"], request.get("cached")
        match draw.randrange(9):
            case 0:
                found.remove(request)
            case 1:
                found.insert(draw.randint(1, len(found)), copy.deepcopy(request))
            case 2:
                request["call"] = draw.randint(0, 4)
            case 3:
                found.sort(key=lambda one: draw.random() if "call" in one else -1.0)
            case 4 if cached is not None:
                cached["call"] = draw.randint(0, 5)
            case 5 if cached is not None:
                cached["tokens"] = draw.randint(0, 9)
            case 6 if tokens:
                draw.choice(tokens)["at"] = draw.choice([0.05, 1.15, 9, None])
            case 7 if tokens:
                draw.choice(tokens)["ready_at"] = draw.choice([0, 3.5])
            case 8 if tokens:
                draw.choice(tokens)[draw.choice(["kind", "id"])] = draw.choice(["user", 3, -1])
    return found


def refused_by_build(path: Path) -> str | None:
    """The code with which a build refuses the recording."""
    try:
        recording = read_recording(path)
        requests = list(recording)
        check_requests(recording.header, requests, source=path.name)
        tabulate(requests, source=path.name)
    except RecordingError as error:
        return error.code
    return None


def test_mutated_recordings_are_judged_alike(tmp_path: Path) -> None:
    path = tmp_path / "r.recording.jsonl"
    codes: Counter[str | None] = Counter()
    for seed in range(700):
        path.write_text("".join(json.dumps(line) + "\n" for line in mutated(random.Random(seed))))
        code = refused_by_build(path)
        told = [fault.code for fault in validate_path(path)]
        assert (told[0] if told else None) == code, (seed, told, code)
        codes[code] += 1
    wanted = {"order", "unknown", "cycle", "too-long"}
    assert {f"recording-prefix-{what}" for what in wanted} | {"recording-arrival-order", None} <= codes.keys()


def test_a_manifest_names_the_faults_of_its_recordings(tmp_path: Path) -> None:
    broken = lines()
    broken[1]["cached"]["call"] = 5
    (tmp_path / "r.recording.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (HEADER, *broken)))
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    line = {"id": "a", "path": "a.wav", "recording": "r.recording.jsonl", "recording_starts_at": 0}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(line) + "\n")
    [fault] = validate_path(tmp_path / "manifest.jsonl")
    assert (fault.code, fault.line) == ("recording-prefix-unknown", 3)
