"""Peak memory and time of chunked memory attention against dense attention, forward and backward.

`dense` is the textbook form: one mask and one score matrix over all versions. `fused` is scaled-dot-product
attention with one mask over all versions and no score matrix. Each runs in its own process; memory is the
peak resident size above what the process held once its inputs were made.

    python benchmarks/memory_attention.py [--json] [--heads 4 --steps 1000 --versions 60000 --limit 8192]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

HEAD_WIDTH = 64
SLOT_WIDTH = 256
VERSIONS_A_TOKEN = 10
FORMS = ("dense", "fused", "chunked")


def measure(form: str, heads: int, steps: int, versions: int, limit: int) -> dict[str, float]:
    """Run one form once in this process: peak MiB above its inputs, seconds, and checksums of the results."""
    import torch
    from torch.nn import functional as F

    from inkplex_data.trainer import MemoryReader
    from inkplex_data.trainer.memory.visibility import Intervals

    torch.set_num_threads(1)
    torch.manual_seed(0)
    width = heads * HEAD_WIDTH
    reader = MemoryReader(width, SLOT_WIDTH, heads)
    torch.nn.init.normal_(reader.output.weight, std=width**-0.5)

    def made(versions: int, steps: int) -> tuple[torch.Tensor, ...]:
        # Tokens arrive one after another; each has some versions end to end, and then leaves.
        tokens = -(-versions // VERSIONS_A_TOKEN)
        arrival = torch.randint(0, steps, (tokens,)).sort().values
        length = torch.randint(1, max(2, steps // 50), (tokens, VERSIONS_A_TOKEN))
        end = arrival[:, None] + length.cumsum(1)
        start = (end - length).flatten()[:versions]
        native = torch.randn(1, steps, width, requires_grad=True)
        slots = torch.randn(versions, SLOT_WIDTH, requires_grad=True)
        return native, slots, start, end.flatten()[:versions]

    def attend(
        native: torch.Tensor, slots: torch.Tensor, start: torch.Tensor, end: torch.Tensor
    ) -> torch.Tensor:
        if form == "chunked":
            return reader(native, slots, start, end, limit=limit)
        query, (key, value) = reader.queries(native), reader.keys_and_values(slots)
        intervals = Intervals(start, end, 0)
        mask, seen = intervals.mask(0, native.shape[1]), intervals.seen(native.shape[1])
        mask |= ~seen[:, None]
        if form == "fused":
            out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        else:
            scores = (query * HEAD_WIDTH**-0.5) @ key.transpose(-1, -2)
            out = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ value
        return reader.residual(out, seen, native.dtype)

    attend(*made(200, 20)).sum().backward()  # libraries and kernels are loaded before anything is measured
    native, slots, start, end = made(versions, steps)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    out = attend(native, slots, start, end)
    out.square().sum().backward()
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert native.grad is not None
    return {
        "peak_mib": (peak - before) / 1024,
        "seconds": seconds,
        "output": float(out.detach().norm()),
        "gradient": float(native.grad.norm()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--form", choices=FORMS, help="run one form in this process")
    for name, default in (("heads", 4), ("steps", 1_000), ("versions", 60_000), ("limit", 8_192)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    sizes = {name: getattr(options, name) for name in ("heads", "steps", "versions", "limit")}
    if options.form:
        print(json.dumps(measure(options.form, **sizes)))
        return
    flags = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    command = [sys.executable, str(Path(__file__).resolve())]
    results = {
        form: json.loads(subprocess.check_output([*command, "--form", form, *flags], text=True))
        for form in FORMS
    }
    for form in FORMS[:2]:
        results[form]["memory_ratio"] = results["chunked"]["peak_mib"] / results[form]["peak_mib"]
    if options.json:
        print(json.dumps({"sizes": sizes, "forms": results}, indent=1))
        return
    print(", ".join(f"{name} {value:,}" for name, value in sizes.items()))
    for form, row in results.items():
        print(f"{form:8} {row['peak_mib']:9.1f} MiB {row['seconds']:7.2f} s   |out| {row['output']:.6f}")
    print(f"chunked needs {results['dense']['memory_ratio']:.3f} of dense peak memory", end=", ")
    print(f"{results['fused']['memory_ratio']:.3f} of fused dense")


if __name__ == "__main__":
    main()
