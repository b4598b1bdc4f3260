"""How the peak memory of capturing hidden rows grows with a request, against the model's own cache.

    python benchmarks/capture_memory.py [--short 2000] [--long 20000] [--chunk-tokens 512] [--model small:0] [--json]

Each length runs in a fresh process. The baseline is the growth of the model's key/value cache between
the two lengths, summed over its tensors; the ratio shows how much of the growth is anything else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inkplex_data.memory.capture import capture_states as capture
from inkplex_data.memory.capture.inkling import load_inkling


@dataclass
class Request:
    """One request of random text tokens that arrive together."""

    ids: NDArray[np.int32]
    call: int = 0
    cached: None = None
    line: int = 2
    bytes: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        tokens = len(self.ids)
        self.bytes = [b""] * tokens
        self.kinds = np.zeros(tokens, np.uint8)
        self.media = np.zeros(tokens, np.uint8)
        self.special = np.zeros(tokens, np.bool_)
        self.arrival_us = np.zeros(tokens, np.int64)


def status_bytes(name: str) -> int:
    """A size out of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this benchmark reads /proc/self/status, so it needs Linux")


def measure(tokens: int, model_id: str, chunk_tokens: int) -> dict[str, float]:
    """Run one request in this process."""
    model = load_inkling(model_id, device="cpu")
    ids = np.random.default_rng(0).integers(0, model.vocabulary, tokens, dtype=np.int32)
    # Everything is loaded and warm before the clock starts.
    for _ in capture.capture_states([Request(ids[:600])], model, chunk_tokens=chunk_tokens):
        pass
    caches = []
    new_cache = model.new_cache

    def noted() -> object:
        caches.append(new_cache())
        return caches[-1]

    model.new_cache = noted  # type: ignore[method-assign]
    before = status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    begin, chunks = time.perf_counter(), 0
    for _ in capture.capture_states([Request(ids)], model, chunk_tokens=chunk_tokens):
        chunks += 1
    seconds = time.perf_counter() - begin
    cache_bytes = sum(
        tensor.nbytes
        for layer in caches[0].layers
        for tensor in (layer.keys, layer.values, *layer.conv_states.values())
    )
    return {
        "peak_bytes": status_bytes("VmHWM"),
        "above_start_bytes": status_bytes("VmHWM") - before,
        "cache_bytes": cache_bytes,
        "states_never_held_bytes": tokens * 3 * model.width * 2,
        "chunks": chunks,
        "seconds": round(seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", type=int, default=2_000)
    parser.add_argument("--long", type=int, default=20_000)
    parser.add_argument("--chunk-tokens", type=int, default=512)
    parser.add_argument("--model", default="small:0")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.model, options.chunk_tokens)))
        return
    found = {}
    for name, tokens in (("short", options.short), ("long", options.long)):
        command = [sys.executable, __file__, f"--only={tokens}", f"--model={options.model}"]
        command.append(f"--chunk-tokens={options.chunk_tokens}")
        found[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    growth = found["long"]["peak_bytes"] - found["short"]["peak_bytes"]
    cache_growth = found["long"]["cache_bytes"] - found["short"]["cache_bytes"]
    result = {
        "tokens": [options.short, options.long],
        **{f"{name}_{key}": value for name, values in found.items() for key, value in values.items()},
        "growth_bytes": growth,
        "baseline": "growth of the model's own key/value cache",
        "baseline_bytes": cache_growth,
        "ratio": round(growth / cache_growth, 3),
    }
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:28} {value:,}" if isinstance(value, int) else f"{name:28} {value}")


if __name__ == "__main__":
    main()
