"""Peak memory of encoding both sides of a long call in step, over that of a call of five minutes.

Baseline: the same process encoding `--short-minutes`. Each length runs in a process of its own, which
repeats a call in pieces of odd lengths, against itself half as loud, and keeps only the codes. An hour takes about
sixteen minutes on one core:

    python benchmarks/codec_memory.py --long-minutes 60
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

CALL = Path(__file__).resolve().parents[1] / "inkplex_data" / "speech" / "data" / "fit_speech.flac"
PIECE_SAMPLES = 30_011


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def encode(minutes: float, audio: str, codec_spec: str) -> dict[str, float]:
    import soundfile
    import soxr

    from inkplex_data.speech.codec import load_codec

    call, rate_hz = soundfile.read(audio, dtype="float32", always_2d=True)
    samples = soxr.resample(call[:, 0], rate_hz, 24_000).astype(np.float32)
    codec = load_codec(codec_spec)
    loaded = peak_mib()

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        position, left = 0, int(minutes * 60 * 24_000)
        while left:
            piece = samples[position : position + min(PIECE_SAMPLES, left)]
            yield piece, piece / 2
            left -= len(piece)
            position = (position + len(piece)) % len(samples)

    begin = time.process_time()
    frames = len(codec.encode_pair(pairs()))
    seconds = time.process_time() - begin
    return {
        "loaded_mib": round(loaded, 1),
        "peak_mib": round(peak_mib(), 1),
        "frames": frames,
        "times_real_time": round(minutes * 60 / seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short-minutes", type=float, default=5)
    parser.add_argument("--long-minutes", type=float, default=20)
    parser.add_argument("--audio", default=str(CALL), help="the call to repeat")
    parser.add_argument("--codec", default="untrained:0")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--encode", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.encode is not None:
        print(json.dumps(encode(options.encode, options.audio, options.codec)))
        return
    runs = {}
    for name, minutes in (("short", options.short_minutes), ("long", options.long_minutes)):
        command = [sys.executable, __file__, "--encode", str(minutes), "--audio", options.audio]
        run = subprocess.run([*command, "--codec", options.codec], stdout=subprocess.PIPE, check=True)
        runs[name] = {"minutes": minutes, **json.loads(run.stdout)}
    ratio = round(runs["long"]["peak_mib"] / runs["short"]["peak_mib"], 4)
    if options.json:
        print(json.dumps({**runs, "long_peak_over_short_peak": ratio}))
        return
    for run in runs.values():
        print(
            f"{run['minutes']:g} min: peak {run['peak_mib']:,.0f} MiB "
            f"({run['loaded_mib']:,.0f} MiB with the codec loaded), "
            f"{run['frames']:,} frames, {run['times_real_time']} x real time"
        )
    print(f"long peak / short peak: {ratio}")


if __name__ == "__main__":
    main()
