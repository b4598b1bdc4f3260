"""Statistics of one decoding pass over the two channels of a call, and the faults that they show."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.activity import LevelMeter
from inkplex_data.audio.band import BandMeter, is_telephony
from inkplex_data.audio.bleed import Bleed, BleedMeter
from inkplex_data.audio.copies import Copy, CopyMeter
from inkplex_data.audio.files.audio_source import AudioSource
from inkplex_data.audio.files.blocks import BlockReader, Span
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.levels import to_db
from inkplex_data.clock import (
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    frames_of_samples,
    resampled_samples,
    samples_to_us,
)
from inkplex_data.problems import ProblemLog, refusal

Side = Literal["agent", "caller"]
SIDES: tuple[Side, Side] = ("agent", "caller")

# Full scale is 1. Above 8 (+18 dBFS) a float file holds integers or garbage, not sound.
MAX_AMPLITUDE = 8.0
# A channel whose swing stays below −60 dBFS around its mean holds at most the idle noise of a telephone line.
SILENCE_AMPLITUDE = 1e-3
# The same sound in both channels at one moment, be it with noise or turned polarity, in recordings that are too short
# or too quiet for `copies`. Copies through lossy codecs and digitised tape correlate above 0.9996, two people in one
# room below 0.95. Where one side is more than 6 dB weaker it is taken for a quiet channel with crosstalk.
DUAL_MONO_CORRELATION = 0.995
DUAL_MONO_LEVEL_DB = 6.0
# Encoder delay and padding that a compressed file's header may count in: two MPEG layer III frames.
CODEC_SLACK_SAMPLES = 2_304
TOLD_SPANS = 8


@dataclass(frozen=True)
class AudioScan:
    """What one decoding pass found. Sample counts are at 24 kHz, `native_samples` at each side's own rate.

    `samples` is that of the longer channel; a stream of the other is padded to it with zeros that are not
    silence but missing, the frame in which it ends included. `sha256` covers the decoded samples and rates of both
    channels, so the same call in another lossless container, or as two mono files, has the same one;
    `exchanged_sha256` is what it would be with the two channels exchanged.
    `band_hz` is the highest frequency that each side uses, None where it is silent. `bleed` is what of each
    side's voice the other side's channel holds, None where nothing can be told from chance. `levels_db` are dBFS of
    steps of 10 ms, float32 [steps], as `audio.activity.LevelMeter` measures them at the native rate. `holes` are the
    spans of each side that its file lacks and that zeros fill; they are no silence. `fingerprint` is what the recording
    is recognised by however it is coded (`fingerprint.Fingerprint`).
    Of a single stream the agent's are the samples with all voices, and none are the caller's; `correlation` and
    `bleed` are not measured.
    """

    samples: int
    agent_samples: int
    caller_samples: int
    rates_hz: Mapping[Side, int]
    native_samples: Mapping[Side, int]
    sha256: str
    exchanged_sha256: str
    channel_sha256: Mapping[Side, str]
    silent: Mapping[Side, bool]
    peak: Mapping[Side, float]
    rms_db: Mapping[Side, float]
    correlation: float
    containers: Mapping[Side, str]
    band_hz: Mapping[Side, int | None]
    bleed: Mapping[Side, Bleed | None]
    levels_db: Mapping[Side, npt.NDArray[np.float32]] = field(compare=False)
    holes: Mapping[Side, tuple[Span, ...]]
    fingerprint: bytes

    @property
    def sample_rate_hz(self) -> int:
        """The native rate; where the two files differ, the lower one, which limits the band."""
        return min(self.rates_hz.values())

    @property
    def frames(self) -> int:
        return frames_of_samples(self.samples)


class ChannelStats:
    """Running statistics of one channel."""

    def __init__(self, item: str, sample_rate_hz: int) -> None:
        self.item = item
        self.sample_rate_hz = sample_rate_hz
        self.samples = 0
        self.low, self.high = np.inf, -np.inf
        self.square_sum = 0.0
        self.band = BandMeter(sample_rate_hz)
        self.levels = LevelMeter(sample_rate_hz)
        self._hash = hashlib.sha256()

    def watch(self, blocks: Iterable[Samples], log: ProblemLog) -> Iterator[Samples]:
        """Take in the blocks [n] and hand them on."""
        for block in blocks:
            self.update(block, log)
            yield block

    def update(self, block: Samples, log: ProblemLog) -> None:
        """Take in float32 [n]. Refuses the call at the first sample that cannot be sound."""
        if not len(block):
            return
        low, high = float(block.min()), float(block.max())
        if not (np.isfinite(low) and np.isfinite(high)):  # min and max pass NaN on
            bad = ~np.isfinite(block)
            at = int(np.argmax(bad))
            log.add("audio-not-finite", f"has the value {block[at]} at {self._time(at)}", item=self.item)
        if max(-low, high) > MAX_AMPLITUDE:
            at = int(np.argmax(np.abs(block)))
            log.add(
                "audio-out-of-range", f"has the value {block[at]:,.6g} at {self._time(at)}", item=self.item
            )
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.square_sum += float(np.square(block, dtype=np.float64).sum())
        self.band.update(block)
        self.levels.push(block)
        # + 0 turns −0, which float files can hold, into the 0 that PCM files have.
        self._hash.update(np.ascontiguousarray(block + np.float32(0), "<f4").data)
        self.samples += len(block)

    def _time(self, sample: int) -> str:
        return f"{(self.samples + sample) / self.sample_rate_hz:.3f} s"

    @property
    def peak(self) -> float:
        return max(abs(self.low), abs(self.high)) if self.samples else 0.0

    @property
    def silent(self) -> bool:
        """Whether the channel never swings by more than the threshold; a constant offset is no sound."""
        return not self.samples or (self.high - self.low) / 2 < SILENCE_AMPLITUDE

    @property
    def rms_db(self) -> float:
        return float(to_db(self.square_sum / max(self.samples, 1)))

    @property
    def samples_24k(self) -> int:
        return resampled_samples(self.samples, self.sample_rate_hz, SAMPLE_RATE_HZ)

    def sha256(self) -> str:
        """Over rate and samples, little-endian float32."""
        whole = self._hash.copy()
        whole.update(f"@{self.sample_rate_hz}".encode())
        return whole.hexdigest()


class PairStats:
    """Running correlation, level difference and bleed of two channels at one rate: agent, then caller."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._sums = np.zeros(6, np.float64)  # n, Σa, Σb, Σa², Σb², Σab
        self._bleed = BleedMeter(sample_rate_hz)
        self._copies = CopyMeter(sample_rate_hz)

    def update(self, a: Samples, b: Samples) -> None:
        n = min(len(a), len(b))
        x, y = a[:n].astype(np.float64), b[:n].astype(np.float64)
        self._sums += np.array([n, x.sum(), y.sum(), x @ x, y @ y, x @ y])
        self._bleed.update(a, b)
        self._copies.update(a, b)

    def _variances(self) -> tuple[float, float, float]:
        n, a, b, aa, bb, ab = self._sums.tolist()
        n = max(n, 1.0)
        return max(aa / n - (a / n) ** 2, 0.0), max(bb / n - (b / n) ** 2, 0.0), ab / n - a * b / n**2

    @property
    def correlation(self) -> float:
        """Pearson correlation; 0 where a channel is constant."""
        a, b, ab = self._variances()
        return ab / (a * b) ** 0.5 if a > 0 and b > 0 else 0.0

    @property
    def level_difference_db(self) -> float:
        a, b, _ = self._variances()
        return float(to_db(a) - to_db(b))

    def bleed(self) -> dict[Side, Bleed | None]:
        """What of each side's voice the other side's channel holds."""
        return {side: self._bleed.bleed(index) for index, side in enumerate(SIDES)}

    @property
    def is_dual_mono(self) -> bool:
        return self.copy() is not None

    def copy(self) -> Copy | None:
        """How the caller's channel is a copy of the agent's, None where it is none."""
        found = self._copies.copy()
        if found is None and (
            abs(self.correlation) >= DUAL_MONO_CORRELATION
            and abs(self.level_difference_db) <= DUAL_MONO_LEVEL_DB
        ):
            return Copy(abs(self.correlation), 0.0, -self.level_difference_db)
        return found


def report_length(source: AudioSource, reader: BlockReader, log: ProblemLog) -> None:
    """Compare what a file declares with what was decoded, and report how decoding ended."""
    item, rate = str(source.path), source.sample_rate_hz
    decoded, declared = reader.samples, source.declared_samples
    if source.tracks > 1:
        log.add("audio-extra-tracks", f"holds {source.tracks} audio tracks; the first is used", item=item)
    if reader.holes:
        lost = sum(end - start for start, end in reader.holes) / rate
        what = f"lacks {lost:.3f} s inside ({_spans(reader.holes, rate)}); silence without loss stands there"
        log.add("audio-damaged", what, item=item, at_us=samples_to_us(reader.holes[0][0], rate))
    if reader.overlaps:
        spans = [(start, start + samples) for start, samples in reader.overlaps]
        left_out = sum(samples for _, samples in reader.overlaps) / rate
        what = f"goes back in time by {left_out:.3f} s ({_spans(spans, rate)}); what came again is left out"
        log.add("audio-overlap", what, item=item, at_us=samples_to_us(reader.overlaps[0][0], rate))
    if not reader.recoverable:
        raise refusal("audio-damaged", f"breaks off inside at {decoded / rate:.3f} s ({reader.fault})", item)
    reason = reader.fault or source.cut
    if reason is not None and (declared is None or declared <= decoded or source.is_placeholder):
        told = f"ends after {decoded / rate:.3f} s ({reason})"
        log.add("audio-truncated", told, item=item, at_us=samples_to_us(decoded, rate))
        return
    if declared is None or declared == decoded:
        return
    found = f"declares {declared:,} samples, {decoded:,} decode"
    missing = declared - decoded
    if reason is None and (source.is_placeholder or missing <= slack_samples(source)):
        if not source.is_rounded or -missing > slack_samples(source):
            log.add("audio-length-differs", f"{found}; all of those are used", item=item)
    elif source.container.startswith("OGG") and source.cut is None:
        # Ogg's last page tells the true length, so what is missing is missing in the middle.
        raise refusal("audio-damaged", f"{found}; {missing / rate:.3f} s are missing inside", item)
    else:
        told = f"{found}{f' ({reason})' if reason else ''}"
        log.add("audio-truncated", told, item=item, at_us=samples_to_us(decoded, rate))


def _spans(spans: Sequence[Span], rate_hz: int) -> str:
    """The first few spans in seconds."""
    told = [f"{start / rate_hz:.3f} to {end / rate_hz:.3f} s" for start, end in spans[:TOLD_SPANS]]
    more = [f"{len(spans) - TOLD_SPANS} more"] if len(spans) > TOLD_SPANS else []
    return ", ".join(told + more)


def slack_samples(source: AudioSource) -> int:
    """By how many samples what a file declares and what decodes may differ."""
    return 0 if source.is_lossless else CODEC_SLACK_SAMPLES


def report_channels(channels: Sequence[ChannelStats], pair: PairStats | None, log: ProblemLog) -> None:
    """Report what finished channels show: too short, silent, one sound twice, unequal lengths.

    `channels`: agent and caller, or the one there is. `pair`: both together; None where they go into one stream.
    """
    for stats in channels:
        if stats.samples_24k < FRAME_SAMPLES:
            log.add(
                "audio-too-short",
                f"has {stats.samples:,} samples, {1000 * stats.samples / stats.sample_rate_hz:.1f} ms; one frame is 80 ms",
                item=stats.item,
            )
    if all(stats.silent for stats in channels):
        peaks = " and ".join(f"{stats.peak:.2g}" for stats in channels)
        log.add("audio-both-silent", f"peaks are {peaks} of full scale", item=channels[0].item)
    for stats in channels:
        if stats.silent:
            log.add("audio-silent-channel", f"never exceeds {stats.peak:.2g} of full scale", item=stats.item)
    for stats in channels:
        band_hz = stats.band.band_hz()
        if band_hz is not None and is_telephony(band_hz) and not stats.silent:
            log.add(
                "audio-band-limited",
                f"holds nothing above {band_hz / 1000:.2f} kHz (sampled at {stats.sample_rate_hz:,} Hz)",
                item=stats.item,
            )
    copy = pair.copy() if pair is not None and not any(stats.silent for stats in channels) else None
    if copy is not None:
        log.add(
            "audio-dual-mono",
            f"agent and caller correlate at {copy.likeness:.5f}; the caller's channel is {abs(copy.delay_ms):.2f} ms "
            f"{'earlier' if copy.delay_ms < 0 else 'later'} and {abs(copy.level_db):.1f} dB "
            f"{'louder' if copy.level_db > 0 else 'weaker'}",
            item=channels[0].item,
        )
    for side, found in pair.bleed().items() if pair is not None else ():
        if found is not None and found.audible:
            other = "caller" if side == "agent" else "agent"
            order = "earlier" if found.delay_ms < 0 else "later"
            log.add(
                "audio-bleed",
                f"the {side}'s voice is on the {other}'s channel, {-found.level_db:.1f} dB below its own and "
                f"{abs(found.delay_ms):.1f} ms {order}",
                item=channels[side == "agent"].item,
            )
    lengths_s = [stats.samples_24k / SAMPLE_RATE_HZ for stats in channels]
    if len(set(lengths_s)) > 1:
        log.add(
            "audio-channel-lengths",
            f"agent has {lengths_s[0]:.3f} s, caller {lengths_s[1]:.3f} s",
            item=min(channels, key=lambda stats: stats.samples_24k).item,
        )
