"""One training step with memory: writer and four readers over a small frozen model, forward and backward.

The baseline is the same step of the same model without memory. On a GPU the sizes are the full ones (slots of
1,024, native width 4,096, 32 heads, 40,000 tokens of 3 × 4,096 bfloat16, 3,750 steps) around four temporal
blocks; on a CPU everything is scaled down. Prints the ratio of seconds and the peak memory.

    python benchmarks/memory_step.py [--json] [--device cuda|cpu] [--tokens N] [--steps N] [--limit N]
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from versions import session  # the made session of benchmarks/versions.py

from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.trainer import PersonaPlexConfig, PersonaPlexLM, voice_and_text_loss
from inkplex_data.trainer.memory.connector import CallMemory, ConnectedLM, MemoryReaders


def make_memory(
    tokens: int, steps: int, state_width: int, text_width: int, device: torch.device
) -> CallMemory:
    table = build_versions(session(tokens, steps), SessionClock(0, 0, steps))
    columns = {name: table[name].to_torch() for name in ("row", "start", "end", "recency", "age", "whole")}
    return CallMemory(
        states=torch.randn(tokens, 3, state_width, dtype=torch.bfloat16, device=device),
        text_features=torch.randn(tokens, text_width, device=device),
        kind=torch.randint(7, (tokens,), device=device),
        **{name: column.to(device) for name, column in columns.items()},
    )


def peak_mib(device: torch.device) -> float:
    """Largest memory so far: allocated on a GPU, resident on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def step(
    model: ConnectedLM, codes: torch.Tensor, memory: CallMemory | None, limit: int
) -> tuple[float, float]:
    """(seconds, loss) of one forward and backward."""
    steps, device = codes.shape[-1], codes.device
    chunks = memory.plan(steps, limit) if memory else None
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    out, _ = model(codes, memory, chunks=chunks)
    roles = torch.full((1, steps), 2, device=device)
    loss = voice_and_text_loss(
        out.text_logits, out.logits, codes, roles, torch.tensor([steps], device=device)
    ).loss()
    if loss.requires_grad:
        loss.backward()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began, float(loss.detach())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    device, full = torch.device(options.device), options.device.startswith("cuda")
    tokens, steps = options.tokens or (40_000 if full else 2_000), options.steps or (3_750 if full else 375)
    limit = options.limit or (131_072 if full else 4_096)
    width, heads, state_width, slot_width = (4096, 32, 4096, 1024) if full else (128, 4, 128, 64)
    config = PersonaPlexConfig(
        dim=width, heads=heads, layers=4, ffn_hidden_temporal=2 * width, depth_dim=64, depth_heads=4,
        depth_layers=1, ffn_hidden_depth=128, text_card=512,
    )  # fmt: skip
    torch.manual_seed(0)
    lm = PersonaPlexLM.seeded(config, 0).to(device, torch.bfloat16 if full else torch.float32).freeze()
    memory_modules = MemoryReaders(config, state_width=state_width, slot_width=slot_width)
    model = ConnectedLM(lm, memory_modules.to(device))
    codes = torch.randint(500, (1, 17, steps), device=device)
    memory = make_memory(tokens, steps, state_width, width, device)

    step(model, codes[..., :8], memory, limit)  # kernels are compiled and libraries loaded
    bare_s, _ = step(model, codes, None, limit)
    before = peak_mib(device)
    seconds, loss = step(model, codes, memory, limit)
    result = {
        "device": torch.cuda.get_device_name() if full else "cpu",
        "tokens": tokens,
        "steps": steps,
        "versions": memory.versions,
        "chunks": len(memory.plan(steps, limit)),
        "seconds": seconds,
        "bare_seconds": bare_s,
        "ratio": seconds / bare_s,
        "peak_mib": peak_mib(device),
        "above_bare_mib": peak_mib(device) - before,
        "loss": loss,
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{tokens:,} tokens, {memory.versions:,} versions in {result['chunks']} chunks, {steps:,} steps")
    print(f"without memory {bare_s:8.2f} s (forward; nothing trains)")
    print(f"with memory    {seconds:8.2f} s forward and backward, peak {result['peak_mib']:,.0f} MiB")
    print(f"ratio {result['ratio']:.1f} against the model without memory")


if __name__ == "__main__":
    main()
