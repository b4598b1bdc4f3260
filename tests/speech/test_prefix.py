from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.clock import FRAME_SAMPLES, SAMPLE_RATE_HZ
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.problems import CODES
from inkplex_data.speech.codec import load_codec
from inkplex_data.speech.prefix import (
    SILENCE_CODES,
    SINE_CODES,
    build_prefix,
    codec_is_released,
    compose_prefix,
    plan_prefix,
    silence_chunks,
    sine_chunks,
    wrap_role,
)
from inkplex_data.speech.tokenizer import TextTokenizer


def made_codes(frames: int, seed: int = 0) -> npt.NDArray[np.uint16]:
    return np.random.default_rng(seed).integers(0, 2_048, (frames, 8)).astype(np.uint16)


def loudest(chunks: Iterable[npt.NDArray[np.float32]]) -> npt.NDArray[np.uint16]:
    """A codec that can be read: every code of a frame is its peak in thousandths."""
    samples = np.concatenate(list(chunks)).reshape(-1, FRAME_SAMPLES)
    peaks = np.abs(samples).max(axis=1) * 1_000
    return np.repeat(peaks.round().astype(np.uint16)[:, None], 8, axis=1)


def test_without_voice_and_role_it_is_twelve_frames_of_silence() -> None:
    prefix = build_prefix(None, [], None)
    assert prefix.layout.frames == 12
    assert (prefix.codes[:, :8] == SILENCE_CODES).all()
    assert (prefix.codes[:, 8:] == SINE_CODES).all()
    assert prefix.text.tolist() == [3] * 12
    assert prefix.role.tolist() == [4] * 12
    assert (prefix.codes.dtype, prefix.text.dtype, prefix.role.dtype) == (np.uint16, np.int32, np.uint8)


def test_the_parts_follow_each_other() -> None:
    voice = made_codes(5)
    prefix = build_prefix(voice, [40, 41, 42], None)
    assert prefix.codes.shape == (20, 16)
    assert (prefix.codes[:5, :8] == voice).all()
    assert (prefix.codes[5:, :8] == SILENCE_CODES).all()
    assert (prefix.codes[:, 8:] == SINE_CODES).all()
    assert prefix.text.tolist() == [3] * 11 + [40, 41, 42] + [3] * 6


def test_other_weights_encode_silence_afresh_after_the_voice_and_the_tone_throughout() -> None:
    streams: list[int] = []

    def encode(chunks: Iterable[npt.NDArray[np.float32]]) -> npt.NDArray[np.uint16]:
        codes = loudest(chunks)
        streams.append(len(codes))
        return codes

    voice = made_codes(30)
    prefix = build_prefix(voice, range(10, 20), encode)
    assert streams == [22, 52]
    assert (prefix.codes[:30, :8] == voice).all()
    assert (prefix.codes[30:, :8] == 0).all()
    assert (prefix.codes[:, 8:] == 500).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.lists(st.integers(4, 31_999), max_size=200))
def test_every_role_piece_has_a_frame_of_its_own(voice_frames: int, pieces: list[int]) -> None:
    prefix = build_prefix(made_codes(voice_frames), pieces, None)
    assert prefix.layout.frames == voice_frames + len(pieces) + 12 == len(prefix.text)
    spoken = np.flatnonzero(prefix.text != 3)
    assert prefix.text[spoken].tolist() == pieces
    assert spoken.tolist() == list(range(voice_frames + 6, voice_frames + 6 + len(pieces)))


def test_a_prefix_that_fills_the_context_is_refused() -> None:
    assert plan_prefix(2_987, []).frames == 2_999
    with pytest.raises(CallRefused, match="3000 frames") as caught:
        plan_prefix(2_900, [9] * 88)
    assert caught.value.code == "prefix-too-long"
    assert CODES[caught.value.code].severity == "error"
    with pytest.raises(CallRefused):
        build_prefix(None, [9] * 20, None, context_frames=32)
    assert build_prefix(None, [9] * 19, None, context_frames=32).layout.frames == 31


@pytest.mark.parametrize("piece", [0, 3, -1, 32_000])
def test_an_id_that_is_no_text_is_refused(piece: int) -> None:
    with pytest.raises(UsageError, match=str(piece)):
        plan_prefix(0, [9, piece])


def test_parts_of_the_wrong_shape_or_range_are_refused() -> None:
    layout = plan_prefix(2, [9])
    voice, silence, sine = made_codes(2), made_codes(13), made_codes(15)
    compose_prefix(layout, voice, silence, sine)
    with pytest.raises(UsageError, match="silence codes have shape"):
        compose_prefix(layout, voice, silence[1:], sine)
    with pytest.raises(UsageError, match="voice codes have shape"):
        compose_prefix(layout, None, silence, sine)
    with pytest.raises(UsageError, match="sine codes reach"):
        compose_prefix(layout, voice, silence, np.full((15, 8), 2_048, np.uint16))
    with pytest.raises(UsageError, match="-1 frames"):
        plan_prefix(-1, [])


@pytest.mark.parametrize("frames", [0, 1, 25, 26, 80])
def test_the_tone_is_continuous_over_chunks(frames: int) -> None:
    samples = np.concatenate([np.zeros(0, np.float32), *sine_chunks(frames)])
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(frames * FRAME_SAMPLES) / SAMPLE_RATE_HZ)
    np.testing.assert_allclose(samples, expected, atol=1e-6)
    assert samples.dtype == np.float32
    assert all(len(chunk) <= 48_000 for chunk in sine_chunks(frames))
    quiet = np.concatenate([np.zeros(0, np.float32), *silence_chunks(frames)])
    assert len(quiet) == len(samples)
    assert not quiet.any()


def test_released_weights_are_known_by_their_codes_for_silence() -> None:
    def released(chunks: Iterable[npt.NDArray[np.float32]]) -> npt.NDArray[np.uint16]:
        codes = np.tile(np.array(SILENCE_CODES, np.uint16), (sum(map(len, chunks)) // FRAME_SAMPLES, 1))
        codes[:4] = made_codes(4)  # the codec has not settled yet
        codes[9, 6:] = 5  # a near tie
        return codes

    assert codec_is_released(released)
    assert not codec_is_released(loudest)


def test_the_role_is_wrapped_once_and_tokenized_as_one_text() -> None:
    assert wrap_role("  You work for Blue River Bank. ") == "<system> You work for Blue River Bank. <system>"
    assert wrap_role("<system> You enjoy talking. <system>") == "<system> You enjoy talking. <system>"
    assert wrap_role("<system>") == "<system> <system> <system>"
    tokenizer = TextTokenizer.load()
    text = wrap_role("Your name is Karim.")
    prefix = build_prefix(None, tokenizer.encode(text), None)
    assert tokenizer.decode(prefix.text.tolist()) == text


@pytest.mark.slow
def test_a_real_codec_fills_the_prefix() -> None:
    pytest.importorskip("transformers")
    untrained_codec = load_codec("untrained:0")
    assert not codec_is_released(untrained_codec.encode)
    voice = made_codes(4)
    prefix = build_prefix(voice, [40, 41], untrained_codec.encode)
    assert (prefix.codes[4:, :8] == untrained_codec.encode([np.zeros(14 * FRAME_SAMPLES, np.float32)])).all()
    assert (prefix.codes[:, 8:] == untrained_codec.encode(sine_chunks(18))).all()
    assert (prefix.codes[4:, :8] != prefix.codes[4:, 8:]).any()
