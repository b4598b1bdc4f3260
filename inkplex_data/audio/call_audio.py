"""A call's two voices: which file and channel is the agent and which the caller, checked and as 24 kHz streams."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from inkplex_data.audio.call_scan import (
    ROLES,
    AudioScan,
    ChannelStats,
    PairStats,
    Role,
    report_channels,
    report_length,
)
from inkplex_data.audio.files.audio_source import AudioSource, open_audio
from inkplex_data.audio.files.blocks import rechunk
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.files.headerless import RawFormat
from inkplex_data.audio.resample import StreamResampler
from inkplex_data.clock import SAMPLE_RATE_HZ, resampled_samples
from inkplex_data.errors import UsageError
from inkplex_data.problems import ProblemLog, refusal

CHUNK_SAMPLES = 48_000  # 25 frames, the codec's chunk

ChannelSpec: TypeAlias = Mapping[str, int] | Sequence[int]


@dataclass(frozen=True)
class ChannelRef:
    """One channel of one file; `channel_index` counts from 0. `raw`: how to read a file without a header."""

    path: Path
    channel_index: int = 0
    raw: RawFormat | None = None

    def open(self) -> AudioSource:
        """Raises CallRefused where the file cannot be decoded or has no such channel."""
        source = open_audio(self.path, raw=self.raw)
        if not 0 <= self.channel_index < source.channels:
            raise refusal(
                "audio-channels",
                f"has {source.channels} channel{'s' * (source.channels != 1)}, so none with index {self.channel_index}",
                self.path,
            )
        return source

    def blocks(self) -> Iterator[Samples]:
        """float32 [n] at the native rate."""
        for block in self.open().blocks():
            yield block[self.channel_index]


@dataclass(frozen=True)
class CallAudio:
    """Agent and caller of one call. Holds no open file."""

    agent: ChannelRef
    caller: ChannelRef

    def role(self, role: Role) -> ChannelRef:
        return self.agent if role == "agent" else self.caller

    @property
    def is_one_file(self) -> bool:
        return self.agent.path == self.caller.path

    def scan(self, log: ProblemLog) -> AudioScan:
        """Decode each file once and report every fault of its sound (DESIGN §9) to `log`.

        Memory stays at a few blocks. Two files of unequal rates are decoded a second time, resampled, to
        compare them.

        Raises CallRefused: what `open_audio` raises, audio-not-finite, audio-out-of-range, audio-damaged,
        audio-too-short, audio-both-silent, audio-dual-mono; any repair too where the log is strict.
        """
        sources = {role: self.role(role).open() for role in ROLES}
        stats = {
            role: ChannelStats(
                f"{self.role(role).path} ({role}, channel {self.role(role).channel_index})",
                sources[role].sample_rate_hz,
            )
            for role in ROLES
        }
        pair = PairStats(sources["agent"].sample_rate_hz)
        for agent, caller in self._blocks(sources, log):
            stats["agent"].update(agent, log)
            stats["caller"].update(caller, log)
            pair.update(agent, caller)
        if sources["agent"].sample_rate_hz != sources["caller"].sample_rate_hz:
            pair = PairStats(SAMPLE_RATE_HZ)
            for agent, caller in zip(*(self._resampled(role, CHUNK_SAMPLES) for role in ROLES), strict=False):
                pair.update(agent, caller)
        report_channels(stats["agent"], stats["caller"], pair, log)
        return _summary(stats, sources, pair)

    def _blocks(
        self, sources: Mapping[Role, AudioSource], log: ProblemLog
    ) -> Iterator[tuple[Samples, Samples]]:
        """Both channels in step, at their native rates, and a report on each file when it has ended."""
        if self.is_one_file:
            reader = sources["agent"].blocks()
            for block in reader:
                yield block[self.agent.channel_index], block[self.caller.channel_index]
            report_length(sources["agent"], reader, log)
            return
        readers = {role: sources[role].blocks() for role in ROLES}
        for agent, caller in zip_longest(readers["agent"], readers["caller"]):
            yield _pick(agent, self.agent), _pick(caller, self.caller)
        for role in ROLES:
            report_length(sources[role], readers[role], log)

    def stream(
        self, role: Role, chunk_samples: int = CHUNK_SAMPLES, *, samples: int | None = None
    ) -> Iterator[Samples]:
        """One voice at 24 kHz: float32 chunks of `chunk_samples`, the last one shorter, in flat memory.

        The chunks hold exactly `AudioScan.samples` samples in total: where the other file is longer, zeros
        follow, whose frames are `AudioScan.missing_frames`. Pass `samples=scan.samples` to save counting
        the other file. Audio at 24 kHz comes through bit for bit, the rest by soxr at very high quality.
        Looks for no faults: that is what `scan` does.

        Raises CallRefused (audio-changed) when the file holds more than `samples`.
        """
        if role not in ROLES or chunk_samples < 1:
            raise UsageError(f"there is no stream of {role!r} in chunks of {chunk_samples} samples")
        if samples is None:
            samples = 0 if self.is_one_file else self._counted("caller" if role == "agent" else "agent")
            padded = _padded(self._resampled(role, None), samples, None)
        else:
            padded = _padded(self._resampled(role, None), samples, self.role(role).path)
        return rechunk(padded, chunk_samples)

    def _counted(self, role: Role) -> int:
        source = self.role(role).open()
        return resampled_samples(source.count_samples(), source.sample_rate_hz)

    def _resampled(self, role: Role, chunk_samples: int | None) -> Iterator[Samples]:
        ref = self.role(role)
        source = ref.open()
        resampler = StreamResampler(source.sample_rate_hz)

        def pieces() -> Iterator[Samples]:
            for block in source.blocks():
                yield resampler.push(block[ref.channel_index])
            yield resampler.finish()

        return pieces() if chunk_samples is None else rechunk(pieces(), chunk_samples)


def _pick(block: Samples | None, ref: ChannelRef) -> Samples:
    return np.zeros(0, np.float32) if block is None else block[ref.channel_index]


def _padded(pieces: Iterable[Samples], samples: int, limited: Path | None) -> Iterator[Samples]:
    """`pieces`, then zeros up to `samples`. `limited` names the file where more is an error."""
    done = 0
    for piece in pieces:
        done += len(piece)
        if limited is not None and done > samples:
            raise refusal("audio-changed", f"has more than the {samples:,} samples of its scan", limited)
        yield piece
    while done < samples:
        count = min(samples - done, CHUNK_SAMPLES)
        done += count
        yield np.zeros(count, np.float32)


def _summary(
    stats: Mapping[Role, ChannelStats], sources: Mapping[Role, AudioSource], pair: PairStats
) -> AudioScan:
    agent, caller = stats["agent"], stats["caller"]
    digests = {role: stats[role].sha256() for role in ROLES}
    return AudioScan(
        samples=max(agent.samples_24k, caller.samples_24k),
        agent_samples=agent.samples_24k,
        caller_samples=caller.samples_24k,
        rates_hz={role: stats[role].sample_rate_hz for role in ROLES},
        sha256=hashlib.sha256(f"agent {digests['agent']}\ncaller {digests['caller']}\n".encode()).hexdigest(),
        channel_sha256=digests,
        silent={role: stats[role].silent for role in ROLES},
        peak={role: stats[role].peak for role in ROLES},
        rms_db={role: stats[role].rms_db for role in ROLES},
        correlation=pair.correlation,
        containers={role: sources[role].container for role in ROLES},
        band_hz={role: stats[role].band.band_hz() for role in ROLES},
        bleed=pair.bleed(),
    )


def resolve_channels(
    audio: Path | Mapping[str, Path] | Any,
    channels: ChannelSpec | Any = None,
    *,
    raw: RawFormat | None = None,
) -> CallAudio:
    """Find out which file and channel holds which voice; reads the headers only.

    `audio`: one file, or two under "agent" and "caller" (a mapping or an object with these attributes).
    `channels`: the channel index of each role, as a mapping, an object or a pair (agent, caller). Without it
    the left channel of a two-channel file is the agent and the right one the caller, and each of two files
    is mono.

    Raises CallRefused: what `open_audio` raises, audio-mono, audio-channels.
    """
    paths = (Path(audio),) * 2 if isinstance(audio, (str, Path)) else tuple(map(Path, _pair(audio, "audio")))
    indices = None if channels is None else _pair(channels, "channels")
    if paths[0] == paths[1]:
        indices = _of_one_file(paths[0], indices, raw)
    elif indices is None:
        for role, path in zip(ROLES, paths, strict=True):
            count = open_audio(path, raw=raw).channels
            if count != 1:
                raise refusal("audio-channels", f"is the {role}'s own file and has {count} channels", path)
        indices = (0, 0)
    refs = [ChannelRef(path, int(index), raw) for path, index in zip(paths, indices, strict=True)]
    for ref in refs:
        ref.open()
    return CallAudio(*refs)


def _of_one_file(path: Path, indices: tuple[Any, Any] | None, raw: RawFormat | None) -> tuple[Any, Any]:
    count = open_audio(path, raw=raw).channels
    if count == 1:
        raise refusal("audio-mono", "has one channel where agent and caller are expected", path)
    if indices is None:
        if count > 2:
            raise refusal("audio-channels", f"has {count} channels and nothing says which is whose", path)
        return 0, 1
    if indices[0] == indices[1]:
        raise refusal("audio-channels", f"gives agent and caller the same channel {indices[0]}", path)
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
