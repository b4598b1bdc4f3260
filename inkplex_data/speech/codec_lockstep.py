"""Several calls that are encoded at once, each in a thread of its own, through one model in lockstep.

A call decodes its audio while others wait for the model, and the model runs when all calls that are left have brought
their next two seconds. A call that ends or fails gives its place up to silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Condition
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.speech.codec_identity import CHUNK_SAMPLES
from inkplex_data.speech.codec_mimi import MimiCodec
from inkplex_data.speech.codec_rows import encode_pair_rows
from inkplex_data.speech.codec_stream import Codec, CodecStream, Codes, Samples

SIDES: Final = 2


class Lockstep:
    """A batch of `codec.identity.batch_rows` channels for `calls` calls, each of which leaves it when
    it has done, whatever became of it."""

    def __init__(self, codec: MimiCodec, calls: int) -> None:
        self._rows = codec.rows()
        if not 1 <= calls * SIDES <= self._rows.count:
            raise ValueError(f"{calls} calls for {self._rows.count} rows")
        self._beside = np.zeros((self._rows.count, CHUNK_SAMPLES), np.float32)
        self._turn = Condition()
        self._left = set(range(calls))
        self._waiting = self._steps = 0
        self._codes: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._error: BaseException | None = None

    def step(self, place: int, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """Codes int64 [2, 25, 8] of the next chunk float32 [2, 48,000] of a call, when all others have theirs too."""
        first = place * SIDES
        with self._turn:
            self._beside[first : first + SIDES] = samples
            self._waiting += 1
            mine = self._steps
            if self._waiting == len(self._left):
                self._run()
            else:
                self._turn.wait_for(lambda: self._steps > mine)
            if self._error is not None:
                raise self._error
            return self._codes[first : first + SIDES]

    def leave(self, place: int) -> None:
        """The call at this place is no longer waited for."""
        with self._turn:
            self._left.discard(place)
            if 0 < len(self._left) == self._waiting:
                self._run()

    def _run(self) -> None:
        try:
            self._codes = self._rows.step(self._beside)
        except BaseException as error:  # every call of the batch has to hear of it, or it waits for ever
            self._error = error
        self._beside[:] = 0
        self._waiting = 0
        self._steps += 1
        self._turn.notify_all()


class SharedCodec(Codec):
    """The codec as one call of a batch sees it: a pair takes its place among the others', all else runs alone."""

    def __init__(self, codec: MimiCodec, batch: Lockstep, place: int) -> None:
        self.identity = codec.identity
        self.count = SIDES
        self._codec, self._batch, self._place = codec, batch, place

    def step(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        return self._batch.step(self._place, samples)

    def encode_pair(self, pairs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]) -> Codes:
        try:
            return encode_pair_rows(self, pairs)
        finally:
            self._batch.leave(self._place)

    def stream(self) -> CodecStream:
        return self._codec.stream()

    def decode(self, codes: npt.ArrayLike) -> Samples:
        return self._codec.decode(codes)
