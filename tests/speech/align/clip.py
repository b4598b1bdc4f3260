"""Two seconds of an example call whose text can be changed: "so seventy-five pounds are due"."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import soundfile

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "corpus"
TEXT = "so seventy-five pounds are due."


def write_clip(
    folder: Path, name: str, changed: Mapping[str, str] | None = None, *, start_s: float = 24.4
) -> Path:
    """`NAME.wav` from `start_s` on, and `NAME.json` with words `changed` by what they were; returns the audio."""
    audio, rate_hz = soundfile.read(EXAMPLES / "calls" / "bill-85-credit.flac", dtype="float32")
    folder.mkdir(parents=True, exist_ok=True)
    end_s = 26.4
    soundfile.write(
        folder / f"{name}.wav",
        audio[round(start_s * rate_hz) : round(end_s * rate_hz)],
        rate_hz,
        subtype="PCM_16",
    )
    given = json.loads((EXAMPLES / "calls" / "bill-85-credit.json").read_text())["alignments"]
    words = [
        [(changed or {}).get(word, word), [round(start - start_s, 3), round(end - start_s, 3)], speaker]
        for word, (start, end), speaker in given
        if start >= start_s and end <= end_s
    ]
    assert " ".join(word for word, _, _ in words) == " ".join(
        (changed or {}).get(word, word) for word in TEXT.split()
    )
    (folder / f"{name}.json").write_text(json.dumps({"alignments": words}))
    return folder / f"{name}.wav"
