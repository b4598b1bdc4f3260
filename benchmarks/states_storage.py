"""Ways to store states: bytes a token, write and read speed, and what is lost, on states of a model.

  bfloat16    as the store has them: a chunk of 64 rows and its CRC32C
  compressed  the same bits, low bytes before high ones, zstd level 3; nothing is lost
  float8      one code (E4M3) a value and one float32 scale a row; the error is that of the rows, and of the rows after the
              LayerNorm with which a memory's writer begins

Everything runs in memory on one thread, so that the speeds are those of the ways and not of a disk. The states are those of
the small untrained Inkling, or of a file of states (--states), whose rows say more.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from inkplex_data.memory.capture.imported_states import open_states_file
from inkplex_data.memory.capture.inkling import load_inkling
from inkplex_data.memory.capture.state_bits import float8_values, from_float32, from_tensor, to_float32

CHUNK_ROWS = 64
LARGEST = 448.0
"""The largest value of E4M3."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--states", type=Path, help="safetensors of states; by default the small model's")
    parser.add_argument("--tokens", type=int, default=2_048)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    bits = stated(options.states) if options.states else computed(options.tokens)
    figures = {name: measure(bits, *way, options.repeat) for name, way in WAYS.items()}
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{len(bits):,} tokens of width {bits.shape[2]}; GB/s of bfloat16 bytes, best of {options.repeat}")
    print(
        f"  {'':<12}{'bytes a token':>14}{'of bfloat16':>13}{'write':>8}{'read':>8}{'rms error':>11}{'after norm':>12}"
    )
    for name, one in figures.items():
        print(
            f"  {name:<12}{one['bytes_a_token']:>14,.0f}{one['of_bfloat16']:>13.3f}{one['write_gb_s']:>8.2f}"
            f"{one['read_gb_s']:>8.2f}{one['rms_error']:>11.2%}{one['rms_error_after_norm']:>12.2%}"
        )


def stated(path: Path) -> np.ndarray:
    """States of a file, uint16 [n, 3, D]."""
    return np.concatenate(list(open_states_file(path, where=path.parent.name).blocks()))


def computed(tokens: int) -> np.ndarray:
    """States that the small model computes for seeded token ids."""
    model = load_inkling("small:0", dtype="bfloat16", device="cpu")
    ids = np.random.default_rng(0).integers(0, model.vocabulary, tokens).astype(np.int32)
    cache = model.new_cache()
    return np.concatenate(
        [from_tensor(model.rows(part, cache)) for part in np.split(ids, range(256, tokens, 256))]
    )


def plain(chunk: np.ndarray) -> bytes:
    data = chunk.tobytes()
    return data + crc32c(data).to_bytes(4, "little")


def from_plain(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    body = memoryview(data)[:-4]
    assert crc32c(body) == int.from_bytes(data[-4:], "little")
    return np.frombuffer(body, np.uint16).reshape(shape)


ZSTD = pa.Codec("zstd", compression_level=3)


def compressed(chunk: np.ndarray) -> bytes:
    planes = np.ascontiguousarray(chunk.reshape(-1).view(np.uint8).reshape(-1, 2).T)
    data: bytes = ZSTD.compress(planes.tobytes(), asbytes=True)
    return data + crc32c(data).to_bytes(4, "little")


def from_compressed(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    body = memoryview(data)[:-4]
    assert crc32c(body) == int.from_bytes(data[-4:], "little")
    size = int(np.prod(shape))
    planes = ZSTD.decompress(body, decompressed_size=2 * size, asbytes=True)
    low, high = np.frombuffer(planes, np.uint8).reshape(2, size).astype(np.uint16)
    return (low | (high << np.uint16(8))).reshape(shape)


VALUES = float8_values("F8_E4M3")
# What lies half way between two values goes to the even code, as rounding to nearest does.
MIDDLES = ((VALUES[:126].astype(np.float64) + VALUES[1:127]) / 2).astype(np.float32)


def float8(chunk: np.ndarray) -> bytes:
    values = to_float32(chunk.tobytes(), "BF16").reshape(chunk.shape)
    size = np.abs(values)
    scale = np.maximum(size.max(axis=2, keepdims=True), np.float32(1e-30)) / np.float32(LARGEST)
    scaled = size / scale
    codes = np.searchsorted(MIDDLES, scaled, side="left").astype(np.uint8)
    tied = (codes < 126) & (scaled == MIDDLES[np.minimum(codes, 125)]) & (codes % 2 == 1)
    codes += tied.astype(np.uint8)
    data = (codes | ((values < 0).astype(np.uint8) << 7)).tobytes() + scale.astype("<f4").tobytes()
    return data + crc32c(data).to_bytes(4, "little")


def from_float8(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    body = memoryview(data)[:-4]
    assert crc32c(body) == int.from_bytes(data[-4:], "little")
    size = int(np.prod(shape))
    scale = np.frombuffer(body[size:], "<f4").reshape(*shape[:2], 1)
    return from_float32(VALUES[np.frombuffer(body[:size], np.uint8)].reshape(shape) * scale)


Write, Read = Callable[[np.ndarray], bytes], Callable[[bytes, tuple[int, ...]], np.ndarray]
WAYS: dict[str, tuple[Write, Read]] = {
    "bfloat16": (plain, from_plain),
    "compressed": (compressed, from_compressed),
    "float8": (float8, from_float8),
}


def measure(bits: np.ndarray, write: Write, read: Read, repeat: int) -> dict[str, float]:
    """Bytes, speeds and errors of one way."""
    chunks = [bits[first : first + CHUNK_ROWS] for first in range(0, len(bits), CHUNK_ROWS)]
    writing, reading = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        stored = [write(chunk) for chunk in chunks]
        writing.append(time.perf_counter() - start)
        start = time.perf_counter()
        back = [read(data, chunk.shape) for data, chunk in zip(stored, chunks, strict=True)]
        reading.append(time.perf_counter() - start)
    a, b = (to_float32(one.tobytes(), "BF16").reshape(bits.shape) for one in (bits, np.concatenate(back)))
    size = sum(map(len, stored))
    return {
        "bytes_a_token": size / len(bits),
        "of_bfloat16": size / bits.nbytes,
        "write_gb_s": bits.nbytes / min(writing) / 1e9,
        "read_gb_s": bits.nbytes / min(reading) / 1e9,
        "rms_error": rms(a, b),
        "rms_error_after_norm": rms(normal(a), normal(b)),
    }


def rms(wanted: np.ndarray, found: np.ndarray) -> float:
    """Root mean square of the difference in parts of that of what was wanted."""
    return float(np.sqrt(np.square(wanted - found).mean() / np.square(wanted).mean()))


def normal(values: np.ndarray) -> np.ndarray:
    """LayerNorm without weights."""
    centred = values - values.mean(axis=2, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis=2, keepdims=True) + 1e-5)


if __name__ == "__main__":
    main()
