"""Channels in lockstep: what is encoded beside a waveform, and where in the batch it lies, changes none of its codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from safetensors.numpy import load_file

from inkplex_data.errors import UsageError
from inkplex_data.speech.codec_identity import CHUNK_SAMPLES, differing_arithmetic, same_codec
from inkplex_data.speech.codec_mimi import MimiCodec
from inkplex_data.speech.codec_rows import MimiRows
from inkplex_data.speech.codec_weights import common_name

GOLDEN = Path(__file__).parents[1] / "golden" / "mimi_streams.safetensors"


def variant(codec: MimiCodec, **run: object) -> MimiCodec:
    """The same weights, run in another way."""
    state = {common_name(name): tensor for name, tensor in codec.model.state_dict().items()}
    return MimiCodec(codec.identity.id, state, True, **run)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_a_row_hears_nothing_of_its_neighbours(
    untrained_codec: MimiCodec, caller_speech: np.ndarray, rows: int
) -> None:
    codec = variant(untrained_codec, rows=rows)
    own = caller_speech[: CHUNK_SAMPLES + 9_000]
    noise = np.random.default_rng(rows).normal(scale=0.3, size=2 * CHUNK_SAMPLES).astype(np.float32)
    ends = (17, 2 * CHUNK_SAMPLES, CHUNK_SAMPLES, 1_921, 0, CHUNK_SAMPLES + 1, 30_000)
    others = [noise[:end] for end in ends[: rows - 1]]
    alone = codec.encode(own)
    first = codec.encode_batch([own, *others])
    last = codec.encode_batch([*(other[::-1] for other in others), own])
    assert [len(codes) for codes in first] == [-(-len(x) // 1_920) for x in (own, *others)]
    np.testing.assert_array_equal(first[0], alone)
    np.testing.assert_array_equal(last[-1], alone)
    # A neighbour that ended is silence for the others, and its codes are those that it has alone.
    np.testing.assert_array_equal(first[1], codec.encode(others[0]))
    # Of one row alone the codes differ in near ties at most.
    assert (untrained_codec.encode(own) != alone).mean() < 0.01


def test_a_pair_is_a_batch_and_pieces_are_cut_anew(
    untrained_codec: MimiCodec, caller_speech: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec = variant(untrained_codec, rows=2)
    agent, caller = caller_speech[:9_000], caller_speech[20_000:29_000]
    steps: list[tuple[int, ...]] = []
    step = MimiRows.step

    def counted(rows: MimiRows, samples: np.ndarray) -> np.ndarray:
        steps.append(samples.shape)
        return step(rows, samples)

    monkeypatch.setattr(MimiRows, "step", counted)
    codes = codec.encode_pair((agent[at : at + 777], caller[at : at + 777]) for at in range(0, 9_000, 777))
    assert steps == [(2, CHUNK_SAMPLES)]
    np.testing.assert_array_equal(codes, np.concatenate(codec.encode_batch([agent, caller]), axis=1))


def test_what_is_no_batch_is_refused(untrained_codec: MimiCodec) -> None:
    codec = variant(untrained_codec, rows=2)
    with pytest.raises(UsageError, match="3 waveforms for a batch of 2 rows"):
        codec.encode_batch([np.zeros(5, np.float32)] * 3)
    with pytest.raises(UsageError, match="not finite"):
        codec.encode_batch([np.zeros(5, np.float32), np.full(5, np.nan, np.float32)])


def test_an_identity_says_how_codes_are_made(untrained_codec: MimiCodec) -> None:
    said = variant(untrained_codec, rows=4, stream="live").identity.as_dict()
    own = untrained_codec.identity.as_dict()
    before = {
        key: value
        for key, value in own.items()
        if key not in ("device", "dtype", "tf32", "batch_rows", "stream")
    }
    assert same_codec(own, before) and not same_codec(said, before)
    assert differing_arithmetic(before, said) == ["batch_rows: 1 and 4", "stream: whole and live"]
    assert not differing_arithmetic(own, before)


def test_both_streams_are_those_of_the_public_package(untrained_codec: MimiCodec, real_data: Path) -> None:
    path = real_data / "calls" / "Auto_Repairs_40_UTC_caller.wav"
    heard, rate_hz = soundfile.read(path, start=20 * 8_000, frames=16 * 8_000, dtype="float32")
    samples = soxr.resample(heard, rate_hz, 24_000).astype(np.float32)
    golden = load_file(GOLDEN)
    np.testing.assert_array_equal(untrained_codec.encode(samples), golden["whole"])
    live = variant(untrained_codec, stream="live").encode(samples)
    np.testing.assert_array_equal(live, golden["live"])
    # They hear the same until the ring is full, and not afterwards.
    parted = (golden["whole"] != golden["live"]).any(axis=1)
    assert not parted[:125].any() and parted.any()
