"""The lengths that headers declare, against what was written and against damage made on purpose."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from inkplex_data.audio.files.declared_length import LengthClaim, read_claim
from tests.audio.made import noise, save

N = 4_000


def patched_data_size(path: Path, data_bytes: int) -> Path:
    raw = bytearray(path.read_bytes())
    at = raw.index(b"data") + 4
    raw[at : at + 4] = struct.pack("<I", data_bytes)
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize(
    ("form", "subtype"),
    [
        ("WAV", "PCM_U8"),
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "FLOAT"),
        ("WAV", "ULAW"),
        ("WAV", "ALAW"),
        ("WAVEX", "PCM_16"),
        ("WAVEX", "DOUBLE"),
        ("RF64", "PCM_16"),
        ("AIFF", "PCM_16"),
        ("AU", "PCM_16"),
        ("AU", "ULAW"),
        ("NIST", "PCM_16"),
    ],
)
def test_a_sound_file_is_claimed_exactly_and_a_cut_one_as_before(
    tmp_path: Path, form: str, subtype: str
) -> None:
    path = save(tmp_path / "a", noise(N), 8_000, subtype, form)
    assert read_claim(path) == LengthClaim(N)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert read_claim(path) == LengthClaim(N)


def test_big_endian_wav(tmp_path: Path) -> None:
    import soundfile

    soundfile.write(tmp_path / "a.wav", noise(N).T, 8_000, "PCM_16", "BIG", "WAV")
    assert (tmp_path / "a.wav").read_bytes()[:4] == b"RIFX"
    assert read_claim(tmp_path / "a.wav") == LengthClaim(N)


@pytest.mark.parametrize("subtype", ["IMA_ADPCM", "MS_ADPCM"])
def test_block_codings_claim_whole_blocks(tmp_path: Path, subtype: str) -> None:
    path = save(tmp_path / "a.wav", noise(N), 8_000, subtype)
    claim = read_claim(path)
    assert claim is not None and claim.samples is not None and N <= claim.samples < N + 2_100


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0x7FFFF000, 0x80000000, 0xFFFFFFFF, 0xFFFFFFDB])
def test_sizes_that_a_killed_or_piped_writer_leaves_are_placeholders(tmp_path: Path, size: int) -> None:
    claim = read_claim(patched_data_size(save(tmp_path / "a.wav", noise(N), 8_000), size))
    assert claim is not None and claim.is_placeholder
    assert claim.audio_behind == (size == 0)


@pytest.mark.parametrize(("size", "placeholder"), [(10_000_000, False), (0x70000000, False)])
def test_other_sizes_are_not(tmp_path: Path, size: int, placeholder: bool) -> None:
    claim = read_claim(patched_data_size(save(tmp_path / "a.wav", noise(N), 8_000), size))
    assert claim == LengthClaim(size // 4, placeholder)


def test_audio_behind_a_header_that_was_not_brought_up_to_date(tmp_path: Path) -> None:
    path = patched_data_size(save(tmp_path / "a.wav", noise(N), 8_000), 400)
    assert read_claim(path) == LengthClaim(100, audio_behind=True)


@pytest.mark.parametrize(
    "tail",
    [
        b"LIST" + struct.pack("<I", 4) + b"INFO",
        b"ID3\x03" + bytes([9] * 60),
        b"TAG" + bytes([7] * 125),
        bytes(4_096),
        b"LIST" + struct.pack("<I", 3) + b"abc\0" + b"junk" + struct.pack("<I", 0),
    ],
)
def test_metadata_and_padding_behind_the_audio_are_not_audio(tmp_path: Path, tail: bytes) -> None:
    path = save(tmp_path / "a.wav", noise(N), 8_000)
    path.write_bytes(path.read_bytes() + tail)
    assert read_claim(path) == LengthClaim(N)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"RIFF",
        b"RIFF\0\0\0\0WAVE",
        b"RIFF\0\0\0\0WAVEfmt \x02\0\0\0ab",
        b".snd",
        b"FORM\0\0\0\0AIFF",
        b"NIST_1A\n",
        b"OggS" * 9,
    ],
)
def test_other_and_damaged_headers_claim_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert read_claim(tmp_path / "a") is None


def test_a_header_of_endless_empty_chunks_ends_the_search(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 50_000)
    assert read_claim(tmp_path / "a.wav") is None
