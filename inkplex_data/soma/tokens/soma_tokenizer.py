"""The fixed tokenizer of every soma model: soma-8k-v1 (seeds/001, section 2).

A SentencePiece BPE model of 8,192 pieces without normalisation. No piece crosses white space: a space begins a piece, and
every control character, line ends among them, is a byte piece. So a text may be cut before any space and on both
sides of any control character, and gives the same tokens in parts as in one.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.errors import CheckpointError

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

IntArray = npt.NDArray[np.int32]

NAME: Final = "soma-8k-v1"
MODEL: Final = Path(__file__).parent / "data" / f"{NAME}.model"
SHA256: Final = "48661b76d8a1a6205b0afe915f89ef08bc419158dddb39fe364bd48de8718a50"
"""That of the model file. A checkpoint holds it: another dictionary is another species, even of the same shape."""

VOCABULARY: Final = 8_192
PROTOCOL: Final = ("<|soma_state|>", "<|turn|>", "<|user|>", "<|soma|>", "<|dream|>")
UNKNOWN: Final = 0
STATE, TURN, USER, SOMA, DREAM = range(1, 6)
_FIRST_BYTE: Final = 6
_SPACE: Final = "\u2581"
_BARRIER: Final = re.compile("([\\ud800-\\udfff\u2581]+)")
"""SentencePiece writes a space as U+2581, so one in the source is spelled in bytes; so is what is not UTF-8."""


class SomaTokenizer:
    """Bytes to ids and back, without loss. Pickles as the packaged model that it is."""

    def __init__(self, serialized: bytes) -> None:
        """Raises CheckpointError for any other model than the one that all soma models share."""
        self.sha256 = hashlib.sha256(serialized).hexdigest()
        if self.sha256 != SHA256:
            raise CheckpointError(
                f"the file of the tokenizer {NAME} is not the one that soma's models are made with",
                where=str(MODEL),
                next_step="Install inkplex-data again.",
            )
        from sentencepiece import SentencePieceProcessor

        self._model: SentencePieceProcessor = SentencePieceProcessor()
        self._model.load_from_serialized_proto(serialized)
        self._bytes = [self._bytes_of(piece) for piece in range(VOCABULARY)]
        self.piece_bytes: IntArray = np.array([len(data) for data in self._bytes], dtype=np.int32)

    @classmethod
    def load(cls) -> SomaTokenizer:
        """The packaged tokenizer, read once a process."""
        return _packaged()

    def __reduce__(self) -> tuple[Callable[[], SomaTokenizer], tuple[()]]:
        return (_packaged, ())

    def encode(self, data: bytes) -> IntArray:
        """Ids of source bytes, int32 [n]. The spelling of a protocol piece is text like any other here."""
        parts = _BARRIER.split(data.decode("utf-8", "surrogateescape"))
        ids: list[int] = []
        for number, part in enumerate(parts):
            if number % 2:
                ids.extend(_FIRST_BYTE + byte for byte in part.encode("utf-8", "surrogateescape"))
            elif part:
                ids.extend(self._model.encode(part))
        return np.array(ids, dtype=np.int32)

    def decode(self, ids: Iterable[int]) -> bytes:
        """The source bytes of ids; protocol pieces and the unknown piece stand for none.

        Raises IndexError for an id outside 0 … 8,191.
        """
        return b"".join(self._bytes[i] for i in map(int, ids))

    def piece(self, piece_id: int) -> str:
        """How a piece reads on a screen: its text, `<0x0A>` for a lone byte, `<|turn|>` for a protocol piece."""
        return self._model.id_to_piece(int(piece_id)).replace(_SPACE, " ")

    def _bytes_of(self, piece: int) -> bytes:
        if piece < _FIRST_BYTE:
            return b""
        if piece < _FIRST_BYTE + 256:
            return bytes([piece - _FIRST_BYTE])
        return self._model.id_to_piece(piece).replace(_SPACE, " ").encode()


@cache
def _packaged() -> SomaTokenizer:
    return SomaTokenizer(MODEL.read_bytes())


class IncrementalDecoder:
    """Ids one by one to text: a character that is spelled in several tokens comes out with its last."""

    def __init__(self, tokenizer: SomaTokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, piece_id: int) -> str:
        """The text that this token completes, often empty. What is no UTF-8 becomes U+FFFD."""
        return self._decoder.decode(self._tokenizer.decode([piece_id]))

    def finish(self) -> str:
        """What is left at the end: U+FFFD for an unfinished character. The decoder may be used again."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text

    def text(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of `ids` piece by piece, with its end."""
        for piece_id in ids:
            yield self.push(piece_id)
        yield self.finish()
