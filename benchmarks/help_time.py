"""Time that `inkplex-data --help` takes, against `python -c pass` in the same run."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time


def seconds(command: list[str], runs: int) -> float:
    """The best of `runs`: what the machine's other work adds is not the program's."""
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    baseline_s = seconds([sys.executable, "-c", "pass"], options.runs)
    help_s = seconds([sys.executable, "-m", "inkplex_data.cli.app", "--help"], options.runs)
    result = {"help_s": help_s, "python_pass_s": baseline_s, "help_over_python_pass": help_s / baseline_s}
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"--help {help_s:.3f} s, python -c pass {baseline_s:.3f} s: {help_s / baseline_s:.1f} times as long"
        )


if __name__ == "__main__":
    main()
