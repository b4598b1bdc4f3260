"""Who a token is from, and what it therefore weighs as a target (seeds/001, section 9).

A side of a dialogue is its role piece, its text and a turn piece: `<|user|> hello<|turn|><|soma|> good morning<|turn|>`.
The model's own state, `<|soma_state|> …<|turn|>`, and dreams are perceived and never learned. What stands outside any
role, such as a book, is external text and is learned.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from inkplex_data.soma.tokens.soma_tokenizer import DREAM, SOMA, STATE, TURN, UNKNOWN, USER, IntArray

Side = Literal["user", "soma"]
ROLE: Final[dict[Side, int]] = {"user": USER, "soma": SOMA}
YIELD_WEIGHT: Final = 0.1
"""Weight of the turn piece that ends a recorded reply: enough to teach yielding, and not to make silence the easiest."""

_PERCEIVED: Final = (STATE, DREAM)


class TargetWeights:
    """The weights of a stream of tokens as targets, taken in blocks of any size: what a token weighs follows from the
    last role or turn piece before it, which is all that is kept from block to block."""

    def __init__(self) -> None:
        self._role = TURN

    def of(self, ids: IntArray) -> npt.NDArray[np.float32]:
        """float32 [n]: 0 masked, 0.1 the turn piece that ends a reply of `<|soma|>`, 1 external text."""
        marks = np.flatnonzero((ids >= STATE) & (ids <= DREAM))
        weights = np.ones(len(ids), np.float32)
        weights[ids == UNKNOWN] = 0
        begin = 0
        for at in [*marks.tolist(), len(ids)]:
            if self._role in _PERCEIVED:
                weights[begin:at] = 0
            if at < len(ids):
                is_yield = ids[at] == TURN and self._role == SOMA
                weights[at] = YIELD_WEIGHT if is_yield else 0
                self._role = int(ids[at])
            begin = at + 1
        return weights
