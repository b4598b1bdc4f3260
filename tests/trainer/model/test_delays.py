"""Delays are one arithmetic, used for whole sequences, for logits and for single tokens."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.errors import UsageError
from inkplex_data.trainer.model.delays import RELEASED_DELAYS, Delays
from inkplex_data.trainer.model.ring import CodeRing

DELAYS = st.lists(st.integers(0, 3), min_size=1, max_size=5)


@given(delays=DELAYS, frames=st.integers(0, 7))
@settings(deadline=None, max_examples=60)
def test_sequence_puts_each_token_at_its_position(delays: list[int], frames: int) -> None:
    rule, streams = Delays(delays), len(delays)
    codes = torch.arange(streams * frames).view(1, streams, frames)
    initial = -10 - torch.arange(streams)
    sequence = rule.sequence(codes, initial)
    expected = initial.view(1, -1, 1).repeat(1, 1, frames + 1)
    for frame in range(frames):
        for stream, position in enumerate(rule.positions(frame).tolist()):
            if position <= frames:
                expected[0, stream, position] = codes[0, stream, frame]
    assert torch.equal(sequence, expected)


@given(delays=DELAYS, frames=st.integers(1, 7))
@settings(deadline=None, max_examples=60)
def test_align_undoes_sequence(delays: list[int], frames: int) -> None:
    """If a step's logits name the token that it predicts, aligned logits name the token of their frame."""
    rule, streams = Delays(delays), len(delays)
    codes = torch.arange(streams * frames).view(1, streams, frames)
    predicted = rule.sequence(codes, torch.full((streams,), -1))[..., 1:]
    aligned, mask = rule.align(predicted.unsqueeze(-1).float(), first_stream=0)
    assert torch.equal(aligned[..., 0][mask], codes[mask].float())
    assert aligned[..., 0][~mask].isnan().all()
    assert (~mask).sum(dim=-1)[0].tolist() == [min(delay, frames) for delay in delays]


@given(delays=DELAYS, frames=st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_the_ring_reads_what_the_sequence_holds(delays: list[int], frames: int) -> None:
    """Forced through the ring, a call gives the columns that training reads, and comes out as it went in."""
    rule, streams = Delays(delays), len(delays)
    codes = torch.arange(streams * frames).view(1, streams, frames)
    initial = 1000 + torch.arange(streams)
    sequence, ring = rule.sequence(codes, initial), CodeRing(rule, initial, 1)
    for frame in range(frames):
        ring.place(codes[..., frame])
        assert torch.equal(ring.column(), sequence[..., frame])
        target, provided = ring.target()
        assert provided.all()
        assert torch.equal(target, sequence[..., frame + 1])
        ring.advance(None)
        emitted = ring.emitted()
        if frame < rule.maximum:
            assert emitted is None
        else:
            assert emitted is not None
            assert emitted[0] == frame - rule.maximum
            assert torch.equal(emitted[1], codes[..., frame - rule.maximum])


def test_released_delays_and_refusals() -> None:
    assert Delays(RELEASED_DELAYS).positions(0).tolist() == [1, 1, *[2] * 7, 1, *[2] * 7]
    with pytest.raises(UsageError, match="zero or more"):
        Delays([0, -1])
    with pytest.raises(UsageError, match="3 streams, the codes have 2"):
        Delays([0, 0, 1]).sequence(torch.zeros(1, 2, 4, dtype=torch.long), torch.zeros(3))
