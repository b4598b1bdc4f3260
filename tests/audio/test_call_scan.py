"""Faults of a call's sound: each found, named and placed; nothing found where nothing is wrong."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.audio.call_scan import AudioScan, PairStats
from inkplex_data.audio.files.audio_source import AudioSource
from inkplex_data.clock import FRAME_SAMPLES
from inkplex_data.errors import CallRefused
from inkplex_data.problems import CODES, ProblemLog
from tests.audio.made import Array, codes, noise, only, save, save_aac, save_lossy, save_matroska

RATE = 16_000


def scanned(path: Path, *, strict: bool = False) -> tuple[AudioScan, ProblemLog]:
    log = ProblemLog("call", strict=strict)
    return resolve_channels(path).scan(log), log


def refusal_of(path: Path, *, strict: bool = False) -> CallRefused:
    with pytest.raises(CallRefused) as caught:
        scanned(path, strict=strict)
    assert caught.value.next_step and str(path) in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("name", "samples", "rate"),
    [
        ("michaelandsickmichael.wav", 1_258_580, 16_000),
        ("multi.wav", 123_716, 44_100),
        ("stereo_diarization.wav", 120_000, 16_000),
    ],
)
def test_real_stereo_calls_are_sound(real_data: Path, name: str, samples: int, rate: int) -> None:
    scan, log = scanned(real_data / "calls" / name)
    assert not list(log)
    assert (scan.samples, scan.agent_samples, scan.caller_samples, scan.sample_rate_hz) == (
        samples,
        samples,
        samples,
        rate,
    )
    assert scan.silent == {"agent": False, "caller": False}
    assert all(0.2 < peak <= 1 for peak in scan.peak.values())
    assert all(-40 < level < -15 for level in scan.rms_db.values())


def test_the_real_call_in_two_files(real_data: Path) -> None:
    calls = real_data / "calls"
    call = resolve_channels({side: calls / f"Auto_Repairs_40_UTC_{side}.wav" for side in ("agent", "caller")})
    log = ProblemLog("call")
    scan = call.scan(log)
    assert codes(log) == ["audio-band-limited"] * 2
    assert scan.band_hz == {"agent": 4_000, "caller": 4_000}
    assert scan.samples == scan.agent_samples == scan.caller_samples == 1_963_040 * 3
    assert abs(scan.correlation) < 0.01


@pytest.mark.parametrize("name", ["dual_mono_24bit.flac", "stereo.mp3", "stereo.sph"])
def test_real_dual_mono(real_data: Path, name: str) -> None:
    """A digitised tape, and two files whose channels differ by a constant and by what MP3 adds."""
    error = refusal_of(real_data / "odd_audio" / name)
    assert error.code == "audio-dual-mono"
    assert "--mono" in str(error)


def test_a_real_file_of_ten_milliseconds(real_data: Path) -> None:
    error = refusal_of(real_data / "odd_audio" / "test-48000Hz-2ch-64bit-float-le-wavex.wav")
    assert error.code == "audio-too-short"
    assert "10.0 ms" in str(error)


# --- values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("channel", [0, 1])
def test_values_that_are_none_are_placed(tmp_path: Path, value: float, channel: int) -> None:
    samples = noise(300_000)
    samples[channel, 272_000] = value
    error = refusal_of(save(tmp_path / "a.wav", samples, RATE, "FLOAT"))
    assert error.code == "audio-not-finite"
    assert (
        "17.000 s" in str(error) and ("agent", "caller")[channel] in str(error) and str(value) in str(error)
    )


@pytest.mark.parametrize("value", [8.01, -8.01, 20_000.0])
def test_values_of_another_scale_are_refused(tmp_path: Path, value: float) -> None:
    samples = noise(20_000)
    samples[1, 8_000] = value
    error = refusal_of(save(tmp_path / "a.wav", samples, RATE, "FLOAT"))
    assert error.code == "audio-out-of-range"
    assert "0.500 s" in str(error) and f"{value:,.6g}" in str(error)


@pytest.mark.parametrize("value", [8.0, -8.0, 1.5])
def test_loud_floats_are_not(tmp_path: Path, value: float) -> None:
    samples = noise(20_000)
    samples[1, 8_000] = value
    scan, log = scanned(save(tmp_path / "a.wav", samples, RATE, "FLOAT"))
    assert not list(log) and scan.peak["caller"] == abs(value)


def test_faults_in_a_channel_that_no_role_uses_do_not_matter(tmp_path: Path) -> None:
    samples = noise(20_000, 3)
    samples[1] = np.nan
    call = resolve_channels(save(tmp_path / "a.wav", samples, RATE, "FLOAT"), {"agent": 2, "caller": 0})
    assert call.scan(ProblemLog("call")).samples == 30_000


# --- length -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("samples", "short"), [(0, True), (1, True), (1_279, True), (1_280, False)])
def test_one_frame_is_the_least(tmp_path: Path, samples: int, short: bool) -> None:
    path = save(tmp_path / "a.wav", noise(samples), RATE)
    if short:
        assert refusal_of(path).code == "audio-too-short"
    else:
        assert scanned(path)[0].frames == 1


@pytest.mark.parametrize(
    ("size", "code"),
    [
        (0, "audio-length-differs"),
        (400, "audio-length-differs"),
        (0x80000000, "audio-length-differs"),
        (10_000_000, "audio-truncated"),
    ],
)
def test_a_wav_header_that_lies_is_reported(tmp_path: Path, size: int, code: str) -> None:
    samples = noise(30_000)
    path = save(tmp_path / "a.wav", samples, RATE)
    whole, _ = scanned(path)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"data") + 4
    raw[at : at + 4] = struct.pack("<I", size)
    path.write_bytes(raw)
    scan, log = scanned(path)
    assert codes(log) == [code]
    assert f"{size // 4:,}" in only(log, code).message and "30,000" in only(log, code).message
    assert scan.sha256 == whole.sha256
    if CODES[code].severity == "repair":
        assert refusal_of(path, strict=True).code == code


@pytest.mark.parametrize(
    ("form", "subtype"),
    [("FLAC", "PCM_16"), ("AIFF", "PCM_24"), ("NIST", "PCM_16"), ("MP3", "MPEG_LAYER_III")],
)
def test_a_cut_file_is_reported(tmp_path: Path, form: str, subtype: str) -> None:
    path = save(tmp_path / "a", noise(100_000), RATE, subtype, form)
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) * 6 // 10])
    scan, log = scanned(path)
    assert codes(log) == ["audio-truncated"]
    assert 0.5 < scan.samples / 150_000 < 0.65


def without_tag(path: Path) -> Path:
    """An MP3 file without its first frame, which states how many there are."""
    raw = path.read_bytes()
    path.write_bytes(raw[raw.index(raw[:2], 10) :])
    return path


def test_an_mp3_of_changing_rate_is_whole_where_a_library_takes_it_for_longer_or_shorter(
    tmp_path: Path,
) -> None:
    estimates = []
    loud_first = noise(200_000) * np.linspace(1, 0, 200_000, dtype=np.float32) ** 4
    for name, samples in (("a", loud_first), ("b", loud_first[:, ::-1])):
        path = without_tag(save(tmp_path / f"{name}.mp3", samples, 48_000, "MPEG_LAYER_III", "MP3"))
        scan, log = scanned(path, strict=True)
        estimates.append(soundfile.info(path).frames)
        assert set(codes(log)) <= {"audio-length-differs"}
        assert 100_000 <= scan.samples <= 101_500
    assert min(estimates) < 190_000 and max(estimates) > 210_000


def test_an_mp3_that_ends_within_a_frame_was_cut(tmp_path: Path) -> None:
    path = without_tag(save(tmp_path / "a.mp3", noise(100_000), 48_000, "MPEG_LAYER_III", "MP3"))
    path.write_bytes(path.read_bytes()[:-100])
    assert codes(scanned(path)[1]) == ["audio-truncated"]


def test_mp3_padding_is_told_but_is_no_repair(tmp_path: Path, real_data: Path) -> None:
    mp3 = real_data / "odd_audio" / "common_voice_en_22058266.mp3"
    call = resolve_channels({"agent": mp3, "caller": save(tmp_path / "b.wav", noise(112_896, 1), 48_000)})
    log = ProblemLog("call", strict=True)
    assert call.scan(log).agent_samples == 112_896 // 2
    assert codes(log) == ["audio-length-differs"]
    assert "113,166" in only(log, "audio-length-differs").message


def test_a_hole_of_known_length_is_filled_told_and_placed(tmp_path: Path) -> None:
    path = save_lossy(tmp_path / "a.webm", noise(144_000), "libopus", lost=range(50, 75))
    scan, log = scanned(path)
    assert codes(log) == ["audio-damaged"]
    assert "0.500 s" in only(log, "audio-damaged").message
    assert "0.994 to 1.494 s" in only(log, "audio-damaged").message
    assert scan.samples == 72_000
    assert scan.holes == {"agent": ((23_844, 35_844),), "caller": ((23_844, 35_844),)}
    assert refusal_of(path, strict=True).code == "audio-damaged"


def test_a_stretch_stamped_twice_is_told(tmp_path: Path) -> None:
    scan, log = scanned(save_lossy(tmp_path / "a.mkv", noise(144_000), "pcm_s16le", shift=-9_600))
    assert codes(log) == ["audio-overlap"]
    assert "0.201 s" in only(log, "audio-overlap").message
    assert scan.samples == 67_180


def test_a_hole_belongs_to_the_side_whose_file_has_it(tmp_path: Path) -> None:
    agent = save(tmp_path / "a.wav", noise(96_000, 1), 48_000)
    caller = save_mono_flac_with_a_hole(tmp_path / "b.flac")
    log = ProblemLog("call")
    scan = resolve_channels({"agent": agent, "caller": caller}).scan(log)
    assert codes(log) == ["audio-damaged"]
    assert scan.holes["agent"] == () and len(scan.holes["caller"]) == 1


def save_mono_flac_with_a_hole(path: Path) -> Path:
    raw = bytearray(save(path, noise(96_000, 1, seed=1), 48_000).read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 100] = bytes(100)
    path.write_bytes(raw)
    return path


def test_damage_inside_is_refused_and_a_missing_end_is_reported(tmp_path: Path) -> None:
    path = save_aac(tmp_path / "a.aac", noise(48_000))
    raw = path.read_bytes()
    middle = len(raw) // 2
    path.write_bytes(raw[:middle])
    assert codes(scanned(path)[1]) == ["audio-truncated"]
    path.write_bytes(raw[:middle] + bytes([0x55]) * 1_500 + raw[middle + 1_500 :])
    assert refusal_of(path).code == "audio-damaged"


def test_a_second_track_is_not_dropped_silently(tmp_path: Path) -> None:
    path = save_matroska(tmp_path / "a.mkv", [noise(20_000), noise(20_000, seed=1)])
    _, log = scanned(path)
    assert codes(log) == ["audio-extra-tracks"]
    assert refusal_of(path, strict=True).code == "audio-extra-tracks"


# --- two files ----------------------------------------------------------------------------------------


def two_files(
    folder: Path, agent: Array, caller: Array, agent_rate: int = RATE, caller_rate: int = RATE
) -> dict[str, Path]:
    return {
        "agent": save(folder / "agent.wav", agent, agent_rate),
        "caller": save(folder / "caller.wav", caller, caller_rate),
    }


@pytest.mark.parametrize(
    ("agent", "caller"), [(16_000, 16_000), (16_000, 8_000), (7_680, 16_000), (16_000, 15_999)]
)
def test_a_shorter_file_is_reported_with_its_own_length(tmp_path: Path, agent: int, caller: int) -> None:
    call = resolve_channels(two_files(tmp_path, noise(agent, 1), noise(caller, 1, seed=1)))
    log = ProblemLog("call")
    scan = call.scan(log)
    assert scan.samples == max(scan.agent_samples, scan.caller_samples) == 24_000
    assert codes(log) == (["audio-channel-lengths"] if agent != caller else [])
    assert (scan.agent_samples, scan.caller_samples) == (agent * 3 // 2, -(-caller * 3 // 2))


@pytest.mark.parametrize("short", ["agent", "caller"])
def test_a_file_without_sound_beside_a_good_one_is_refused(tmp_path: Path, short: str) -> None:
    paths = two_files(
        tmp_path, noise(0 if short == "agent" else 16_000, 1), noise(0 if short == "caller" else 16_000, 1)
    )
    log = ProblemLog("call")
    with pytest.raises(CallRefused) as caught:
        resolve_channels(paths).scan(log)
    assert caught.value.code == "audio-too-short" and short in str(caught.value)


@pytest.mark.parametrize("caller_rate", [RATE, 8_000, 44_100])
def test_one_recording_in_two_files_is_dual_mono_at_any_rates(tmp_path: Path, caller_rate: int) -> None:
    from inkplex_data.audio.resample import resample

    voice = resample(noise(16_000, 1, level=0.3), 4_000, RATE)  # band-limited, as speech at 8 kHz is
    paths = two_files(
        tmp_path,
        voice,
        resample(voice, RATE, caller_rate) if caller_rate != RATE else voice,
        RATE,
        caller_rate,
    )
    with pytest.raises(CallRefused) as caught:
        resolve_channels(paths).scan(ProblemLog("call"))
    assert caught.value.code == "audio-dual-mono"


def test_files_of_two_rates_are_fine(tmp_path: Path) -> None:
    call = resolve_channels(two_files(tmp_path, noise(8_000, 1), noise(44_100, 1, seed=1), 8_000, 44_100))
    log = ProblemLog("call")
    scan = call.scan(log)
    assert codes(log) == ["audio-band-limited"]
    assert (scan.agent_samples, scan.caller_samples, scan.sample_rate_hz) == (24_000, 24_000, 8_000)
    assert scan.rates_hz == {"agent": 8_000, "caller": 44_100}


# --- silence and dual mono ----------------------------------------------------------------------------


@pytest.mark.parametrize("idle", [0.0, 0.0005, 0.3])
def test_a_silent_channel_is_noted_and_fine(tmp_path: Path, idle: float) -> None:
    """Digital silence, idle noise of a line, and a constant offset."""
    samples = noise(32_000)
    samples[1] = 0.3 if idle == 0.3 else np.linspace(-idle, idle, 32_000)
    scan, log = scanned(save(tmp_path / "a.wav", samples, RATE, "FLOAT"))
    assert codes(log) == ["audio-silent-channel"]
    assert "caller" in only(log, "audio-silent-channel").item
    assert scan.silent == {"agent": False, "caller": True}


def test_two_silent_channels_are_refused(tmp_path: Path) -> None:
    assert refusal_of(save(tmp_path / "a.wav", noise(32_000) * 0, RATE)).code == "audio-both-silent"


@settings(max_examples=25, deadline=None)
@given(
    gain_db=st.floats(-5.5, 5.5),
    flip=st.booleans(),
    hiss=st.floats(0, 0.03),
    offset=st.floats(-0.2, 0.2),
    seed=st.integers(0, 99),
)
def test_copies_are_found_through_gain_polarity_offset_and_noise(
    gain_db: float, flip: bool, hiss: float, offset: float, seed: int
) -> None:
    agent, other = noise(48_000, 2, seed=seed)
    copy = agent * (-1 if flip else 1) * 10 ** (gain_db / 20)
    pair = PairStats(16_000)
    pair.update(agent, (copy + hiss * other + offset).astype(np.float32))
    assert pair.is_dual_mono


@settings(max_examples=25, deadline=None)
@given(crosstalk=st.floats(-0.5, 0.5), seed=st.integers(0, 99), split=st.integers(1, 47_999))
def test_two_voices_with_crosstalk_are_not(crosstalk: float, seed: int, split: int) -> None:
    agent, caller = noise(48_000, 2, seed=seed)
    left, right = agent + np.float32(crosstalk) * caller, caller + np.float32(crosstalk) * agent
    pair = PairStats(16_000)
    pair.update(left[:split], right[:split])
    pair.update(left[split:], right[split:])
    assert not pair.is_dual_mono
    assert pair.correlation == pytest.approx(np.corrcoef(left, right)[0, 1], abs=1e-6)


def test_crosstalk_into_a_quiet_channel_is_not_a_copy(tmp_path: Path) -> None:
    agent = noise(48_000, 1, level=0.3)[0]
    scan, log = scanned(save(tmp_path / "a.wav", np.stack([agent, agent * np.float32(0.02)]), RATE, "FLOAT"))
    assert not list(log) and scan.correlation > 0.999


# --- identity -----------------------------------------------------------------------------------------


def test_the_hash_is_of_the_sound_not_of_the_file(tmp_path: Path) -> None:
    samples = noise(300_000)
    scan = scanned(save(tmp_path / "a.wav", samples, RATE))[0]
    same = [
        scanned(save(tmp_path / "a.flac", samples, RATE))[0],
        scanned(save(tmp_path / "b.wav", samples, RATE, "FLOAT"))[0],
        scanned(save_matroska(tmp_path / "a.mkv", [samples], RATE))[0],
        resolve_channels(two_files(tmp_path, samples[0], samples[1])).scan(ProblemLog("call")),
    ]
    assert {other.sha256 for other in same} == {scan.sha256}
    swapped = resolve_channels(tmp_path / "a.wav", {"agent": 1, "caller": 0}).scan(ProblemLog("call"))
    assert swapped.sha256 != scan.sha256
    assert swapped.channel_sha256["agent"] == scan.channel_sha256["caller"]
    changed = samples.copy()
    changed[1, -1] += np.float32(1 / 32768)
    assert scanned(save(tmp_path / "c.wav", changed, RATE))[0].sha256 != scan.sha256
    assert scanned(save(tmp_path / "d.wav", samples, 8_000))[0].sha256 != scan.sha256


def test_each_file_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    original = AudioSource.blocks

    def counting(self: AudioSource, *args: int) -> object:
        opened.append(self.path)
        return original(self, *args)

    monkeypatch.setattr(AudioSource, "blocks", counting)
    scanned(save(tmp_path / "a.wav", noise(600_000), RATE))
    assert opened == [tmp_path / "a.wav"]
    for caller_rate in (RATE, 44_100):
        paths = two_files(tmp_path, noise(16_000, 1), noise(48_000, 1, seed=1), RATE, caller_rate)
        opened.clear()
        resolve_channels(paths).scan(ProblemLog("call"))
        assert opened == [paths["agent"], paths["caller"]]


def test_frames_follow_the_clock(tmp_path: Path) -> None:
    scan, _ = scanned(save(tmp_path / "a.wav", noise(5 * FRAME_SAMPLES + 1), 24_000))
    assert (scan.samples, scan.frames) == (9_601, 6)
