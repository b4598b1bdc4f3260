"""The order of samples as arithmetic: nothing is shuffled in memory, and nothing is remembered but a count.

Sample `index` of an epoch is a pure function of (seed, epoch, index), whatever the number of ranks and
workers. Ranks take turns at the indices from where a run stands, so a count of consumed samples is all that
a resumed run needs, on any number of ranks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from inkplex_data.errors import UsageError

_ROUNDS = 8
_MASK64 = 2**64 - 1


def keyed(words: int, *parts: object) -> list[int]:
    """`words` 64-bit numbers that depend on nothing but `parts`; far apart for parts that are close."""
    text = "\0".join(map(str, parts)).encode()
    digest = hashlib.shake_128(text).digest(8 * words)
    return [int.from_bytes(digest[at : at + 8], "little") for at in range(0, len(digest), 8)]


class Permutation:
    """A pseudo-random bijection of 0 … size − 1 in constant memory.

    A balanced Feistel network over the least even number of bits that holds `size`, walked until it lands
    inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002): four steps at worst on average.
    """

    def __init__(self, size: int, *key: object) -> None:
        if size < 0:
            raise ValueError(f"nothing has {size} elements")
        self.size = size
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._low = (1 << self._half) - 1
        self._keys = keyed(_ROUNDS, "permutation", size, *key)

    def __getitem__(self, index: int) -> int:
        """Where `index` goes. Raises IndexError outside 0 … size − 1."""
        if not 0 <= index < self.size:
            raise IndexError(f"{index} is not one of {self.size} places")
        value = self._round_trip(index)
        while value >= self.size:
            value = self._round_trip(value)
        return value

    def _round_trip(self, value: int) -> int:
        left, right = value >> self._half, value & self._low
        for key in self._keys:
            left, right = right, left ^ (_mix(right ^ key) & self._low)
        return left << self._half | right


def _mix(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every input bit moves every output bit."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK64
    return value ^ value >> 31


@dataclass(frozen=True)
class Draw:
    """Sample `index` of lap `lap` over source `source`, before shuffling within that lap."""

    source: int
    lap: int
    index: int


class Mixture:
    """How several sources of `sizes` samples share an epoch.

    Without weights each source gives all its samples once. With weights, samples come in their proportion, and
    the epoch is the shortest in which every sample comes at least once; sources that are too small for their
    weight are gone through again, evenly, over epochs too. In every stretch of an epoch each source has
    its share, to within one sample for each source.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float] | None = None) -> None:
        """Raises UsageError for weights that are not as many positive numbers as there are sources."""
        self.sizes = list(sizes)
        if weights is None:
            self.counts = list(sizes)
        else:
            if len(weights) != len(sizes) or not all(0 < weight < float("inf") for weight in weights):
                raise UsageError(
                    f"a mix of {len(sizes)} stores needs that many weights above 0, got {list(weights)}"
                )
            shares = [Fraction(weight) for weight in weights]
            scale = max(size / share for size, share in zip(sizes, shares, strict=True))
            self.counts = [max(size, round(share * scale)) for size, share in zip(sizes, shares, strict=True)]
        self.total = sum(self.counts)

    def draw(self, epoch: int, index: int) -> Draw:
        """The sample at `index` of `epoch`. Raises IndexError outside 0 … total − 1."""
        if not 0 <= index < self.total:
            raise IndexError(f"{index} is not one of the {self.total} samples of an epoch")
        left = self.total
        for source, count in enumerate(self.counts):
            # Source by source, index i of what is left belongs to this source where floor(i·count/left) rises.
            before = index * count // left
            if (index + 1) * count // left > before:
                nth = epoch * count + before
                return Draw(source, nth // self.sizes[source], nth % self.sizes[source])
            index -= before
            left -= count
        raise AssertionError("the last source takes every index that is left")


@dataclass(frozen=True)
class SampleGroup:
    """Samples [first, stop) of an epoch, which all ranks go through together; `own` are one rank's."""

    first: int
    stop: int
    own: range


def sample_groups(start: int, total: int, *, rank: int, world_size: int, size: int) -> Iterator[SampleGroup]:
    """Groups of `size` samples from `start` to the end of an epoch of `total`; the last may be shorter.

    Rank r of R takes the samples r, r + R, … of each group, so ranks differ by one sample at most, and a rank
    may have none of a short last group.
    """
    for first in range(start, total, size):
        stop = min(first + size, total)
        yield SampleGroup(first, stop, range(first + rank, stop, world_size))


def share(size: int, rank: int, world_size: int) -> int:
    """Samples that one rank takes of a group of `size`."""
    return len(range(rank, size, world_size))
