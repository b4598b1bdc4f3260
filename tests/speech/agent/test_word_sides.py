"""Whether words lie on their channels: pure numbers here, real calls in tests/pipeline/calls/test_text_check.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.audio.activity import STEP_US
from inkplex_data.corpus.word_repair import SPEAKER_CALLER, SPEAKER_MAIN, TimedWord
from inkplex_data.speech.agent.place import Channels
from inkplex_data.speech.agent.word_sides import Fit, fit_of_words

SECOND = 1_000_000 // STEP_US


def words(*starts_s: float, label: str = SPEAKER_MAIN) -> list[TimedWord]:
    """Words of half a second."""
    return [TimedWord("w", int(s * 1e6), int(s * 1e6) + 500_000, label, None, "") for s in starts_s]


def speaking(seconds: int, *turns: Sequence[tuple[float, float]]) -> Channels:
    """Both channels, each speaking from and to these seconds."""
    own = np.zeros((2, seconds * SECOND), np.bool_)
    for row, spans in zip(own, turns, strict=True):
        for start, end in spans:
            row[int(start * SECOND) : int(end * SECOND)] = True
    return Channels(own)


AGENT, CALLER = [(0, 4)], [(5, 8)]
SAID = [*words(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5), *words(5, 5.5, 6, 6.5, 7, 7.5, label=SPEAKER_CALLER)]


def test_a_right_call_and_its_exchange_are_opposites() -> None:
    right, exchanged = (
        fit_of_words(speaking(10, *sides), SAID) for sides in ((AGENT, CALLER), (CALLER, AGENT))
    )
    assert right is not None and exchanged is not None
    assert (right.own, right.words_us) == (1.0, 7_000_000)
    assert (exchanged.own, exchanged.other) == (right.other, right.own)
    assert exchanged.is_other_side and exchanged.is_doubtful
    assert not right.is_other_side and not right.is_doubtful


@pytest.mark.parametrize("other", [[], [(0, 10)]])
def test_silence_and_music_on_the_other_channel_decide_nothing(other: list[tuple[float, float]]) -> None:
    for sides in ((AGENT, other), (other, other), ([], other)):
        fit = fit_of_words(speaking(10, *sides), SAID)
        assert (
            fit is not None
            and not fit.is_doubtful
            and abs(fit.other) < 1e-9 + abs(fit.own) * (sides[0] == AGENT)
        )


def test_too_little_to_tell() -> None:
    assert fit_of_words(speaking(10, CALLER, AGENT), words(0, 1, 2)) is None
    assert fit_of_words(speaking(5, CALLER, AGENT), words(*np.arange(0, 4.5, 0.5).tolist())) is None
    assert fit_of_words(speaking(10, AGENT, CALLER), []) is None


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_what_is_sure_is_doubtful_too(own: float, other: float) -> None:
    fit = Fit(own, other, 0)
    assert fit.is_doubtful or not fit.is_other_side
    assert not (fit.is_doubtful and own >= other)
