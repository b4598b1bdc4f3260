"""Diarization error of the offline default on two excerpts of AMI meetings, against the best possible (the baseline).

Measured by pyannote.metrics with a collar of 0.25 s: without overlapped speech, and in full beside the error of a perfect
labelling with one speaker at a time, which is the kind of labelling that the default gives. `--model` names a pyannote pipeline instead.
The default's threshold was set on these excerpts; so the two sides of a telephone call, mixed into one channel, are
measured too, taking as the truth the speech that a detector finds on each side.
Needs the folder of real data, `../shared/data` by default.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from pyannote.core import Annotation, Segment, Timeline
from pyannote.metrics.diarization import DiarizationErrorRate

from inkplex_data.audio.call_audio import open_channel
from inkplex_data.audio.turns import units
from inkplex_data.corpus.transcripts.rttm import turns as rttm_turns
from inkplex_data.corpus.transcripts.transcript import Content
from inkplex_data.speech.align.vad import speech_intervals
from inkplex_data.speech.diarize.diarizer import RATE_HZ, STEP_US, TURN_PAUSE_STEPS, load_diarizer
from inkplex_data.speech.diarize.speaker_turns import SpeakerTurn
from inkplex_data.speech.diarize.streams import main_speaker, two_streams

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
EXCERPTS = {"dev00": "debug.development.rttm", "tst00": "debug.test.rttm"}
MIXED = "Auto_Repairs_40_UTC"
COLLAR_S = 0.25
TURN_PAUSE_US = STEP_US * TURN_PAUSE_STEPS


def reference(folder: Path, name: str) -> list[SpeakerTurn]:
    """The annotated turns of an excerpt, whose file holds those of others too."""
    path = folder / "mono" / EXCERPTS[name]
    return sorted(
        SpeakerTurn(round(part.start_s * 1e6), round(part.end_s * 1e6), part.speaker)
        for part in rttm_turns(Content(path, path.read_bytes()), name)
    )


def annotation(turns: list[SpeakerTurn]) -> Annotation:
    made = Annotation()
    for index, turn in enumerate(turns):
        made[Segment(turn.start_us / 1e6, turn.end_us / 1e6), index] = turn.speaker
    return made


def one_at_a_time(turns: list[SpeakerTurn]) -> list[SpeakerTurn]:
    """The reference as a labelling with one speaker at a time gives it at best: where several speak, who began last.

    Which one of them is kept makes no difference to the error.
    """
    edges = sorted({edge for turn in turns for edge in (turn.start_us, turn.end_us)})
    kept = []
    for start, end in itertools.pairwise(edges):
        speaking = [turn for turn in turns if turn.start_us <= start and turn.end_us >= end]
        if speaking:
            kept.append(SpeakerTurn(start, end, max(speaking).speaker))
    return kept


def error(
    given: list[SpeakerTurn], found: list[SpeakerTurn], length_s: float, *, skip_overlap: bool
) -> float:
    metric = DiarizationErrorRate(collar=COLLAR_S, skip_overlap=skip_overlap)
    whole = Timeline([Segment(0, length_s)])
    return float(metric(annotation(given), annotation(found), uem=whole))


def mixed_call(folder: Path) -> tuple[np.ndarray, list[SpeakerTurn]]:
    """A telephone call's two files as one channel, float32 [n] at 16 kHz, and the turns on each side."""
    sides = {
        name: open_channel(folder / "calls" / f"{MIXED}_{name}.wav").samples(RATE_HZ)
        for name in ("agent", "caller")
    }
    turns = [
        SpeakerTurn(start, end, name)
        for name, samples in sides.items()
        for start, end in units(speech_intervals(samples), silence_us=TURN_PAUSE_US).tolist()
    ]
    length = max(map(len, sides.values()))
    return sum(np.pad(samples, (0, length - len(samples))) for samples in sides.values()), sorted(turns)


def measured(folder: Path, model: str) -> dict[str, Any]:
    """Errors of each excerpt, and whether its two streams add up to it sample for sample."""
    diarizer = load_diarizer(model)
    given: dict[str, tuple[np.ndarray, list[SpeakerTurn]]] = {
        name: (soundfile.read(folder / "mono" / f"{name}.wav", dtype="float32")[0], reference(folder, name))
        for name in EXCERPTS
    }
    given["mixed_call"] = mixed_call(folder)
    results: dict[str, Any] = {"model": model}
    for name, (samples, truth) in given.items():
        found = diarizer.turns(samples)
        length_s = len(samples) / RATE_HZ
        made = two_streams(samples, RATE_HZ, found, main_speaker(found))
        full = error(truth, found, length_s, skip_overlap=False)
        floor = error(truth, one_at_a_time(truth), length_s, skip_overlap=False)
        results[name] = {
            "speakers": len({turn.speaker for turn in truth}),
            "speakers_found": len({turn.speaker for turn in found}),
            "error_without_overlap": round(error(truth, found, length_s, skip_overlap=True), 4),
            "full_error": round(full, 4),
            "floor": round(floor, 4),
            "full_over_floor": round(full / floor, 2) if floor else None,
            "streams_add_up": bool(np.array_equal(made.agent + made.caller, samples)),
        }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--model", default="offline", help="offline, or a pyannote pipeline's folder or hub id"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not all((options.data / "mono" / f"{name}.wav").is_file() for name in EXCERPTS):
        print(f"skipped: {options.data} lacks the excerpts; --data names another folder")
        return
    torch.set_num_threads(1)
    results = measured(options.data, options.model)
    if options.json:
        print(json.dumps(results))
        return
    for name in (*EXCERPTS, "mixed_call"):
        print(name)
        for key, value in results[name].items():
            print(f"  {key:24} {value}")


if __name__ == "__main__":
    main()
