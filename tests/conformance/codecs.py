"""What every codec must do. One passes by subclassing `CodecConformance`.

class TestMyCodec(CodecConformance):
    @pytest.fixture
    def codec(self) -> Codec:
        return load_codec("my-kind:name")
"""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from inkplex_data.clock import FRAME_SAMPLES, SAMPLE_RATE_HZ
from inkplex_data.errors import UsageError
from inkplex_data.grid import AUDIO_CARD, CODEBOOKS
from inkplex_data.speech.codec_identity import CHUNK_SAMPLES
from inkplex_data.speech.codec_stream import Codec

SOUND = np.random.default_rng(5).normal(scale=0.1, size=CHUNK_SAMPLES + 5_000).astype(np.float32)


class CodecConformance:
    """The suite of one codec."""

    @pytest.fixture
    def codec(self) -> Codec:
        raise NotImplementedError

    @pytest.mark.parametrize(
        ("samples", "frames"),
        [(0, 0), (1, 1), (1_919, 1), (1_920, 1), (1_921, 2), (48_000, 25), (48_001, 26)],
    )
    def test_frames_are_ceil_of_samples(self, codec: Codec, samples: int, frames: int) -> None:
        codes = codec.encode(SOUND[:samples])
        assert codes.shape == (frames, CODEBOOKS) and codes.dtype == np.uint16
        assert codes.max(initial=0) < AUDIO_CARD

    @pytest.mark.parametrize("cuts", [[0, 1, 1_919], [1_920, 48_000, 48_001], [17_000, 17_000, 52_999]])
    def test_codes_do_not_depend_on_how_callers_cut(self, codec: Codec, cuts: list[int]) -> None:
        stream, parts = codec.stream(), []
        for start, stop in itertools.pairwise([0, *cuts, len(SOUND)]):
            piece = SOUND[start:stop].copy()
            parts.append(stream.push(piece))
            piece[:] = 9  # the caller may reuse its buffer
        parts.append(stream.finish())
        np.testing.assert_array_equal(np.concatenate(parts), codec.encode(SOUND))

    def test_the_last_frame_is_padded_with_zeros(self, codec: Codec) -> None:
        padded = np.pad(SOUND, (0, -len(SOUND) % FRAME_SAMPLES))
        np.testing.assert_array_equal(codec.encode([padded]), codec.encode(SOUND))

    def test_a_pair_in_step_is_encoded_as_each_alone(self, codec: Codec) -> None:
        """Two streams do not disturb each other either."""
        other = np.roll(SOUND, 5_000)
        pairs = ((SOUND[at : at + 30_011], other[at : at + 30_011]) for at in range(0, len(SOUND), 30_011))
        codes = codec.encode_pair(pairs)
        assert codes.dtype == np.uint16
        np.testing.assert_array_equal(codes[:, :CODEBOOKS], codec.encode(SOUND))
        np.testing.assert_array_equal(codes[:, CODEBOOKS:], codec.encode(other))

    def test_samples_that_are_no_sound_are_refused(self, codec: Codec) -> None:
        stream = codec.stream()
        stream.push(np.zeros(10, np.float32))
        for wrong in (np.array([0, np.nan, 0], np.float32), np.full(3, np.inf), np.zeros((2, 100))):
            with pytest.raises(UsageError):
                stream.push(wrong)

    def test_a_finished_stream_takes_no_more(self, codec: Codec) -> None:
        stream = codec.stream()
        assert stream.finish().shape == (0, CODEBOOKS)
        with pytest.raises(UsageError, match="finished"):
            stream.push(np.zeros(10, np.float32))
        with pytest.raises(UsageError, match="finished"):
            stream.finish()

    @pytest.mark.parametrize("frames", [0, 1, 3])
    def test_a_frame_decodes_to_80_ms(self, codec: Codec, frames: int) -> None:
        samples = codec.decode(codec.encode(SOUND[: frames * FRAME_SAMPLES]).T)
        assert samples.shape == (frames * FRAME_SAMPLES,) and samples.dtype == np.float32
        assert np.isfinite(samples).all()

    @pytest.mark.parametrize(
        "codes", [np.zeros((20, 8)), np.zeros(8), np.full((8, 3), AUDIO_CARD), np.full((8, 3), -1)]
    )
    def test_codes_that_are_none_are_refused(self, codec: Codec, codes: np.ndarray) -> None:
        with pytest.raises(UsageError):
            codec.decode(codes)

    def test_its_identity_is_plain_data_of_the_frame_grid(self, codec: Codec) -> None:
        identity = codec.identity.as_dict()
        assert json.loads(json.dumps(identity)) == identity
        assert (
            identity["id"] and "\\" not in identity["id"] and not identity["id"].startswith(("/", "~", "."))
        )
        geometry = [identity[key] for key in ("codebooks", "frame_samples", "sample_rate_hz")]
        assert geometry == [CODEBOOKS, FRAME_SAMPLES, SAMPLE_RATE_HZ]
