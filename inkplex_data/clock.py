"""The grid: samples, frames and session microseconds, in exact integers.

One frame is 1,920 samples at 24 kHz, 80 ms, 80,000 µs (seeds/000, "Exact Mimi codec construction").
Stored times are int64 microseconds; floats appear only where JSON comes in or a plot goes out.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 1_920
FRAME_US = 80_000
FRAME_RATE_HZ = 12.5
US_PER_S = 1_000_000

INT64_MAX = 2**63 - 1
UNKNOWN_US = -(2**63)
"""Stands for a time that nobody gave in columns that have no null."""


def frames_of_samples(samples: int) -> int:
    """Frames that a waveform of `samples` 24 kHz samples occupies: ceil(samples / 1,920)."""
    if samples < 0:
        raise ValueError(f"a waveform cannot have {samples} samples")
    return -(-samples // FRAME_SAMPLES)


def samples_to_us(samples: int, sample_rate_hz: int = SAMPLE_RATE_HZ) -> int:
    """Duration of `samples` in microseconds, rounded half up (exact where it divides)."""
    return (2 * samples * US_PER_S + sample_rate_hz) // (2 * sample_rate_hz)


def us_to_samples(us: int, sample_rate_hz: int = SAMPLE_RATE_HZ) -> int:
    """Index of the sample at `us`, rounded half up."""
    return (2 * us * sample_rate_hz + US_PER_S) // (2 * US_PER_S)


def resampled_samples(samples: int, from_hz: int, to_hz: int = SAMPLE_RATE_HZ) -> int:
    """Sample count that `samples` at `from_hz` have at `to_hz`: ceil, so that no sound is cut off."""
    return -(-samples * to_hz // from_hz)


def seconds_to_us(seconds: float | int | str | Decimal) -> int:
    """Microseconds of a number of seconds as JSON spells it, rounded half to even.

    The shortest decimal that reads back as the same float is what the author of a JSON file wrote,
    so 2.32 becomes exactly 2,320,000 although the binary float lies below it.

    Raises ValueError for NaN, infinities, text that is no number, and times outside int64.
    """
    if isinstance(seconds, bool):
        raise ValueError(f"{seconds!r} is not a time in seconds")
    if isinstance(seconds, float) and not math.isfinite(seconds):
        raise ValueError(f"{seconds!r} is not a finite time in seconds")
    try:
        # float() first, so that numpy scalars give their shortest decimal like Python floats do.
        text = repr(float(seconds)) if not isinstance(seconds, (int, str, Decimal)) else seconds
        if isinstance(text, float):
            text = repr(text)
        exact = Decimal(text) * US_PER_S
    except (InvalidOperation, TypeError, ValueError) as error:
        raise ValueError(f"{seconds!r} is not a time in seconds") from error
    if not exact.is_finite():
        raise ValueError(f"{seconds!r} is not a finite time in seconds")
    if abs(exact) > INT64_MAX:
        raise ValueError(f"{seconds!r} s does not fit in 64-bit microseconds")
    return int(exact.to_integral_value())


def us_to_seconds(us: int) -> float:
    """Seconds for JSON and plots; the stored value stays the integer."""
    return us / US_PER_S


def session_us(step: int, *, recording_starts_at_us: int, prefix_frames: int) -> int:
    """Session time of step `step`: every prefix frame reads the call's start (seeds/000, section 9)."""
    return recording_starts_at_us + max(step - prefix_frames, 0) * FRAME_US
