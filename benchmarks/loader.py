"""The loader, end to end into tensors, against raw verified direct reads of the same bytes.

Baseline, measured in the same run with the page cache warm for both and the order alternating: as many threads
as the loader has workers read the states that the batches hold with `StatesReader.read_rows`, each into one
buffer that it uses again, and nothing else. Speeds count bytes of states for all. The best of the repeats
counts, because other work on the machine only ever slows a repeat down.

Without a STORE one is made, with random states, of calls as long as a memory's window. With --tokens 2500 the
loader's tables, which the baseline does not read, take a third of the time. `datasets` (Arrow) and `litdata` read the same batches where they
are installed, without any check, and their states are copied from the mapped file into memory that is used again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import torch

from inkplex_data.clock import FRAME_US
from inkplex_data.grid import KINDS, MASK_ALL, PAD, STATE_ROWS
from inkplex_data.loader import Loader, make_loader
from inkplex_data.memory.tables import TOKENS
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.store.arrays.states_write import StatesReader
from inkplex_data.store.describe import write_description
from inkplex_data.store.index import rebuild_index
from inkplex_data.store.reader import Store
from inkplex_data.store.shard import CallPart, CallShardWriter, PrefixShardWriter, RecordingShardWriter
from inkplex_data.store.snapshot import publish_snapshot

LOADER, RAW = "loader", "raw verified reads"
PREFIX_FRAMES = 60
TARGET = 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("store", nargs="?", type=Path, help="measure on this store; one is made by default")
    parser.add_argument("--split", default="train")
    parser.add_argument("--megabytes", type=int, default=2_000, help="states of the made store")
    parser.add_argument("--tokens", type=int, default=40_000, help="of each made call (983 MB)")
    parser.add_argument("--frames", type=int, default=3_750, help="of each made call (5 minutes)")
    parser.add_argument("--width", type=int, default=4_096)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch-megabytes", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--no-others", action="store_true", help="leave out datasets and litdata")
    parser.add_argument("--folder", type=Path, help="where to write; the temporary folder by default")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(json.dumps(growth(options)))
        return
    with tempfile.TemporaryDirectory(prefix="loader-", dir=options.folder) as folder:
        if options.store is None:
            options.store = Path(folder) / "store"
            make_store(options.store, options)
        figures = measure(options, Path(folder))
    print(json.dumps(figures, indent=2) if options.json else describe(figures))


def describe(figures: dict) -> str:
    lines = [
        f"{figures['calls']} calls, {figures['megabytes']:,.0f} MB of states, {figures['workers']} workers; "
        "GB/s, best (median in brackets)"
    ]
    for name, speed in figures["gigabytes_per_s"].items():
        lines.append(f"  {name:<34}{speed['best']:6.2f}  [{speed['median']:.2f}]")
    lines += [f"  {name:<34}skipped: {why}" for name, why in figures["skipped"].items()]
    lines += [
        f"loader over raw verified reads    {figures['loader_over_raw']:.2f}   (target {TARGET})",
        f"first batch                       {figures['first_batch_s']:.2f} s   "
        f"(target {figures['one_call_s'] + 1:.2f}: one call's raw read and 1 s)",
    ]
    if figures["peak"] is not None:
        lines.append(
            f"growth over prefetch and 2 calls  {figures['peak']['ratio']:.2f}   "
            f"({figures['peak']['growth_megabytes']:,.0f} of {figures['peak']['bound_megabytes']:,.0f} MB; target 1)"
        )
    return "\n".join(lines)


def measure(options: argparse.Namespace, folder: Path) -> dict:
    loader = loader_of(options.store, options)
    raw = RawReads(loader, options.workers)
    if not raw.spans:
        raise SystemExit(f"no call of split {options.split!r} has states to read")
    runs = {LOADER: lambda: epoch(loader), RAW: raw.all}
    speeds = alternate(runs, options.repeat, raw.size)
    skipped = {}
    for name, library, make in () if options.no_others else OTHERS:
        if importlib.util.find_spec(library) is None:
            skipped[name] = f"{library} is not installed"
        else:
            speeds |= alternate(
                {name: make(loader, folder / library, raw.widest)}, min(options.repeat, 2), raw.size
            )
    loader.close()
    summary = {name: {"best": max(all_), "median": statistics.median(all_)} for name, all_ in speeds.items()}
    return {
        "loader_over_raw": summary[LOADER]["best"] / summary[RAW]["best"],
        "first_batch_s": seconds(lambda: first_batch(options)),
        "one_call_s": seconds(raw.largest),
        "peak": peak_of_another_process(options, max(raw.batch_bytes)),
        "calls": len(raw.batch_bytes),
        "megabytes": raw.size / 1e6,
        "workers": options.workers,
        "gigabytes_per_s": summary,
        "skipped": skipped,
    }


def loader_of(store: Store | Path, options: argparse.Namespace) -> Loader:
    return make_loader(
        store,
        options.split,
        seed=0,
        cut="whole",
        workers=options.workers,
        prefetch_bytes=options.prefetch_megabytes * 10**6,
    )


def epoch(loader: Loader) -> None:
    for _ in loader:
        pass


class RawReads:
    """The verified reads of the states that an epoch hands out, into buffers that are used again."""

    def __init__(self, loader: Loader, threads: int) -> None:
        self.spans: dict[str, tuple[StatesReader, int, int]] = {}
        self.size = 0
        self.batch_bytes: list[int] = []
        store = loader.stores[0]
        self.widest = 0
        for batch in loader:
            self.batch_bytes.append(batch.bytes_)
            if batch.states is not None and batch.states.numel():
                recording = store.recording_row(batch.recording_id)
                first = recording["token_offset"] + batch.first_token
                reader = store.states(recording["shard"])
                self.spans[batch.call_id] = (reader, first, first + len(batch.states))
                values = batch.states.numel()
                self.size += 2 * values
                self.widest = max(self.widest, values)
        self._buffers = [np.zeros(self.widest, np.uint16) for _ in range(max(threads, 1))]

    def all(self) -> None:
        threads = len(self._buffers)
        shares = [list(self.spans.values())[thread::threads] for thread in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._read, shares, self._buffers))

    def largest(self) -> None:
        """One call into memory that was never used, as the first batch of a run goes into."""
        span = max(self.spans.values(), key=lambda span: span[2] - span[1])
        self._read([span], np.empty_like(self._buffers[0]))

    def _read(self, spans: list[tuple[StatesReader, int, int]], buffer: np.ndarray) -> None:
        for reader, start, stop in spans:
            shape = (stop - start, *reader.shape[1:])
            reader.read_rows(start, stop, buffer[: int(np.prod(shape))].reshape(shape))


def alternate(runs: dict[str, Callable[[], None]], repeat: int, size: int) -> dict[str, list[float]]:
    """GB/s of each run, `repeat` times, the order turned round every time, after one turn to warm up."""
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeat + 1):
        for name in list(runs)[:: 1 if turn % 2 else -1]:
            start = time.perf_counter()
            runs[name]()
            if turn:
                speeds[name].append(size / (time.perf_counter() - start) / 1e9)
    return speeds


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def first_batch(options: argparse.Namespace) -> None:
    """From a path to the first batch: the store is opened, checked and indexed."""
    with loader_of(options.store, options) as loader:
        batches = iter(loader)
        next(batches)
        batches.close()


def peak_of_another_process(options: argparse.Namespace, largest_bytes: int) -> dict | None:
    """How far an epoch lets a fresh process grow, over what it may: the prefetch, which is at least one batch, and
    two batches, the one in use and the one that is handed out next."""
    if not Path("/proc/self/status").exists():
        return None
    command = [sys.executable, __file__, str(options.store), "--peak"]
    for name in ("split", "workers", "prefetch_megabytes"):
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    growth = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    bound = max(options.prefetch_megabytes * 1e6, largest_bytes) + 2 * largest_bytes
    return {"growth_megabytes": growth / 1e6, "bound_megabytes": bound / 1e6, "ratio": growth / bound}


def growth(options: argparse.Namespace) -> int:
    """Bytes by which this process grew at most while it went through an epoch."""

    def resident(name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))

    loader = loader_of(options.store, options)
    # Libraries that load with the first read are no part of what a loader holds.
    loader.targets(0)
    before = resident("VmRSS")
    for _ in loader:
        pass
    return resident("VmHWM") - before


def samples(loader: Loader) -> Iterator[dict[str, np.ndarray]]:
    """What other formats store: every tensor of every batch, states as bits."""
    for batch in loader:
        yield {
            name: (value.view(torch.int16) if name == "states" else value).numpy()
            for name, value in batch.tensors()
        }


def datasets_reader(loader: Loader, folder: Path, largest: int) -> Callable[[], None]:
    import datasets

    folder.mkdir()
    with ExitStack() as stack:
        writer = None
        for sample in samples(loader):
            lists = {
                name: pa.LargeListArray.from_arrays([0, v.size], v.ravel()) for name, v in sample.items()
            }
            batch = pa.RecordBatch.from_pydict(lists)
            if writer is None:
                writer = stack.enter_context(pa.ipc.new_stream(str(folder / "calls.arrow"), batch.schema))
            writer.write_batch(batch)
    written = datasets.Dataset.from_file(str(folder / "calls.arrow")).with_format("arrow")
    memory = torch.zeros(largest, dtype=torch.int16)

    def read() -> None:
        for index in range(len(written)):
            row = written[index]  # a table of one row that lies in the mapped file
            states = row.column("states").combine_chunks().flatten().to_numpy()
            memory[: len(states)].numpy()[:] = states

    return read


def litdata_reader(loader: Loader, folder: Path, largest: int) -> Callable[[], None]:
    from litdata import StreamingDataset
    from litdata.streaming.cache import Cache

    warnings.filterwarnings("ignore", message="An item was larger than the target chunk size")
    folder.mkdir()
    cache = Cache(str(folder), chunk_bytes="64MB")
    for number, sample in enumerate(samples(loader)):
        cache[number] = {name: torch.from_numpy(value.copy()) for name, value in sample.items()}
    cache.done()
    cache.merge()
    memory = torch.zeros(largest, dtype=torch.int16)

    def read() -> None:
        for sample in StreamingDataset(str(folder)):
            memory[: sample["states"].numel()] = sample["states"].flatten()

    return read


def make_store(root: Path, options: argparse.Namespace) -> None:
    """Calls of one length, each with a recording of its own whose tokens arrive before and during the call."""
    rng = np.random.default_rng(0)
    calls = max(1, round(options.megabytes * 1e6 / (options.tokens * len(STATE_ROWS) * options.width * 2)))
    write_description(root, {})
    with PrefixShardWriter(root, 0) as prefixes:
        prefixes.add(
            {"prefix_id": "p", "split": "train"},
            {
                "codes": rng.integers(0, 2048, (PREFIX_FRAMES, 16)).astype(np.uint16),
                "text": np.full(PREFIX_FRAMES, PAD, np.int32),
                "role": np.full(PREFIX_FRAMES, 4, np.uint8),
            },
        )
        prefixes.publish()
    memory = {}
    with RecordingShardWriter(root, 0) as recordings:
        for number in range(calls):
            tokens = made_tokens(rng, options)
            clock = SessionClock(options.frames * FRAME_US, 0, options.frames)
            memory[number] = build_versions(tokens, clock)
            recordings.begin({"recording_id": f"r{number}", "state_width": options.width})
            for start in range(0, options.tokens, 512):
                shape = (min(512, options.tokens - start), len(STATE_ROWS), options.width)
                recordings.append_states(rng.integers(0, 2**16, shape, dtype=np.uint16))
            recordings.end(tokens)
        recordings.publish()
    with CallShardWriter(root, 0) as shard:
        for number in range(calls):
            shard.add(made_call(rng, number, options.frames, memory[number]))
        shard.publish()
    publish_snapshot(root)
    rebuild_index(root)


def made_tokens(rng: np.random.Generator, options: argparse.Namespace) -> pl.DataFrame:
    """Half of them have arrived when the call begins, the others come while it lasts."""
    count = options.tokens
    arrival_us = np.sort(rng.integers(0, 2 * options.frames * FRAME_US, count))
    columns = {
        "row": np.arange(count),
        "call": np.zeros(count, np.int32),
        "position": np.arange(count),
        "token_id": np.arange(count),
        "kind": [KINDS[2]] * count,
        "bytes": [b" word"] * count,
        "special": np.zeros(count, bool),
        "arrival_us": arrival_us,
        "rank": np.arange(count),
        "piece_ids": [[5, 6]] * count,
    }
    given = {name: pl.Series(name, value, TOKENS[name], strict=False) for name, value in columns.items()}
    return pl.DataFrame(
        [given.get(name, pl.Series(name, [None] * count, dtype)) for name, dtype in TOKENS.items()]
    )


def made_call(rng: np.random.Generator, number: int, frames: int, versions: pl.DataFrame) -> CallPart:
    return CallPart(
        row={
            "call_id": f"call {number}",
            "split": "train",
            "family": f"family {number}",
            "recording_id": f"r{number}",
            "recording_starts_at_us": frames * FRAME_US,
            "prefix_id": "p",
        },
        streams={
            "codes": rng.integers(0, 2048, (frames, 16)).astype(np.uint16),
            "text": np.full(frames, PAD, np.int32),
            "role": np.zeros(frames, np.uint8),
            "mask": np.full(frames, MASK_ALL, np.uint8),
        },
        versions=versions.with_columns(pl.lit(None, pl.Int64).alias("call_ix")),
    )


OTHERS = (
    ("datasets (Arrow), unverified", "datasets", datasets_reader),
    ("litdata, unverified", "litdata", litdata_reader),
)

if __name__ == "__main__":
    main()
