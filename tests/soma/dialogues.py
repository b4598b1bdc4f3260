"""Calls with given words, for stores that tests make."""

from __future__ import annotations

import numpy as np

from inkplex_data.store.format import WORDS
from tests.store.made import CallPart, call_part, table


def dialogue_part(call_id: str, said: list[tuple[str, str]]) -> CallPart:
    """A call in which (speaker, word) follow each other, 300 ms each."""
    part = call_part(call_id, 4 * max(len(said), 1), versions=0)
    starts = np.arange(len(said)) * 300_000
    part.words = table(
        WORDS,
        len(said),
        word_ix=np.arange(len(said)),
        text=[word for _, word in said],
        speaker=[speaker for speaker, _ in said],
        start_us=starts,
        end_us=starts + 250_000,
        frame=starts // 80_000,
        pieces=[[5]] * len(said),
    )
    return part
