"""Hours of audio that are encoded in an hour: batches of the codec beside a plain `MimiModel` loop of the same batch.

Baseline: the same model fed the same chunks, caches carried as transformers' documentation shows. Runs on a GPU where there is
one, and on one core of the CPU beside it; `--build` also builds a call of that many minutes on the device, end to end,
and says for what share of the time the device was busy:

    python benchmarks/codec_device.py --batches 1,8,64,256 --build 60
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch

from inkplex_data.config.device import choose_device
from inkplex_data.config.recipe import load_recipe
from inkplex_data.pipeline.run import build_store
from inkplex_data.speech.codec import load_codec
from inkplex_data.speech.codec_identity import CHUNK_SAMPLES
from inkplex_data.speech.codec_mimi import MimiCodec
from inkplex_data.torch_settings import exact_convolutions

CALL = Path(__file__).resolve().parents[1] / "inkplex_data" / "speech" / "data" / "fit_speech.flac"
SAMPLES_AN_HOUR = 24_000 * 3_600
CALL_MINUTES = 5


def speech(samples: int) -> np.ndarray:
    call, rate_hz = soundfile.read(CALL, dtype="float32", always_2d=True)
    return np.resize(soxr.resample(call[:, 0], rate_hz, 24_000).astype(np.float32), samples)


def plain_loop(codec: MimiCodec, batch: np.ndarray) -> np.ndarray:
    cache = padding = None
    parts = []
    with torch.inference_mode(), exact_convolutions(codec.device):
        for start in range(0, batch.shape[1], CHUNK_SAMPLES):
            output = codec.model.encode(
                torch.tensor(batch[:, None, start : start + CHUNK_SAMPLES], device=codec.device),
                num_quantizers=8,
                encoder_cache=cache,
                padding_cache=padding,
                use_streaming=True,
            )
            cache, padding = output.encoder_cache, output.padding_cache
            parts.append(output.audio_codes.cpu())
    return torch.cat(parts, dim=-1).transpose(1, 2).numpy()


def measure(spec: str, device: str, rows: int, chunks: int) -> dict[str, float | int | str]:
    """Both ways of one batch; the first chunks are run before the clock starts."""
    codec = load_codec(spec, device=device, rows=rows)
    assert isinstance(codec, MimiCodec)
    own = speech(chunks * CHUNK_SAMPLES)
    batch = np.stack([np.roll(own, 7_919 * row) for row in range(rows)])
    plain_loop(codec, batch[:, :CHUNK_SAMPLES])
    begin = time.perf_counter()
    ours = codec.encode_batch(list(batch))
    own_s = time.perf_counter() - begin
    begin = time.perf_counter()
    plain = plain_loop(codec, batch)
    plain_s = time.perf_counter() - begin
    hours = batch.size / SAMPLES_AN_HOUR
    return {
        "device": device,
        "rows": rows,
        "hours_an_hour": round(hours / own_s * 3_600, 2),
        "plain_hours_an_hour": round(hours / plain_s * 3_600, 2),
        "speed_over_plain": round(plain_s / own_s, 3),
        "codes": plain.size,
        "codes_that_differ": int((np.stack(ours) != plain).sum()),
    }


class BusyShare:
    """How often the GPU was at work, asked ten times a second; None where it cannot be asked."""

    def __init__(self, device: str) -> None:
        self._asked: list[bool] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(torch.device(device),), daemon=True)

    def __enter__(self) -> BusyShare:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self, device: torch.device) -> None:
        while device.type == "cuda" and not self._end.wait(0.1):
            try:
                self._asked.append(torch.cuda.utilization(device) > 0)
            except (RuntimeError, ModuleNotFoundError):  # no NVML
                return

    @property
    def share(self) -> float | None:
        return round(sum(self._asked) / len(self._asked), 3) if self._asked else None


def build(spec: str, device: str, rows: int, minutes: float) -> dict[str, float | int | str | None]:
    """Build stereo calls of five minutes or less, so many minutes in all, in this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = []
        left = minutes
        while left > 0:
            samples = int(min(left, CALL_MINUTES) * 60 * 24_000)
            own = np.roll(speech(samples), 7_919 * len(lines))
            path = f"{len(lines):03}.wav"
            soundfile.write(folder / path, np.stack([own, own[::-1]], axis=1), 24_000, subtype="PCM_16")
            lines.append(json.dumps({"id": Path(path).stem, "path": path, "family": path}))
            left -= CALL_MINUTES
        (folder / "manifest.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = {"codec.id": spec, "codec.batch_rows": rows, "prefix": None, "words.source": "none"}
        begin = time.perf_counter()
        with BusyShare(device) as busy:
            summary = build_store(
                folder / "manifest.jsonl",
                folder / "store",
                recipe=load_recipe(None, options),
                workers=1,
                device=device,
            )
        wall_s = time.perf_counter() - begin
        assert summary.exit_code == 0, summary.text()
    return {
        "device": device,
        "rows": rows,
        "calls": len(lines),
        "build_minutes": minutes,
        "build_wall_s": round(wall_s, 1),
        "stereo_hours_an_hour": round(minutes * 60 / wall_s, 2),
        "device_busy_share": busy.share,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--codec", default="untrained:0")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--batches", help="rows, with commas; 1,8,64,256 on a GPU and 1,2 on a CPU by default"
    )
    parser.add_argument("--chunks", type=int, help="of two seconds; 30 on a GPU and 3 on a CPU by default")
    parser.add_argument("--build", type=float, default=0, metavar="MINUTES", help="also build stereo calls")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = choose_device(options.device)
    on_gpu = device != "cpu"
    batches = [int(rows) for rows in (options.batches or ("1,8,64,256" if on_gpu else "1,2")).split(",")]
    chunks = options.chunks or (30 if on_gpu else 3)
    results = [measure(options.codec, device, rows, chunks) for rows in batches]
    if on_gpu:
        results.append(measure(options.codec, "cpu", 1, 3))
    if options.build:
        results.append(build(options.codec, device, max(batches), options.build))
    for result in results:
        if options.json:
            print(json.dumps(result))
        else:
            print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
