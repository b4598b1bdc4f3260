"""Encoding speed and memory with 25-frame chunks, with one frame at a time, and with the whole call at once.

Baseline: one-shot, `MimiModel.encode` of the whole waveform. CPU time of one thread. Codes that differ from
those of the canonical chunks are counted too: near ties fall differently, which is why one chunk size is fixed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
import torch

from inkplex_data.speech.codec import load_codec
from inkplex_data.speech.codec_mimi import MimiCodec

CALL = Path(__file__).resolve().parents[1] / "inkplex_data" / "speech" / "data" / "fit_speech.flac"


def plain_loop(codec: MimiCodec, samples: np.ndarray, frames: int) -> np.ndarray:
    cache = padding = None
    parts = []
    with torch.inference_mode():
        for start in range(0, len(samples), frames * 1_920):
            output = codec.model.encode(
                torch.from_numpy(samples[None, None, start : start + frames * 1_920].copy()),
                num_quantizers=8,
                encoder_cache=cache,
                padding_cache=padding,
                use_streaming=True,
            )
            cache, padding = output.encoder_cache, output.padding_cache
            parts.append(output.audio_codes[0])
    return torch.cat(parts, dim=-1).T.numpy()


def one_shot(codec: MimiCodec, samples: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        codes = codec.model.encode(torch.from_numpy(samples[None, None].copy()), num_quantizers=8).audio_codes
    return codes[0].T.numpy()


def timed(run: Any) -> tuple[np.ndarray, float]:
    begin = time.process_time()
    codes = run()
    return codes, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--audio", default=str(CALL), help="a call, repeated to the requested length")
    parser.add_argument("--codec", default="untrained:0")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    call, rate_hz = soundfile.read(options.audio, dtype="float32", always_2d=True)
    samples = soxr.resample(call[:, 0], rate_hz, 24_000).astype(np.float32)
    samples = np.resize(samples, int(options.seconds * 12.5) * 1_920)
    codec = load_codec(options.codec)
    one_shot(codec, samples[: 25 * 1_920])

    runs = {
        "one_shot": timed(lambda: one_shot(codec, samples)),
        "chunks_of_25": timed(lambda: codec.encode(samples)),
        "chunks_of_1": timed(lambda: plain_loop(codec, samples, 1)),
    }
    canonical = runs["chunks_of_25"][0]
    results: dict[str, float] = {"seconds_of_audio": len(samples) / 24_000, "codes": canonical.size}
    for name, (codes, seconds) in runs.items():
        results[f"{name}_times_real_time"] = round(len(samples) / 24_000 / seconds, 2)
        results[f"{name}_speed_over_one_shot"] = round(runs["one_shot"][1] / seconds, 3)
        results[f"{name}_codes_that_differ"] = int((codes != canonical).sum())
    if options.json:
        print(json.dumps(results))
        return
    for name in runs:
        print(
            f"{name:13} {results[f'{name}_times_real_time']:6.2f} x real time, "
            f"{results[f'{name}_speed_over_one_shot']:.2f} of one-shot's speed, "
            f"{results[f'{name}_codes_that_differ']} of {canonical.size:,} codes differ from chunks of 25"
        )


if __name__ == "__main__":
    main()
