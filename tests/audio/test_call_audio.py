"""Who is on which channel, and each voice as an exact, flat 24 kHz stream."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.call_audio import CallAudio, ChannelRef, open_channel, resolve_channels
from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.audio.resample import resample
from inkplex_data.clock import resampled_samples
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.problems import ProblemLog
from tests.audio.made import Array, noise, refused_code, save, save_matroska


def whole(call: CallAudio, side: str, chunk_samples: int = 48_000, **options: int) -> Array:
    """One voice; what comes in step with the other one is the same."""
    pairs = list(call.streams(chunk_samples, **options))  # type: ignore[arg-type]
    chunks = list(call.stream(side, chunk_samples, **options))  # type: ignore[arg-type]
    assert all(chunk.dtype == np.float32 and len(chunk) == chunk_samples for chunk in chunks[:-1])
    assert 0 < len(chunks[-1]) <= chunk_samples
    assert all(len(agent) == len(caller) for agent, caller in pairs)
    alone = np.concatenate(chunks)
    assert np.array_equal(np.concatenate([pair[side == "caller"] for pair in pairs]), alone)
    return alone


# --- channels -----------------------------------------------------------------------------------------


def test_left_is_the_agent_and_right_the_caller(tmp_path: Path) -> None:
    path = save(tmp_path / "a.wav", noise(4_000))
    source = open_audio(path)
    assert resolve_channels(path) == CallAudio(ChannelRef(source, 0), ChannelRef(source, 1))
    assert resolve_channels(str(path)) == resolve_channels(path)


@pytest.mark.parametrize(
    "spec", [{"agent": 2, "caller": 0}, (2, 0), [2, 0], SimpleNamespace(agent=2, caller=0)]
)
def test_channels_by_name(tmp_path: Path, spec: object) -> None:
    samples = noise(6_000, 3)
    path = save(tmp_path / "a.wav", samples, 24_000)
    call = resolve_channels(path, spec)
    assert np.array_equal(whole(call, "agent"), samples[2])
    assert np.array_equal(whole(call, "caller"), samples[0])


def test_two_files_and_a_channel_in_each(tmp_path: Path) -> None:
    agent, caller = noise(6_000, 2), noise(6_000, 1, seed=1)
    paths = {
        "agent": save(tmp_path / "a.wav", agent, 24_000),
        "caller": save(tmp_path / "c.wav", caller, 24_000),
    }
    assert refused_code(lambda: resolve_channels(paths)) == "audio-channels"
    call = resolve_channels(SimpleNamespace(**paths), {"agent": 1, "caller": 0})
    assert np.array_equal(whole(call, "agent"), agent[1])
    assert np.array_equal(whole(call, "caller"), caller[0])


def test_channels_that_cannot_be_told(tmp_path: Path) -> None:
    mono, stereo, three = (save(tmp_path / f"{n}.wav", noise(4_000, n)) for n in (1, 2, 3))
    assert refused_code(lambda: resolve_channels(mono)) == "audio-mono"
    assert refused_code(lambda: resolve_channels(mono, {"agent": 0, "caller": 1})) == "audio-mono"
    assert refused_code(lambda: resolve_channels(three)) == "audio-channels"
    for spec in ((0, 0), (0, 2), (-1, 0)):
        assert refused_code(lambda: resolve_channels(stereo, spec)) == "audio-channels"  # noqa: B023
    with pytest.raises(CallRefused, match="--mono"):
        resolve_channels(mono)


def test_a_call_that_names_no_caller_is_a_wrong_call(tmp_path: Path) -> None:
    path = save(tmp_path / "a.wav", noise(4_000))
    for audio, spec in (({"agent": path}, None), (path, {"agent": 0}), (path, (0, 1, 2)), (path, 0)):
        with pytest.raises(UsageError, match="agent and caller"):
            resolve_channels(audio, spec)


def test_one_channel_of_a_file(tmp_path: Path) -> None:
    samples = noise(4_000, 3)
    path = save(tmp_path / "a.wav", samples, 24_000)
    channel = open_channel(path, 2)
    assert channel.path == path and np.array_equal(np.concatenate(list(channel.blocks())), samples[2])
    for index in (-1, 3):
        assert refused_code(lambda: open_channel(path, index)) == "audio-channels"  # noqa: B023


def test_one_mono_file_for_both_sides_is_mono(tmp_path: Path) -> None:
    path = save(tmp_path / "a.wav", noise(4_000, 1))
    assert refused_code(lambda: resolve_channels({"agent": path, "caller": path})) == "audio-mono"


# --- streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["michaelandsickmichael.wav", "multi.wav", "stereo_diarization.wav"])
def test_real_calls_stream_as_resampling_the_whole_would(real_data: Path, name: str) -> None:
    import soundfile

    path = real_data / "calls" / name
    samples, rate = soundfile.read(path, dtype="float32")
    call = resolve_channels(path)
    scan = call.scan(ProblemLog("call"))
    for side, channel in (("agent", 0), ("caller", 1)):
        streamed = whole(call, side, samples=scan.samples)
        assert len(streamed) == scan.samples
        assert np.abs(streamed - resample(samples[:, channel], rate)).max() < 1e-6


@settings(max_examples=30, deadline=None)
@given(
    rate=st.sampled_from([8_000, 11_025, 24_000, 44_100]),
    samples=st.integers(1, 20_000),
    chunk=st.integers(500, 60_000),
)
def test_chunks_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, rate: int, samples: int, chunk: int
) -> None:
    values = noise(samples, seed=samples)
    call = resolve_channels(save(tmp_path_factory.mktemp("call") / "a.wav", values, rate))
    streamed = whole(call, "caller", chunk)
    assert len(streamed) == resampled_samples(samples, rate)
    assert np.array_equal(streamed, resample(values[1], rate))


def test_the_grid_s_rate_comes_through_bit_for_bit(tmp_path: Path) -> None:
    values = noise(100_001)
    call = resolve_channels(save(tmp_path / "a.wav", values, 24_000, "FLOAT"))
    assert whole(call, "agent").tobytes() == values[0].tobytes()


@settings(max_examples=20, deadline=None)
@given(
    agent=st.integers(4_000, 60_000),
    caller=st.integers(4_000, 60_000),
    chunk=st.sampled_from([1_920, 48_000]),
)
def test_the_shorter_voice_is_padded_to_the_longer(
    tmp_path_factory: pytest.TempPathFactory, agent: int, caller: int, chunk: int
) -> None:
    folder = tmp_path_factory.mktemp("call")
    voices = {"agent": noise(agent, 1), "caller": noise(caller, 1, seed=1)}
    call = resolve_channels(
        {side: save(folder / f"{side}.wav", voice, 24_000) for side, voice in voices.items()}
    )
    scan = call.scan(ProblemLog("call"))
    for side, voice in voices.items():
        for options in ({}, {"samples": scan.samples}):
            streamed = whole(call, side, chunk, **options)
            assert len(streamed) == scan.samples == max(agent, caller)
            assert np.array_equal(streamed[: voice.shape[1]], voice[0])
            assert not streamed[voice.shape[1] :].any()


def test_a_file_that_grew_since_its_scan_is_refused(tmp_path: Path) -> None:
    call = resolve_channels(save(tmp_path / "a.wav", noise(60_000), 24_000))
    scan = call.scan(ProblemLog("call"))
    save(tmp_path / "a.wav", noise(70_000), 24_000)
    assert refused_code(lambda: list(call.stream("agent", samples=scan.samples))) == "audio-changed"


def test_containers_that_only_ffmpeg_knows_stream_too(tmp_path: Path) -> None:
    values = noise(50_000)
    call = resolve_channels(save_matroska(tmp_path / "a.mkv", [values], 16_000))
    assert np.array_equal(whole(call, "caller"), resample(values[1], 16_000))


def test_streams_of_nobody_and_of_nothing(tmp_path: Path) -> None:
    call = resolve_channels(save(tmp_path / "a.wav", noise(4_000)))
    with pytest.raises(UsageError, match="'host'"):
        call.stream("host")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="0 samples"):
        call.streams(0)


def test_calls_travel_to_other_processes(tmp_path: Path) -> None:
    call = resolve_channels(save(tmp_path / "a.wav", noise(4_000)))
    assert pickle.loads(pickle.dumps(call)) == call


def test_memory_is_flat(tmp_path: Path) -> None:
    """Twenty minutes take as much memory as three; a whole channel of them would be 115 MB."""

    def peak_bytes(minutes: int) -> int:
        path = tmp_path / f"{minutes}.wav"
        save(path, np.tile(noise(480_000), minutes), 8_000)
        call = resolve_channels(path)
        tracemalloc.start()
        scan = call.scan(ProblemLog("call"))
        pairs = call.streams(samples=scan.samples)
        assert sum(len(agent) for agent, _ in pairs) == minutes * 60 * 24_000
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    # soxr's bursts and the blocks' borders move the peak by a block of 2 MB or so.
    assert peak_bytes(20) < 1.25 * peak_bytes(3) < 30e6


def test_audio_imports_without_heavy_libraries() -> None:
    script = (
        "import sys, inkplex_data.audio.call_audio, inkplex_data.audio.loudness, inkplex_data.audio.files.write_audio\n"
        "print([name for name in ('torch', 'scipy', 'transformers', 'av', 'soundfile', 'soxr') if name in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
