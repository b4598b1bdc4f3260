"""Opening and decoding: every odd file, two decoders that agree, headers that lie, files that are cut."""

from __future__ import annotations

import gc
import os
import pickle
import socket
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.files.audio_source import AudioSource, open_audio
from inkplex_data.audio.files.decoders import Probe, av_pieces, probe_av
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.problems import CODES
from tests.audio.made import noise, refused_code, save, save_aac, save_matroska

# file: container, channels, rate, declared, decoded
ODD = {
    "13697_11991_000000.opus": ("OGG/OPUS", 1, 16_000, 237_600, 237_600),
    "cold_corpus_24bit.wav": ("WAVEX/PCM_24", 1, 16_000, 411_481, 411_481),
    "common_voice_en_22058266.mp3": ("MP3/MPEG_LAYER_III", 1, 48_000, 113_166, 112_896),
    "dual_mono_24bit.flac": ("FLAC/PCM_24", 2, 44_100, 485_100, 485_100),
    "stereo.mp3": ("MP3/MPEG_LAYER_III", 2, 8_000, 8_000, 8_000),
    "stereo.sph": ("NIST/PCM_16", 2, 8_000, 8_000, 8_000),
    "test-44100Hz-le-1ch-4bytes-early-eof.wav": ("WAVEX/PCM_32", 1, 44_100, 4_410, 236),
    "test-44100Hz-le-1ch-4bytes-rf64.wav": ("RF64/PCM_32", 1, 44_100, 4_410, 4_410),
    "test-48000Hz-2ch-64bit-float-le-wavex.wav": ("WAVEX/DOUBLE", 2, 48_000, 480, 480),
    "test-8000Hz-le-1ch-1byte-ulaw.wav": ("WAV/ULAW", 1, 8_000, 9, 9),
    "whatstheweatherlike-mulaw.wav": ("WAV/ULAW", 1, 16_000, 32_480, 32_480),
}
ODD_REFUSED = {
    "hello.ulaw": "audio-headerless",
    "missing_wav_header.wav": "audio-headerless",
    "test-44100Hz-le-1ch-4bytes-incomplete-chunk.wav": "audio-unreadable",
    "test-8000Hz-le-3ch-5S-53bit.wav": "audio-unreadable",
}


def decoded(source: AudioSource, block_samples: int = 262_144) -> np.ndarray:
    blocks = list(source.blocks(block_samples))
    assert all(block.dtype == np.float32 and block.shape[0] == source.channels for block in blocks)
    return np.concatenate(blocks, axis=1) if blocks else np.zeros((source.channels, 0), np.float32)


def test_the_tables_name_every_odd_file(real_data: Path) -> None:
    assert {path.name for path in (real_data / "odd_audio").iterdir()} == set(ODD) | set(ODD_REFUSED)


@pytest.mark.parametrize("name", ODD)
def test_odd_files_decode(real_data: Path, name: str) -> None:
    source = open_audio(real_data / "odd_audio" / name)
    found = (source.container, source.channels, source.sample_rate_hz, source.declared_samples)
    assert (*found, source.count_samples()) == ODD[name]
    assert source.decoder == "soundfile"


@pytest.mark.parametrize("name", ODD_REFUSED)
def test_odd_files_that_nothing_decodes(real_data: Path, name: str) -> None:
    assert refused_code(lambda: open_audio(real_data / "odd_audio" / name)) == ODD_REFUSED[name]


@pytest.mark.parametrize("name", [name for name in ODD if name.endswith((".wav", ".flac", ".sph"))])
def test_both_decoders_give_the_same_samples(real_data: Path, name: str) -> None:
    path = real_data / "odd_audio" / name
    probe = probe_av(path)
    assert isinstance(probe, Probe)
    other = np.concatenate(list(av_pieces(path, probe)), axis=1)
    assert np.array_equal(decoded(open_audio(path)), other)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5_000), st.sampled_from(["WAV", "MKV"]))
def test_block_size_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, block_samples: int, form: str
) -> None:
    samples = noise(9_001)
    path = tmp_path_factory.mktemp("blocks") / "a"
    source = open_audio(
        save_matroska(path.with_suffix(".mkv"), [samples])
        if form == "MKV"
        else save(path, samples, form="WAV")
    )
    blocks = list(source.blocks(block_samples))
    assert all(block.shape[1] == block_samples for block in blocks[:-1])
    assert np.array_equal(np.concatenate(blocks, axis=1), samples)
    assert np.array_equal(decoded(source), samples)  # again from the start


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_ffmpeg_reads_every_sample_type_as_libsndfile_does(tmp_path: Path, subtype: str) -> None:
    path = save(tmp_path / "a.wav", noise(3_000, 3), 8_000, subtype)
    probe = probe_av(path)
    assert isinstance(probe, Probe)
    assert np.array_equal(np.concatenate(list(av_pieces(path, probe)), axis=1), decoded(open_audio(path)))


def test_what_libsndfile_refuses_goes_to_ffmpeg(tmp_path: Path) -> None:
    samples = noise(5_000)
    source = open_audio(save_matroska(tmp_path / "a.mkv", [samples]))
    assert (source.decoder, source.container, source.channels) == ("pyav", "matroska/pcm_s16le", 2)
    assert np.array_equal(decoded(source), samples)


def test_names_of_every_kind(tmp_path: Path) -> None:
    samples = noise(4_000)
    names = [
        "a b.wav",
        "a,b;c'd\".wav",
        "concat:a|b.wav",
        "-i.wav",
        "ünï 電話.wav",
        "x.mp3.wav",
        "http:x.wav",
        "line\nbreak\t\x01\x1b[31m\x7f.wav",
        os.fsdecode(b"\xff\xfe.wav"),
    ]
    for name in names:
        wav = save(tmp_path / "plain.wav", samples).replace(tmp_path / name)
        assert np.array_equal(decoded(open_audio(wav)), samples)
        mkv = save_matroska(tmp_path / "plain.mkv", [samples]).replace(wav.with_suffix(".mkv"))
        assert np.array_equal(decoded(open_audio(mkv)), samples)


def test_the_name_does_not_make_the_format(tmp_path: Path, real_data: Path) -> None:
    """libsndfile alone would take any bytes named .vox or .gsm for a coding without a header."""
    for suffix in (".vox", ".gsm", ".ulaw", ".raw", ".wav"):
        (tmp_path / f"a{suffix}").write_bytes(bytes(range(200, 250)) * 400)
        assert refused_code(lambda: open_audio(tmp_path / f"a{suffix}")) == "audio-headerless"  # noqa: B023
    mp3 = tmp_path / "b.wav"
    mp3.write_bytes((real_data / "odd_audio" / "stereo.mp3").read_bytes())
    assert open_audio(mp3).container == "MP3/MPEG_LAYER_III"


def test_a_play_list_opens_nothing(tmp_path: Path) -> None:
    save(tmp_path / "secret.wav", noise(9_000))
    (tmp_path / "a.m3u8").write_text("#EXTM3U\n#EXTINF:1,\nsecret.wav\n#EXT-X-ENDLIST\n")
    (tmp_path / "b.ffconcat").write_text("ffconcat version 1.0\nfile secret.wav\n")
    for name in ("a.m3u8", "b.ffconcat"):
        assert refused_code(lambda: open_audio(tmp_path / name)) == "audio-unreadable"  # noqa: B023


def test_decoders_write_nothing_to_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What they find odd is in the report, which names the file; libmpg123 and FFmpeg would write it as it is."""
    for form, subtype in (("MP3", "MPEG_LAYER_III"), ("OGG", "VORBIS"), ("FLAC", "PCM_16"), ("MKV", "")):
        path = tmp_path / f"a.{form.lower()}"
        if form == "MKV":
            save_matroska(path, [noise(96_000)])
        else:
            save(path, noise(96_000), 48_000, subtype, form)
        raw = path.read_bytes()
        middle = len(raw) // 2
        for odd in (
            raw[:middle],
            raw[:middle] + bytes(9_000) + raw[middle + 9_000 :],
            bytes(3_000) + raw,
            raw * 2,
            raw + bytes(9_000) + b"APETAGEX" + bytes(24),
        ):
            path.write_bytes(odd)
            try:
                open_audio(path).count_samples()
            except CallRefused:
                continue
    assert capfd.readouterr().err == ""


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav.txt").write_text("hello")
    os.mkfifo(tmp_path / "pipe.wav")
    socket.socket(socket.AF_UNIX).bind(str(tmp_path / "socket.wav"))
    assert refused_code(lambda: open_audio(tmp_path / "none.wav")) == "file-missing"
    assert refused_code(lambda: open_audio(tmp_path / "empty.wav")) == "audio-too-short"
    assert refused_code(lambda: open_audio(tmp_path)) == "audio-unreadable"
    assert refused_code(lambda: open_audio(tmp_path / "pipe.wav")) == "audio-unreadable"
    assert refused_code(lambda: open_audio(tmp_path / "socket.wav")) == "audio-unreadable"
    assert refused_code(lambda: open_audio(Path("/dev/zero"))) == "audio-unreadable"
    assert refused_code(lambda: open_audio(tmp_path / "text.wav.txt")) == "audio-unreadable"


@pytest.mark.parametrize("rate", [1, 3_999, 768_001, 2_000_000_000])
def test_rates_that_are_none(tmp_path: Path, rate: int) -> None:
    path = save(tmp_path / "a.wav", noise(2_000))
    raw = bytearray(path.read_bytes())
    raw[24:28] = struct.pack("<I", rate)
    path.write_bytes(raw)
    assert refused_code(lambda: open_audio(path)) == "audio-rate"


def test_more_channels_than_any_recorder_has(tmp_path: Path) -> None:
    path = save(tmp_path / "a.wav", noise(200, 65), form="WAVEX")
    assert refused_code(lambda: open_audio(path)) == "audio-channels"


# --- headers that lie ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 400, 10_000_000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_wav_gives_what_it_has_whatever_its_header_says(tmp_path: Path, size: int) -> None:
    samples = noise(7_000)
    path = save(tmp_path / "a.wav", samples)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"data") + 4
    raw[at : at + 4] = struct.pack("<I", size)
    path.write_bytes(raw)
    source = open_audio(path)
    assert source.declared_samples == size // 4
    assert np.array_equal(decoded(source), samples)


def flac_with_total(path: Path, samples: np.ndarray, total: int) -> Path:
    raw = bytearray(save(path, samples, form="FLAC").read_bytes())
    field = int.from_bytes(raw[18:26], "big") >> 36 << 36
    raw[18:26] = (field | total).to_bytes(8, "big")
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("total", [0, 1_000, 29_999, 10_000_000])
def test_a_flac_gives_what_it_has_whatever_its_header_says(tmp_path: Path, total: int) -> None:
    samples = noise(50_000)
    source = open_audio(flac_with_total(tmp_path / "a.flac", samples, total))
    assert source.declared_samples == (total or None)
    assert np.array_equal(decoded(source), samples)


def test_a_variable_rate_mp3_without_its_xing_header_is_whole(tmp_path: Path) -> None:
    """libsndfile estimates its length from the first frames and would drop half of it."""
    path = save(tmp_path / "a.mp3", noise(48_000), 48_000, "MPEG_LAYER_III", "MP3")
    raw = path.read_bytes()
    assert b"Xing" in raw[:200]
    path.write_bytes(raw[raw.index(raw[:2], 10) :])
    assert soundfile.info(path).frames < 40_000
    source = open_audio(path)
    assert source.decoder == "pyav"
    assert 48_000 <= source.count_samples() <= 48_000 + 2_304


@pytest.mark.parametrize(
    ("form", "subtype"), [("MP3", "MPEG_LAYER_III"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("FLAC", "PCM_16")]
)
def test_a_file_appended_to_another_is_decoded_to_its_end(tmp_path: Path, form: str, subtype: str) -> None:
    path = save(tmp_path / "a", noise(48_000), 48_000, subtype, form)
    once = open_audio(path)
    assert (once.decoder, once.count_samples()) == ("soundfile", 48_000)
    path.write_bytes(path.read_bytes() * 2)
    assert 96_000 <= open_audio(path).count_samples() <= 96_000 + 3_500


# --- files that are cut or damaged --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "subtype"),
    [
        ("WAV", "PCM_16"),
        ("RF64", "PCM_16"),
        ("AIFF", "PCM_16"),
        ("AU", "PCM_16"),
        ("NIST", "PCM_16"),
        ("W64", "PCM_16"),
        ("CAF", "PCM_16"),
        ("FLAC", "PCM_16"),
    ],
)
@pytest.mark.parametrize("share", [0.3, 0.61, 0.9])
def test_a_cut_file_gives_what_is_left(tmp_path: Path, form: str, subtype: str, share: float) -> None:
    samples = noise(50_000)
    path = save(tmp_path / "a", samples, 48_000, subtype, form)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    found = decoded(open_audio(path))
    lost_block = 4_608 if form == "FLAC" else 8  # a cut FLAC frame cannot be decoded
    assert 50_000 * share - lost_block - 2_000 < found.shape[1] < 50_000
    assert np.array_equal(found, samples[:, : found.shape[1]])


def test_aac_in_mp4_is_in_step_with_what_was_encoded(tmp_path: Path) -> None:
    voice = np.cumsum(noise(48_000, 1)[0]) * 0.01
    voice -= np.convolve(voice, np.ones(200) / 200, "same")
    found = decoded(open_audio(save_aac(tmp_path / "a.m4a", np.stack([voice, voice]).astype(np.float32))))
    correlation = np.correlate(found[0, 8_000:12_000], voice[7_000:13_000], "full")
    assert 4_999 - int(np.argmax(correlation)) == 0


def test_damage_inside_a_compressed_file_is_told_from_a_missing_end(tmp_path: Path) -> None:
    path = save_aac(tmp_path / "a.aac", noise(48_000))
    raw = path.read_bytes()
    middle = len(raw) // 2
    path.write_bytes(raw[:middle] + bytes([0x55]) * 1_500 + raw[middle + 1_500 :])
    damaged = open_audio(path).blocks()
    assert 20_000 < sum(block.shape[1] for block in damaged) < 28_000
    assert damaged.fault is not None and not damaged.recoverable
    path.write_bytes(raw[:middle])
    cut = open_audio(path).blocks()
    assert 20_000 < sum(block.shape[1] for block in cut) < 28_000
    assert cut.fault is not None and cut.recoverable


def test_a_sound_that_changes_its_channels_is_told(tmp_path: Path) -> None:
    path = save(tmp_path / "a.ogg", noise(40_000, 2), 48_000, "VORBIS", "OGG")
    mono = save(tmp_path / "b.ogg", noise(40_000, 1), 48_000, "VORBIS", "OGG")
    path.write_bytes(path.read_bytes() + mono.read_bytes())
    reader = open_audio(path).blocks()
    found = sum(block.shape[1] for block in reader)
    assert 40_000 <= found < 45_000
    assert reader.fault is not None


@pytest.mark.parametrize("name", ["calls/multi.wav", "odd_audio/stereo.mp3"])
def test_a_reader_that_is_dropped_closes_its_file(real_data: Path, name: str) -> None:
    source = open_audio(real_data / name)
    open_files = Path("/proc/self/fd")
    before = len(list(open_files.iterdir()))
    gc.disable()
    try:
        for _ in range(5):
            next(source.blocks(1_000))
        assert len(list(open_files.iterdir())) == before
    finally:
        gc.enable()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_bytes_make_a_traceback(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("fuzz", numbered=True)
    form = data.draw(
        st.sampled_from(["WAV", "RF64", "FLAC", "OGG", "AIFF", "AU", "CAF", "NIST", "MKV", "AAC"])
    )
    samples = noise(3_000)
    if form == "MKV":
        path = save_matroska(folder / "a.mkv", [samples])
    elif form == "AAC":
        path = save_aac(folder / "a.m4a", samples)
    else:
        path = save(folder / "a", samples, 16_000, "VORBIS" if form == "OGG" else "PCM_16", form)
    raw = bytearray(path.read_bytes())
    places = st.integers(0, min(len(raw), 300) - 1) | st.integers(0, len(raw) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=12)):
        raw[place] = byte
    path.write_bytes(raw[: data.draw(st.integers(1, len(raw)) | st.just(len(raw)))])
    try:
        source = open_audio(path)
    except CallRefused as error:
        assert error.code in CODES and error.next_step
        return
    reader = source.blocks(1_000)
    assert sum(block.shape[1] for block in reader) == reader.samples


def test_sources_travel_to_other_processes(real_data: Path) -> None:
    source = open_audio(real_data / "calls" / "multi.wav")
    assert pickle.loads(pickle.dumps(source)) == source


def test_a_block_of_nothing_is_no_block(real_data: Path) -> None:
    with pytest.raises(UsageError, match="0 samples"):
        open_audio(real_data / "calls" / "multi.wav").blocks(0)
