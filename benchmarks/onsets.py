"""Errors of word onsets on real speech: re-timed by forced alignment, against Whisper's own times (the baseline).

The truth is a word tier timed by a Kaldi aligner. Needs `mono/cold_corpus.wav` and `words/cold_corpus.TextGrid`
in the folder of real data, `../shared/data` by default; `--audio` and `--truth` name another pair.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from inkplex_data.audio.call_audio import open_channel
from inkplex_data.corpus.transcripts import read_transcript
from inkplex_data.corpus.word_repair import RawWord, TimedWord
from inkplex_data.speech.align.anchored import time_whole_text
from inkplex_data.speech.align.packing import RATE_HZ
from inkplex_data.speech.align.transcribe import NO_RETIMING, SpeechAligner
from inkplex_data.speech.align.whisper_weights import PACKAGED

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def onset_errors_s(truth: Sequence[RawWord], found: Sequence[TimedWord]) -> np.ndarray:
    """Distance of the onsets, in seconds, of the words that both have, in order: float64 [k]."""
    folded = [
        ["".join(filter(str.isalnum, word.text.casefold())) for word in words] for words in (truth, found)
    ]
    blocks = difflib.SequenceMatcher(None, *folded, autojunk=False).get_matching_blocks()
    pairs = [(block.a + step, block.b + step) for block in blocks for step in range(block.size)]
    return np.array([abs(float(truth[a].start) - found[b].start_us / 1e6) for a, b in pairs])  # type: ignore[arg-type]


def measured(audio: Path, truth_path: Path, *, model: str, aligner: str) -> dict[str, float | str | int]:
    """Median, 90th percentile and number of the onset errors: Whisper's, re-timed, and of the text when it is known."""
    truth = read_transcript(truth_path).words
    samples = open_channel(audio).samples(RATE_HZ)
    retimed = SpeechAligner(model, retime=aligner)
    text = [word.text for word in truth]
    found = {
        "whisper": SpeechAligner(model, retime=NO_RETIMING).words(samples).words,
        "retimed": retimed.words(samples).words,
        "known_text": time_whole_text(samples, text, [""] * len(text), retimed).words,
    }
    results: dict[str, float | str | int] = {
        "model": model,
        "aligner": aligner,
        "words": len(truth),
        "shortest_word_ms": round(min(word.end_us - word.start_us for word in found["retimed"]) / 1000),
    }
    for name, words in found.items():
        errors_s = onset_errors_s(truth, words)
        results[f"{name}_words"] = len(errors_s)
        results[f"{name}_median_ms"] = round(float(np.median(errors_s)) * 1000, 1)
        results[f"{name}_p90_ms"] = round(float(np.percentile(errors_s, 90)) * 1000, 1)
    results["whisper_over_retimed_median"] = round(
        float(results["whisper_median_ms"]) / max(float(results["retimed_median_ms"]), 1e-9), 2
    )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio", type=Path, default=DATA / "mono" / "cold_corpus.wav")
    parser.add_argument("--truth", type=Path, default=DATA / "words" / "cold_corpus.TextGrid")
    parser.add_argument("--model", default=PACKAGED)
    parser.add_argument("--aligner", default="pocketsphinx")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not (options.audio.is_file() and options.truth.is_file()):
        print(f"skipped: needs {options.audio} and {options.truth}; --audio and --truth name others")
        return
    torch.set_num_threads(1)
    results = measured(options.audio, options.truth, model=options.model, aligner=options.aligner)
    if options.json:
        print(json.dumps(results))
        return
    for name, value in results.items():
        print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
