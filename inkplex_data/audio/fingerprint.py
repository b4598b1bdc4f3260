"""A fingerprint of a call's sound that lossy coding, resampling, gain and exchanged channels leave recognisable.

Peaks of the spectrum survive all of these (A. Wang, "An industrial-strength audio search algorithm", 2003). Pairs of
them are hashed together with the time at which they come, and of all hashes the smallest are kept: a fair sample of the
whole call, in which two calls that share their hold music share only what lies in its time. Beside them stands the
course of the level, which tells sounds of the same tones apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.levels import to_db

LEAST_HZ: Final = 16_000
WINDOW_S: Final = 0.064
HOP_S: Final = 0.032
BAND_HZ: Final = (250.0, 3_400.0)
"""What a telephone lets through."""
TIME_S: Final = 2.0
"""The time that goes into a hash is as coarse as this, since encoders put a little before the sound."""
KEPT: Final = 256
ENTRY: Final = np.dtype([("hash", "<u4"), ("time", "<u2")])
"""One hash, and its time in units of TIME_S."""
LEVELS: Final = 32
"""Parts of equal length whose levels a fingerprint begins with, one byte each: quarters of a decibel above WEAKEST_DB."""
WEAKEST_DB: Final = -30.0
"""Below the loudest part; what is weaker is noise, which codecs change."""
_NEAR_BINS: Final = 7
_NEAR_FRAMES: Final = 4
"""A peak is the loudest of so many bins, 16 Hz each, and frames on either side."""
_ABOVE: Final = 4.0
"""By what factor it exceeds the mean of its frame."""
_FLOOR: Final = 1e-3
_PAIRS: Final = 3
_LONGEST_PAIR_FRAMES: Final = 31
_BATCH_FRAMES: Final = 512

Entries = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """`levels` uint8 [LEVELS], `hashes` ENTRY records in order; both empty where there was nothing to tell it by."""

    levels: npt.NDArray[np.uint8]
    hashes: Entries

    @classmethod
    def of(cls, data: bytes | None) -> Fingerprint:
        """Read what `FingerprintMeter.fingerprint` gives; None is that of a store that keeps none."""
        data = data or b""
        return cls(np.frombuffer(data[:LEVELS], np.uint8), np.frombuffer(data[LEVELS:], ENTRY))


class FingerprintMeter:
    """Takes in both channels of a call at one rate, in blocks of any sizes. Keeps four bytes for each 32 ms."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._thin = max(sample_rate_hz // LEAST_HZ, 1)
        rate_hz = sample_rate_hz / self._thin
        self._window = np.hanning(round(WINDOW_S * rate_hz)).astype(np.float32)
        self._hop_samples = HOP_S * rate_hz
        self._bins = slice(*(round(hz * WINDOW_S) for hz in BAND_HZ))
        self._mean = np.full(self._thin, 0.5 / self._thin, np.float32)
        self._rest = np.zeros(0, np.float32)
        self._kept = np.zeros(0, np.float32)
        self._kept_from = self._next_frame = 0
        self._spectra = np.zeros((0, self._bins.stop - self._bins.start), np.float32)
        self._peaks = np.zeros((0, 2), np.int64)
        self._found = np.zeros(0, ENTRY)
        self._powers = [np.zeros(0, np.float32)]

    def update(self, first: Samples, second: Samples) -> None:
        """Take in float32 [n] of both channels; what one lacks is silent. Their sum is the same when they are exchanged."""
        n = max(len(first), len(second))
        mixed = np.zeros(n, np.float32)
        mixed[: len(first)] += first
        mixed[: len(second)] += second
        joined = np.concatenate([self._rest, mixed])
        whole = len(joined) - len(joined) % self._thin
        self._rest = joined[whole:]
        self._kept = np.concatenate([self._kept, joined[:whole].reshape(-1, self._thin) @ self._mean])
        batch = round(_BATCH_FRAMES * self._hop_samples)
        while len(self._kept) >= batch + len(self._window):
            self._take(_BATCH_FRAMES)

    def fingerprint(self) -> bytes:
        """What has passed: LEVELS bytes, then ENTRY records in order; empty where there was nothing to tell it by."""
        left = len(self._kept) - len(self._window)
        if left >= 0:
            self._take(int(left / self._hop_samples))
        powers = np.concatenate(self._powers)
        if not len(self._found) or len(powers) < LEVELS:
            return b""
        starts = np.arange(LEVELS) * len(powers) // LEVELS
        levels_db = to_db(np.add.reduceat(powers, starts) / np.diff(starts, append=len(powers)))
        above = np.clip(levels_db - levels_db.max(), WEAKEST_DB, 0.0) - WEAKEST_DB
        return np.round(4 * above).astype(np.uint8).tobytes() + self._found.tobytes()

    def _take(self, frames: int) -> None:
        """Spectra of the next frames, as many as there are samples for, and the peaks that they complete."""
        starts = np.round((self._next_frame + np.arange(frames)) * self._hop_samples).astype(np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(self._kept, len(self._window))
        cut = windows[starts - self._kept_from] * self._window
        spectra = np.abs(np.fft.rfft(cut, axis=1)[:, self._bins]).astype(np.float32)
        self._powers.append(np.square(spectra).mean(axis=1))
        first = self._next_frame - len(self._spectra)
        self._next_frame += frames
        used = round(self._next_frame * self._hop_samples) - self._kept_from
        self._kept, self._kept_from = self._kept[used:], self._kept_from + used
        spectra = np.concatenate([self._spectra, spectra])
        self._spectra = spectra[-2 * _NEAR_FRAMES :]
        if len(spectra) > 2 * _NEAR_FRAMES:
            self._add(_peaks(spectra) + np.array([first, 0]))

    def _add(self, peaks: npt.NDArray[np.int64]) -> None:
        """Pair each peak (frame, bin), in order, with the ones before it, and keep the smallest hashes."""
        peaks = np.concatenate([self._peaks, peaks])
        known = len(self._peaks)
        self._peaks = peaks[-_PAIRS:]
        hashes, times = [self._found["hash"]], [self._found["time"]]
        for back in range(1, _PAIRS + 1):
            later = np.arange(max(known, back), len(peaks))
            (frame, high), (before, low) = peaks[later].T, peaks[later - back].T
            apart = frame - before
            near = apart <= _LONGEST_PAIR_FRAMES
            time = np.minimum(before * HOP_S / TIME_S, 0xFFFF).astype(np.uint64)
            key = ((time << 9 | high.astype(np.uint64) >> 1) << 9 | low.astype(np.uint64) >> 1) << 5
            hashes.append(_mixed(key | np.minimum(apart, 31).astype(np.uint64))[near])
            times.append(time[near].astype(np.uint16))
        unique, places = np.unique(np.concatenate(hashes), return_index=True)
        self._found = np.zeros(min(len(unique), KEPT), ENTRY)
        self._found["hash"] = unique[:KEPT]
        self._found["time"] = np.concatenate(times)[places[:KEPT]]


def _peaks(spectra: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """(frame, bin) of the peaks within `spectra` [F, B] that have all their neighbours in time, in order."""
    wide = np.pad(spectra, ((0, 0), (_NEAR_BINS, _NEAR_BINS)))
    loudest = np.lib.stride_tricks.sliding_window_view(wide, 2 * _NEAR_BINS + 1, axis=1).max(axis=2)
    loudest = np.lib.stride_tricks.sliding_window_view(loudest, 2 * _NEAR_FRAMES + 1, axis=0).max(axis=2)
    inner = spectra[_NEAR_FRAMES:-_NEAR_FRAMES]
    clear = np.maximum(_ABOVE * inner.mean(axis=1, keepdims=True), _FLOOR)
    return np.argwhere((inner == loudest) & (inner > clear)) + np.array([_NEAR_FRAMES, 0])


def _mixed(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """32 well-mixed bits of each key: the finaliser of SplitMix64."""
    mixed = keys * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    return ((mixed ^ mixed >> np.uint64(31)) >> np.uint64(32)).astype(np.uint32)
