"""Text stream of a long call: all frames at once, against one frame at a time.

Baseline: `tests/speech/stepwise.py`, the plain loop that the tests use for comparison.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from inkplex_data.speech.interleave import Word, interleave
from tests.speech.stepwise import stepwise


def made_up_call(minutes: float, seed: int = 0) -> tuple[list[Word], int]:
    """Words at the rate of English conversation, half of them the other speaker's."""
    rng = random.Random(seed)
    words, time_us = [], 0
    end_us = int(minutes * 60e6)
    while time_us < end_us:
        length = rng.randrange(80_000, 600_000)
        pieces = [rng.randrange(4, 32_000) for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5)))]
        words.append(Word(pieces, time_us, time_us + length, rng.choice(("SPEAKER_MAIN", "SPEAKER_OTHER"))))
        time_us += rng.randrange(100_000, 700_000)
    return words, end_us // 80_000


def best_of(repeats: int, run: object) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()  # type: ignore[operator]
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    words, frames = made_up_call(options.minutes)
    results: dict[str, float] = {"words": len(words), "frames": frames}
    for overflow in ("replace", "shift"):
        same = interleave(words, frames, overflow=overflow).ids.tolist()
        assert same == stepwise(words, frames, overflow=overflow).ids
        ours = best_of(options.repeats, lambda o=overflow: interleave(words, frames, overflow=o))
        loop = best_of(options.repeats, lambda o=overflow: stepwise(words, frames, overflow=o))
        results[f"{overflow}_ms"] = round(ours * 1e3, 3)
        results[f"{overflow}_loop_ms"] = round(loop * 1e3, 3)
        results[f"{overflow}_loop_over_ours"] = round(loop / ours, 2)
    if options.json:
        print(json.dumps(results))
        return
    for name, value in results.items():
        print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
