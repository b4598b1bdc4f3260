"""A call's two voices: which file and channel is the agent and which the caller, checked and as 24 kHz streams."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from inkplex_data.audio.call_scan import (
    SIDES,
    AudioScan,
    ChannelStats,
    PairStats,
    Side,
    report_channels,
    report_length,
)
from inkplex_data.audio.files.audio_source import BLOCK_SAMPLES, AudioSource, open_audio
from inkplex_data.audio.files.blocks import BlockReader, Span, rechunk, twice
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.fingerprint import FingerprintMeter
from inkplex_data.audio.resample import StreamResampler, resample
from inkplex_data.clock import SAMPLE_RATE_HZ
from inkplex_data.errors import UsageError
from inkplex_data.problems import ProblemLog, refusal

CHUNK_SAMPLES = 48_000  # 25 frames, the codec's chunk

ChannelSpec: TypeAlias = Mapping[str, int] | Sequence[int]


@dataclass(frozen=True)
class ChannelRef:
    """One channel of one opened file; `channel_index` counts from 0."""

    source: AudioSource
    channel_index: int = 0

    @property
    def path(self) -> Path:
        return self.source.path

    def blocks(self) -> Iterator[Samples]:
        """float32 [n] at the native rate."""
        return _picked(self.source.blocks(), self)

    def samples(self, rate_hz: int | None = None) -> Samples:
        """All of it: float32 [n] at `rate_hz`, by default the native rate. Raises CallRefused."""
        own = np.concatenate([np.zeros(0, np.float32), *self.blocks()])
        return own if rate_hz is None else resample(own, self.source.sample_rate_hz, rate_hz)


@dataclass(frozen=True)
class CallFiles:
    """The opened file of each side; one source for both where they lie in one file."""

    agent: AudioSource
    caller: AudioSource

    @property
    def is_one_file(self) -> bool:
        return self.agent.path == self.caller.path

    def channels(self, channels: ChannelSpec | Any = None) -> CallAudio:
        """Find out which channel holds which voice; reads nothing.

        `channels`: the channel index of each side, as a mapping, an object or a pair (agent, caller). Without
        it the left channel of a two-channel file is the agent and the right one the caller, and each of two
        files is mono.

        Raises CallRefused: audio-mono, audio-channels.
        """
        indices = None if channels is None else _pair(channels, "channels")
        if self.is_one_file:
            indices = _of_one_file(self.agent, indices)
        elif indices is None:
            for side, source in zip(SIDES, (self.agent, self.caller), strict=True):
                if source.channels != 1:
                    raise refusal(
                        "audio-channels",
                        f"is the {side}'s own file and has {source.channels} channels",
                        source.path,
                    )
            indices = (0, 0)
        return CallAudio(_channel(self.agent, int(indices[0])), _channel(self.caller, int(indices[1])))

    def single(self, channels: ChannelSpec | Any = None) -> CallAudio:
        """Everybody in one stream: a one-channel file as it is, else the mean of the two that `channels` names.

        Raises CallRefused: audio-channels.
        """
        if self.is_one_file and self.agent.channels == 1:
            voice = ChannelRef(self.agent)
            return CallAudio(voice, voice, is_single=True)
        return replace(self.channels(channels), is_single=True)


@dataclass(frozen=True)
class CallAudio:
    """Agent and caller of one opened call. Holds no open file, so it can be sent to another process.

    With `is_single` both are parts of one mixture, which is the agent's stream, and there is no caller; a
    one-channel file is both.
    """

    agent: ChannelRef
    caller: ChannelRef
    is_single: bool = False

    @property
    def is_one_file(self) -> bool:
        return self.agent.path == self.caller.path

    @property
    def is_mixed(self) -> bool:
        """Whether two channels make up a single stream."""
        return self.is_single and self.agent != self.caller

    @property
    def _refs(self) -> dict[Side, ChannelRef]:
        """The channels to decode: two, or the one of a one-channel file."""
        if self.is_single and not self.is_mixed:
            return {"agent": self.agent}
        return {"agent": self.agent, "caller": self.caller}

    def scan(self, log: ProblemLog) -> AudioScan:
        """Decode each file once and report every fault of its sound (DESIGN §9) to `log`.

        Memory stays at a few blocks. Two files of unequal rates are compared at 24 kHz.

        Raises CallRefused: audio-not-finite, audio-out-of-range, audio-damaged, audio-too-short,
        audio-both-silent, audio-dual-mono; any repair too where the log is strict.
        """
        stats = {
            side: ChannelStats(f"{ref.path} ({side}, channel {ref.channel_index})", ref.source.sample_rate_hz)
            for side, ref in self._refs.items()
        }
        readers = self._readers(BLOCK_SAMPLES)
        watched = [
            own.watch(blocks, log)
            for own, blocks in zip(stats.values(), self._channels(readers), strict=True)
        ]
        rates_hz = [own.sample_rate_hz for own in stats.values()]
        # What one channel holds of the other matters only where they are to be told apart.
        pair = None if self.is_single else PairStats(rates_hz[0])
        if len(set(rates_hz)) > 1:
            pair = None if self.is_single else PairStats(SAMPLE_RATE_HZ)
            resampled = map(_resampled, watched, rates_hz)
            watched = [rechunk(pieces, CHUNK_SAMPLES) for pieces in resampled]
        fingerprint = FingerprintMeter(SAMPLE_RATE_HZ if len(set(rates_hz)) > 1 else rates_hz[0])
        nothing = np.zeros(0, np.float32)
        for blocks in zip_longest(*watched, fillvalue=nothing):
            if pair is not None:
                pair.update(*blocks)
            fingerprint.update(blocks[0], blocks[1] if len(blocks) > 1 else nothing)
        for ref, reader in zip(self._refs.values(), readers, strict=False):
            report_length(ref.source, reader, log)
        report_channels(list(stats.values()), pair, log)
        return _summary(stats, self, pair, self._holes(readers), fingerprint.fingerprint())

    def _holes(self, readers: Sequence[BlockReader]) -> dict[Side, tuple[Span, ...]]:
        """Spans of each side that its file lacks, at 24 kHz; a mixture lacks a voice where either part has one."""
        agent, caller = (
            tuple(_at_24k(reader.holes, ref.source.sample_rate_hz))
            for ref, reader in zip((self.agent, self.caller), (readers[0], readers[-1]), strict=True)
        )
        return {"agent": (*agent, *caller) if self.is_mixed else agent, "caller": caller}

    def _readers(self, block_samples: int) -> list[BlockReader]:
        """One decoding of each file: the agent's and the caller's, or one for both."""
        sources = [self.agent.source] if self.is_one_file else [self.agent.source, self.caller.source]
        return [source.blocks(block_samples) for source in sources]

    def _channels(self, readers: Sequence[BlockReader]) -> list[Iterator[Samples]]:
        """Agent and caller, float32 [n] at their native rates. To be read in step: what one is ahead is held."""
        refs = self._refs.values()
        blocks = twice(readers[0]) if len(readers) < len(refs) else readers
        return [_picked(*pair) for pair in zip(blocks, refs, strict=True)]

    def streams(
        self, chunk_samples: int = CHUNK_SAMPLES, *, samples: int | None = None
    ) -> Iterator[tuple[Samples, Samples]]:
        """Both voices at 24 kHz in step, from one decoding of each file: (agent, caller), float32 [n] each.

        Chunks have `chunk_samples`, the last one may be shorter; both of a pair are equally long, in flat
        memory. A voice whose file is shorter goes on with zeros. A single stream comes as the agent's, beside zeros.
        `samples` is the length of each stream as `AudioScan.samples` gives it; without it, what the longer
        file holds. Audio at 24 kHz comes through bit for bit, the rest by soxr at very high quality. Looks
        for no faults: that is what `scan` does.

        Raises CallRefused (audio-changed) when a file holds more than `samples`.
        """
        if chunk_samples < 1:
            raise UsageError(f"a stream cannot have chunks of {chunk_samples} samples")
        pieces = (
            _limited(_resampled(blocks, ref.source.sample_rate_hz), samples, ref.path)
            for blocks, ref in zip(
                self._channels(self._readers(CHUNK_SAMPLES)), self._refs.values(), strict=True
            )
        )
        chunks = _evened(rechunk(voice, chunk_samples) for voice in pieces)
        return _mixed(chunks) if self.is_single else ((agent, caller) for agent, caller in chunks)

    def stream(
        self, side: Side, chunk_samples: int = CHUNK_SAMPLES, *, samples: int | None = None
    ) -> Iterator[Samples]:
        """One voice of `streams`."""
        if side not in SIDES:
            raise UsageError(f"there is no stream of {side!r}")
        index = SIDES.index(side)
        return (pair[index] for pair in self.streams(chunk_samples, samples=samples))

    def voice(self, side: Side, rate_hz: int) -> Samples:
        """All of one voice, the mixture in a single stream: float32 [n] at `rate_hz`. Raises CallRefused."""
        if self.is_mixed:
            return resample(np.concatenate(list(self.stream(side))), SAMPLE_RATE_HZ, rate_hz)
        return (self.agent if side == "agent" else self.caller).samples(rate_hz)


def _picked(blocks: Iterable[Samples], ref: ChannelRef) -> Iterator[Samples]:
    return (block[ref.channel_index] for block in blocks)


def _resampled(blocks: Iterable[Samples], rate_hz: int) -> Iterator[Samples]:
    """One channel, float32 [n], at 24 kHz."""
    resampler = StreamResampler(rate_hz)
    for block in blocks:
        yield resampler.push(block)
    yield resampler.finish()


def _limited(pieces: Iterable[Samples], samples: int | None, path: Path) -> Iterator[Samples]:
    """`pieces` [n], then zeros up to `samples`, where that is given; more is an error of the file `path`."""
    done = 0
    for piece in pieces:
        done += len(piece)
        if samples is not None and done > samples:
            raise refusal("audio-changed", f"has more than the {samples:,} samples of its scan", path)
        yield piece
    while samples is not None and done < samples:
        count = min(samples - done, CHUNK_SAMPLES)
        done += count
        yield np.zeros(count, np.float32)


def _evened(voices: Iterable[Iterator[Samples]]) -> Iterator[tuple[Samples, ...]]:
    """Chunks of all voices side by side; the shorter ones are filled with zeros."""
    for chunks in zip_longest(*voices, fillvalue=np.zeros(0, np.float32)):
        length = max(map(len, chunks))
        yield tuple(_filled(chunk, length) for chunk in chunks)


def _mixed(chunks: Iterable[tuple[Samples, ...]]) -> Iterator[tuple[Samples, Samples]]:
    """The mean of all voices, beside zeros."""
    for voices in chunks:
        mean: Samples = np.stack(voices).mean(axis=0, dtype=np.float32)
        yield mean, np.zeros_like(mean)


def _filled(chunk: Samples, length: int) -> Samples:
    return chunk if len(chunk) == length else np.pad(chunk, (0, length - len(chunk)))


def _summary(
    found: Mapping[Side, ChannelStats],
    audio: CallAudio,
    pair: PairStats | None,
    holes: Mapping[Side, tuple[Span, ...]],
    fingerprint: bytes,
) -> AudioScan:
    agent, caller = found["agent"], found.get("caller", found["agent"])
    stats: dict[Side, ChannelStats] = {"agent": agent, "caller": caller}
    digests = {side: stats[side].sha256() for side in SIDES}
    samples = max(agent.samples_24k, caller.samples_24k)
    band_hz = {side: stats[side].band.band_hz() for side in SIDES}
    if audio.is_single:
        band_hz = {
            "agent": max((band for band in band_hz.values() if band is not None), default=None),
            "caller": None,
        }
    return AudioScan(
        samples=samples,
        # Where one of its parts has ended, the mixture may lack a voice.
        agent_samples=min(agent.samples_24k, caller.samples_24k) if audio.is_single else agent.samples_24k,
        caller_samples=0 if audio.is_single else caller.samples_24k,
        rates_hz={side: stats[side].sample_rate_hz for side in SIDES},
        native_samples={side: stats[side].samples for side in SIDES},
        sha256=_pair_sha256(digests["agent"], digests["caller"]),
        exchanged_sha256=_pair_sha256(digests["caller"], digests["agent"]),
        channel_sha256=digests,
        silent={side: stats[side].silent for side in SIDES},
        peak={side: stats[side].peak for side in SIDES},
        rms_db={side: stats[side].rms_db for side in SIDES},
        correlation=pair.correlation if pair is not None else 0.0,
        containers={"agent": audio.agent.source.container, "caller": audio.caller.source.container},
        band_hz=band_hz,
        bleed=pair.bleed() if pair is not None else dict.fromkeys(SIDES),
        levels_db={side: stats[side].levels.levels_db() for side in SIDES},
        holes=holes,
        fingerprint=fingerprint,
    )


def _pair_sha256(agent: str, caller: str) -> str:
    return hashlib.sha256(f"agent {agent}\ncaller {caller}\n".encode()).hexdigest()


def _at_24k(spans: Iterable[Span], rate_hz: int) -> Iterator[Span]:
    """Spans of samples at the native rate as those that they touch at 24 kHz."""
    for start, end in spans:
        yield start * SAMPLE_RATE_HZ // rate_hz, -(-end * SAMPLE_RATE_HZ // rate_hz)


def open_files(audio: Path | Mapping[str, Path] | Any) -> CallFiles:
    """Open a call's audio: find the decoder of each file and read its header, once.

    `audio`: one file, or two under "agent" and "caller" (a mapping or an object with these attributes).
    Raises CallRefused: what `open_audio` raises.
    """
    paths = (Path(audio),) * 2 if isinstance(audio, (str, Path)) else tuple(map(Path, _pair(audio, "audio")))
    agent = open_audio(paths[0])
    return CallFiles(agent, agent if paths[0] == paths[1] else open_audio(paths[1]))


def open_channel(path: Path, channel_index: int = 0) -> ChannelRef:
    """One channel of one file. Raises CallRefused: what `open_audio` raises, audio-channels."""
    return _channel(open_audio(path), channel_index)


def resolve_channels(audio: Path | Mapping[str, Path] | Any, channels: ChannelSpec | Any = None) -> CallAudio:
    """Open a call and find out which file and channel holds which voice: `open_files`, then `CallFiles.channels`."""
    return open_files(audio).channels(channels)


def _channel(source: AudioSource, channel_index: int) -> ChannelRef:
    if not 0 <= channel_index < source.channels:
        raise refusal(
            "audio-channels",
            f"has {source.channels} channel{'s' * (source.channels != 1)}, so none with index {channel_index}",
            source.path,
        )
    return ChannelRef(source, channel_index)


def _of_one_file(source: AudioSource, indices: tuple[Any, Any] | None) -> tuple[Any, Any]:
    if source.channels == 1:
        raise refusal("audio-mono", "has one channel where agent and caller are expected", source.path)
    if indices is None:
        if source.channels > 2:
            what = f"has {source.channels} channels and nothing says which is whose"
            raise refusal("audio-channels", what, source.path)
        return 0, 1
    if indices[0] == indices[1]:
        what = f"gives agent and caller the same channel {indices[0]}"
        raise refusal("audio-channels", what, source.path)
    return indices


def _pair(value: Any, what: str) -> tuple[Any, Any]:
    """(agent, caller) of a mapping, an object with these attributes, or a pair."""
    try:
        if isinstance(value, Mapping):
            return value["agent"], value["caller"]
        if hasattr(value, "agent"):
            return value.agent, value.caller
        agent, caller = value
        return agent, caller
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{what} must name agent and caller, got {value!r}") from error
