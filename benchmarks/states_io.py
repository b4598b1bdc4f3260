"""Direct reads and streamed writes of a states array, against the simplest way to move the same bytes.

Baselines, measured in the same run with the page cache warm for all and the order alternating:
  read   np.copyto from a fresh np.memmap of the raw bytes into the same buffer; nothing is verified
  write  os.write of the same pieces to one file
Both sides leave durability to the operating system. zarr-python 3 reads and writes the same array for
comparison. Ratios above 1 are faster than the baseline; the best of the repeats counts, because other
work on the machine only ever slows a repeat down.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr

from inkplex_data.store.arrays.states_write import StatesReader, StatesWriter

PIECE_ROWS = 512
ZARR_APPEND_ROWS = 4_096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--tokens", type=int, default=40_000, help="rows of the array (40,000 are 983 MB)")
    parser.add_argument("--width", type=int, default=4_096)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; the temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="states-io-", dir=options.folder) as folder:
        figures = measure(Path(folder), options.tokens, options.width, options.repeat)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{figures['megabytes']:,.0f} MB of states, best of {options.repeat}, GB/s (median in brackets)")
    for name, speed in figures["gigabytes_per_s"].items():
        print(f"  {name:<34}{speed['best']:6.2f}  [{speed['median']:.2f}]")
    print(f"direct read over memmap  {figures['direct_read_over_memmap']:.2f}   (target 0.9)")
    print(f"direct write over raw    {figures['direct_write_over_raw']:.2f}   (target 0.5)")


def measure(folder: Path, tokens: int, width: int, repeat: int) -> dict:
    rng = np.random.default_rng(0)
    states = rng.integers(0, 2**16, (tokens, 3, width), dtype=np.uint16)
    out = np.empty_like(states)
    raw, array, other = folder / "raw.bin", folder / "states", folder / "zarr-python"

    def write_raw() -> None:
        file = os.open(raw, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for start in range(0, tokens, PIECE_ROWS):
            piece = memoryview(states[start : start + PIECE_ROWS]).cast("B")
            while piece:
                piece = piece[os.write(file, piece) :]
        os.close(file)

    def write_direct() -> None:
        with StatesWriter(array, width) as writer:
            for start in range(0, tokens, PIECE_ROWS):
                writer.append(states[start : start + PIECE_ROWS])

    def write_zarr() -> None:
        zarr_array(other, tokens, width)[:] = states

    def append_zarr() -> None:
        target = zarr_array(other, ZARR_APPEND_ROWS, width)
        for start in range(0, ZARR_APPEND_ROWS, PIECE_ROWS):
            target[start : start + PIECE_ROWS] = states[start : start + PIECE_ROWS]

    def read_memmap() -> None:
        np.copyto(out, np.memmap(raw, np.uint16, "r", shape=states.shape))

    def read_direct() -> None:
        with StatesReader(array) as reader:
            reader.read_rows(0, tokens, out)

    def read_zarr() -> None:
        zarr.open_array(array, mode="r").get_basic_selection(slice(None))

    whole, part = states.nbytes, min(tokens, ZARR_APPEND_ROWS) * 3 * width * 2
    writes = {"raw write": write_raw, "direct write": write_direct}
    written = alternate(writes, repeat, whole, remove=[raw, array])
    written["zarr-python write, whole"] = alternate({"": write_zarr}, 1, whole, remove=[other])[""]
    if tokens >= ZARR_APPEND_ROWS:
        name = f"zarr-python append, {PIECE_ROWS} rows"
        written[name] = alternate({"": append_zarr}, 1, part, remove=[other])[""]
    write_raw()
    write_direct()
    reads = {"memmap copy": read_memmap, "direct read, verified": read_direct}
    read = alternate(reads, repeat, whole, check=lambda: np.array_equal(out[::97], states[::97]))
    read["zarr-python read, verified"] = alternate({"": read_zarr}, 2, whole)[""]
    speeds = {
        name: {"best": max(all_), "median": statistics.median(all_)}
        for name, all_ in (written | read).items()
    }
    return {
        "direct_read_over_memmap": speeds["direct read, verified"]["best"] / speeds["memmap copy"]["best"],
        "direct_write_over_raw": speeds["direct write"]["best"] / speeds["raw write"]["best"],
        "zarr_read_over_memmap": speeds["zarr-python read, verified"]["best"] / speeds["memmap copy"]["best"],
        "zarr_write_over_raw": speeds["zarr-python write, whole"]["best"] / speeds["raw write"]["best"],
        "megabytes": whole / 1e6,
        "gigabytes_per_s": speeds,
    }


def alternate(
    runs: dict[str, Callable[[], None]],
    repeat: int,
    size: int,
    *,
    remove: list[Path] | None = None,
    check: Callable[[], bool] | None = None,
) -> dict[str, list[float]]:
    """GB/s of each run, `repeat` times, the order turned round every time. `remove` before and after."""
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeat + 1):
        for name in list(runs)[:: 1 if turn % 2 else -1]:
            clear(remove or [])
            start = time.perf_counter()
            runs[name]()
            seconds = time.perf_counter() - start
            clear(remove or [])
            if check is not None and not check():
                raise SystemExit(f"{name} did not give the bytes that were written")
            # The first turn warms the page cache and the allocator.
            if turn or repeat == 1:
                speeds[name].append(size / seconds / 1e9)
    return speeds


def clear(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def zarr_array(path: Path, tokens: int, width: int) -> zarr.Array:
    return zarr.create_array(
        path,
        shape=(tokens, 3, width),
        chunks=(64, 3, width),
        shards=(8_192, 3, width),
        dtype="uint16",
        compressors=[zarr.codecs.Crc32cCodec()],
        filters=None,
        config={"write_empty_chunks": True},
        overwrite=True,
    )


if __name__ == "__main__":
    main()
