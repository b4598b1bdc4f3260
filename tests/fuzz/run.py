"""Thousands of injured files through the readers, each within a time and a memory of its own.

    python -m tests.fuzz.run --count 20000            # a seed from the clock, which is printed
    python -m tests.fuzz.run --seed 42 --only 1234    # one input once more, with its traceback
    python -m tests.fuzz.run --hours 24

An input is a function of the seed and its number. A reader may take it, or refuse it with an error of the family;
anything else is a finding: another exception, more than 5 s of processor time, more than 1 GB, the end of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inkplex_data.errors import InkplexError
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS, Target

SECONDS: Final = 5.0
MEMORY_BYTES: Final = 1 << 30
BATCH: Final = 500
"""Inputs that one process reads before another takes its place."""


class TooSlow(BaseException):
    """Raised within a reader when its time is over. No `except Exception` may keep it."""


@dataclass(frozen=True)
class Finding:
    """An input that was neither read nor refused."""

    seed: int
    index: int
    target: str
    file: str
    what: str
    trace: str = ""

    def __str__(self) -> str:
        return f"seed {self.seed} input {self.index}: {self.target} {self.file}: {self.what}"


class Inputs:
    """The sound inputs of every target, made once in `folder`, and the injured ones that a seed draws from them."""

    def __init__(self, folder: Path, names: Sequence[str] = ()) -> None:
        self._scratch = folder / "input"
        self._sound: dict[str, list[Path]] = {}
        self.targets = [target for target in TARGETS if not names or target.name in names]
        for target in self.targets:
            place = folder / target.name
            place.mkdir(parents=True)
            target.make(place)
            self._sound[target.name] = sorted(place.iterdir())

    def make(self, seed: int, index: int) -> tuple[Target, Path, str]:
        """The input as a folder that the next one replaces, and the name of its injured file."""
        rng = random.Random(f"{seed}:{index}")
        target = rng.choice(self.targets)
        sound = rng.choice(self._sound[target.name])
        other = rng.choice(self._sound[target.name])
        shutil.rmtree(self._scratch, ignore_errors=True)
        shutil.copytree(sound, self._scratch)
        files = sorted(path for path in self._scratch.rglob(target.injured) if path.is_file())
        others = sorted(path for path in other.rglob(target.injured) if path.is_file())
        path = rng.choice(files)
        path.write_bytes(mutated(path.read_bytes(), rng.choice(others).read_bytes(), rng))
        return target, self._scratch, path.relative_to(self._scratch).as_posix()


def try_input(inputs: Inputs, seed: int, index: int) -> Finding | None:
    """Read one input in this process; None where it was read, or refused as it should be."""
    target, folder, file = inputs.make(seed, index)
    before_bytes = _begin_peak()
    what, trace = "", ""
    try:
        # Processor time: a machine that is busy with other work accuses nobody. Who waits for ever is killed by `over`.
        # The alarm of a long call into a library is heard when that ends, and so perhaps behind the reader.
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            target.read(folder)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except InkplexError:
        pass
    except TooSlow:
        what, trace = f"took more than {SECONDS:g} s", traceback.format_exc()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a native library is no Exception
        what, trace = f"{type(error).__name__}: {error}"[:300], traceback.format_exc()
    peak_bytes = _peak_bytes() - before_bytes
    if not what and peak_bytes > MEMORY_BYTES:
        what = f"took {peak_bytes / 1e9:.1f} GB"
    return Finding(seed, index, target.name, file, what, trace) if what else None


def fuzz(seed: int, indices: range, names: Sequence[str] = (), *, processes: int = 1) -> Iterator[Finding]:
    """Read the inputs of `indices`, in processes that may die. Yields findings as they come."""
    waiting = [
        range(first, min(first + BATCH, indices.stop)) for first in range(indices.start, indices.stop, BATCH)
    ]
    waiting.reverse()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        running: list[_Batch] = []
        while waiting or running:
            while waiting and len(running) < processes:
                running.append(_Batch(seed, waiting.pop(), names, Path(scratch)))
            time.sleep(0.1)
            for batch in [batch for batch in running if batch.over()]:
                running.remove(batch)
                findings, rest = batch.close()
                yield from findings
                if rest:
                    waiting.append(rest)


class _Batch:
    """A process that reads one range of inputs, and notes which one it is at."""

    def __init__(self, seed: int, indices: range, names: Sequence[str], scratch: Path) -> None:
        self._seed, self._indices = seed, indices
        self._folder = Path(tempfile.mkdtemp(dir=scratch))
        self._log = self._folder / "log"
        command = [sys.executable, "-m", "tests.fuzz.run", "--seed", str(seed), "--child", str(self._folder)]
        command += ["--first", str(indices.start), "--count", str(len(indices))]
        command += [word for name in names for word in ("--target", name)]
        with (self._folder / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)

    def over(self) -> bool:
        """Whether it ended. One that its own clock could not stop is killed."""
        if self._process.poll() is not None:
            return True
        noted = self._log.stat().st_mtime if self._log.exists() else None
        if noted is not None and time.time() - noted > 12 * SECONDS:
            self._process.kill()
            self._process.wait()
            return True
        return False

    def close(self) -> tuple[list[Finding], range]:
        """What it found, and the inputs after the one that it died of."""
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        noted: list[dict[str, Any]] = [json.loads(line) for line in lines]
        findings = [Finding(**line["finding"]) for line in noted if "finding" in line]
        rest = range(0)
        if self._process.returncode != 0:
            stderr = (self._folder / "stderr").read_text(encoding="utf-8", errors="replace")[-2_000:]
            begun = [line["begin"] for line in noted if "begin" in line]
            if not begun:
                raise RuntimeError(f"no input could be read: {stderr}")
            what = f"the process ended ({self._process.returncode})"
            findings.append(Finding(self._seed, begun[-1], "?", "?", what, stderr))
            rest = range(begun[-1] + 1, self._indices.stop)
        shutil.rmtree(self._folder, ignore_errors=True)
        return findings, rest


def _child(folder: Path, seed: int, indices: range, names: Sequence[str]) -> None:
    inputs = Inputs(folder / "sound", names)
    _arm()
    # Descriptors and address space are bounded, so that a claim of 2^40 items fails here and not the machine.
    resource.setrlimit(resource.RLIMIT_AS, (32 << 30, resource.RLIM_INFINITY))
    with (folder / "log").open("a", encoding="utf-8", buffering=1) as log:
        for index in indices:
            log.write(json.dumps({"begin": index}) + "\n")
            finding = try_input(inputs, seed, index)
            if finding is not None:
                log.write(json.dumps({"finding": vars(finding)}, ensure_ascii=True) + "\n")


def _arm() -> None:
    def late(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, late)


def _begin_peak() -> int:
    """The memory held now. Linux begins its record of the largest anew; elsewhere only a new height counts."""
    if _OWN_PEAK.exists():
        # The peak of `getrusage` outlives `exec`: a child of a large process would begin with its parent's.
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _peak_bytes()


def _peak_bytes() -> int:
    """The largest memory that this process held."""
    if _OWN_PEAK.exists():
        [line] = [line for line in _OWN_PEAK.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


_OWN_PEAK: Final = Path("/proc/self/status")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="default: the clock")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--hours", type=float, help="go on for so long, whatever --count says")
    parser.add_argument("--only", type=int, help="one input, in this process, with its traceback")
    parser.add_argument("--target", action="append", default=[], choices=[target.name for target in TARGETS])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    if given.child is not None:
        _child(given.child, seed, range(given.first, given.first + given.count), given.target)
        return 0
    if given.only is not None:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
            _arm()
            finding = try_input(Inputs(Path(scratch) / "sound", given.target), seed, given.only)
            print(finding or "read, or refused as it should be")
            print(finding.trace if finding else "", end="")
        return int(finding is not None)
    print(f"seed {seed}", flush=True)
    begun = time.monotonic()
    found: Counter[str] = Counter()
    done = given.first
    while done == given.first or (given.hours and time.monotonic() - begun < given.hours * 3600):
        for finding in fuzz(seed, range(done, done + given.count), given.target, processes=given.processes):
            print(finding, flush=True)
            found[f"{finding.target}: {finding.what.partition(':')[0]}"] += 1
        done += given.count
        print(f"{done:,} inputs in {time.monotonic() - begun:.0f} s, {found.total()} findings", flush=True)
    for kind, count in found.most_common():
        print(f"{count:6d}  {kind}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
