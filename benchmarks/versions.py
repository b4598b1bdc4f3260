"""Building the versions of a long call: seconds, peak memory and growth with tokens, against a step-by-step sweep.

    python benchmarks/versions.py [--tokens 40000] [--steps 3750] [--window 40000] [--json]

The baseline goes through the steps, works out (recency, age, whole) for every live token with NumPy, and
opens a version wherever something changed. Both must give the same versions.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
import polars as pl

from inkplex_data.memory.plan import plan_chunks
from inkplex_data.memory.token_order import arrival_order
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.memory.words import assemble_words


def session(tokens: int, steps: int, seed: int = 0) -> pl.DataFrame:
    """A session of several requests: each a prompt that arrives at once, then tokens one after another."""
    rng = np.random.default_rng(seed)
    length_us = steps * 80_000
    calls = 12
    sizes = rng.multinomial(tokens, np.full(calls, 1 / calls))
    call = np.repeat(np.arange(calls), sizes)
    position = np.concatenate([np.arange(size) for size in sizes])
    arrival = []
    for number, size in enumerate(sizes):
        begin = int(number / calls * length_us)
        prompt = size // 3
        steady = begin + np.sort(rng.integers(0, length_us // calls, size - prompt))
        arrival.append(np.concatenate([np.full(prompt, begin), steady]))
    pieces = [b" the", b" account", b"ing", b" is", b".", b" 4", b"2\n", b" \xc3", b"\xa9t\xc3\xa9"]
    return pl.DataFrame(
        {
            "call": call,
            "position": position,
            "special": rng.random(tokens) < 0.02,
            "bytes": pl.Series([pieces[i] for i in rng.integers(0, len(pieces), tokens)], dtype=pl.Binary),
            "arrival_us": np.concatenate(arrival),
        }
    )


def sweep(tokens: pl.DataFrame, clock: SessionClock, window: int) -> pl.DataFrame:
    """The same versions, step by step."""
    arrival_us = tokens["arrival_us"].to_numpy()
    order = arrival_order(arrival_us)
    arrived_us = arrival_us[order]
    complete_us, oldest = assemble_words(tokens).whole_limits(tokens)[order].to_numpy().T
    before = np.full(len(tokens), -1)
    opened = np.zeros(len(tokens), np.int64)
    parts = []
    for step in range(clock.frames + 1):
        state = np.full(len(tokens), -1)
        if step < clock.frames:
            now_us = clock.session_us(step)
            newest = int(np.searchsorted(arrived_us, now_us, side="right"))
            oldest_live = max(0, newest - window)
            live = slice(oldest_live, newest)
            recency = np.minimum(np.log2(newest - np.arange(oldest_live, newest)).astype(int), 16)
            age = np.minimum(np.log2((now_us - arrived_us[live]) // 1_000_000 + 1).astype(int), 14)
            whole = (complete_us[live] <= now_us) & (oldest[live] >= oldest_live)
            state[live] = recency * 32 + age * 2 + whole
        changed = np.flatnonzero(state != before)
        closed = changed[before[changed] >= 0]
        parts.append(np.stack([order[closed], opened[closed], np.full(len(closed), step), before[closed]]))
        opened[changed] = step
        before = state
    row, start, end, state = np.concatenate(parts, axis=1)
    return pl.DataFrame(
        {
            "row": row,
            "start": start,
            "end": end,
            "recency": state // 32,
            "age": state // 2 % 16,
            "whole": state % 2 == 1,
        }
    ).sort("row", "start")


def timed(tokens: pl.DataFrame, clock: SessionClock, window: int) -> tuple[float, pl.DataFrame]:
    build_versions(tokens.head(100), clock, window=window)
    best, versions = float("inf"), pl.DataFrame()
    for _ in range(7):
        begin = time.perf_counter()
        versions = build_versions(tokens, clock, window=window)
        best = min(best, time.perf_counter() - begin)
    return best, versions


def peak_bytes(tokens: int, steps: int, window: int) -> int:
    """Peak resident memory of a fresh process that makes the session and builds its versions once."""
    command = [
        sys.executable,
        __file__,
        "--peak-only",
        f"--tokens={tokens}",
        f"--steps={steps}",
        f"--window={window}",
    ]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=40_000)
    parser.add_argument("--steps", type=int, default=3_750)
    parser.add_argument("--window", type=int, default=40_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peak-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    clock = SessionClock(0, 0, options.steps)
    tokens = session(options.tokens, options.steps)
    if options.peak_only:
        unit = 1 if sys.platform == "darwin" else 1024
        build_versions(tokens, clock, window=options.window)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
        return

    seconds, versions = timed(tokens, clock, options.window)
    four_times, _ = timed(session(4 * options.tokens, options.steps), clock, options.window)
    begin = time.perf_counter()
    reference = sweep(tokens, clock, options.window)
    sweep_seconds = time.perf_counter() - begin
    if not versions.equals(reference.cast(dict(versions.schema))):
        raise SystemExit("the sweep gives other versions")
    begin = time.perf_counter()
    chunks = plan_chunks(versions["start"].to_numpy(), versions["end"].to_numpy(), steps=options.steps)
    plan_seconds = time.perf_counter() - begin
    result = {
        "tokens": options.tokens,
        "steps": options.steps,
        "versions": len(versions),
        "seconds": round(seconds, 4),
        "peak_bytes": peak_bytes(options.tokens, options.steps, options.window),
        "seconds_with_4x_tokens": round(four_times, 4),
        "ratio_4x_tokens": round(four_times / seconds, 2),
        "baseline": "NumPy sweep over the steps",
        "baseline_seconds": round(sweep_seconds, 4),
        "times_faster_than_baseline": round(sweep_seconds / seconds, 1),
        "plan_seconds": round(plan_seconds, 4),
        "chunks": len(chunks),
    }
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:28} {value:,}" if isinstance(value, int) else f"{name:28} {value}")


if __name__ == "__main__":
    main()
