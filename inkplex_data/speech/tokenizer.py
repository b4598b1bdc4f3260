"""The text tokenizer of the speech model: a SentencePiece model whose ids fit the text stream.

The released models use 32,000 pieces with unk 0, bos 1, eos 2, pad 3 and byte fallback, and give ids 3 and 0
the meanings PAD and EPAD in the stream (seeds/000, section 9). Any model of that form can be used; a small
one, trained by examples/train_tokenizer.py, comes with the package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from inkplex_data.errors import ConfigError, CorpusError, UsageError
from inkplex_data.grid import TEXT_CARD
from inkplex_data.reading import read_bounded
from inkplex_data.speech.tokenizer_spans import SpanFinder, Spans

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

T = TypeVar("T")

SMALL_MODEL: Final = Path(__file__).parent / "data" / "small.model"
SMALL_NAME: Final = "inkplex-small"

SPECIAL_IDS: Final = {"unk": 0, "bos": 1, "eos": 2, "pad": 3}
MAX_MODEL_BYTES: Final = 32 << 20
# Distinct words of a large corpus fit; beyond this the cache starts afresh, so that memory stays flat.
_CACHE_WORDS: Final = 1 << 17
_CACHE_CHARACTERS: Final = 64


@dataclass(frozen=True)
class TokenizerIdentity:
    """What a store keeps about its tokenizer. `sha256` is that of the model file."""

    name: str
    sha256: str
    pieces: int


class TextTokenizer:
    """A checked SentencePiece model, with a cache of distinct words. Pickles by value."""

    def __init__(self, serialized: bytes, name: str) -> None:
        """Use a serialized model. Raises ConfigError that lists every reason why it does not fit."""
        self._serialized = serialized
        self._model = _load(serialized, name)
        sha256 = hashlib.sha256(serialized).hexdigest()
        self.identity = TokenizerIdentity(name, sha256, self._model.vocab_size())
        self._spans = SpanFinder(self._model)
        self._ids_of: dict[str, tuple[int, ...]] = {}
        self._spans_of: dict[str, Spans] = {}

    @classmethod
    def load(cls, path: str | Path | None = None) -> TextTokenizer:
        """Read a model file; None is the small model of the package.

        Raises ConfigError when the file cannot be read or its model does not fit the text stream.
        """
        file = SMALL_MODEL if path is None else Path(path)
        try:
            serialized = read_bounded(file, MAX_MODEL_BYTES)
        except OSError as error:
            raise ConfigError(
                f"the tokenizer cannot be read: {error.strerror or error}",
                where=str(file),
                next_step="Give the path of a SentencePiece model, or none to use the small one that comes with the package.",
            ) from error
        except CorpusError as error:
            raise ConfigError(
                f"a tokenizer of more than {MAX_MODEL_BYTES:,} bytes is not a SentencePiece model of 32,000 pieces",
                where=str(file),
            ) from error
        return cls(serialized, SMALL_NAME if path is None else file.name)

    @property
    def sha256(self) -> str:
        """sha256 of the model file, hexadecimal."""
        return self.identity.sha256

    def __len__(self) -> int:
        return self.identity.pieces

    def __reduce__(self) -> tuple[type[TextTokenizer], tuple[bytes, str]]:
        return (TextTokenizer, (self._serialized, self.identity.name))

    def encode(self, text: str) -> list[int]:
        """Piece ids of `text` without the white space around it; none for white space alone.

        Raises UsageError for text that UTF-8 cannot hold (half a surrogate pair).
        """
        return self.encode_words([text])[0]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Piece ids of each word, each tokenized on its own; every distinct word is tokenized once."""
        missing = [word for word in dict.fromkeys(words) if word not in self._ids_of]
        fresh: dict[str, tuple[int, ...]] = {}
        if missing:
            _check_text(missing)
            encoded = self._model.encode([word.strip() for word in missing], num_threads=1)
            fresh = {word: tuple(ids) for word, ids in zip(missing, encoded, strict=True)}
        found = [list(fresh[word] if word in fresh else self._ids_of[word]) for word in words]
        _keep(self._ids_of, fresh)
        return found

    def byte_pieces(self, ids: Iterable[int]) -> int:
        """How many of these pieces stand for a single byte, since the model has no piece for its character."""
        return sum(self._model.is_byte(list(ids)))

    def pieces_with_spans(self, text: str) -> Spans:
        """Pieces of `text` and the bytes of its UTF-8 that each stands for: (ids, starts, ends).

        Spans are half-open byte ranges of the text as given, whatever the model's normalisation made of it:
        pieces that came out of one character (`ﬁ`, `①`, a letter with a combining mark) each span all of
        it. A byte piece spans its byte. The `▁` that SentencePiece puts before a text spans nothing, nor does
        a piece that is only `▁`.

        Raises UsageError for text that UTF-8 cannot hold.
        """
        spans = self._spans_of.get(text)
        if spans is None:
            _check_text([text])
            spans = self._spans(text)
            _keep(self._spans_of, {text: spans})
        return Spans(*map(list, spans))

    def piece(self, piece_id: int) -> str:
        """The piece as SentencePiece spells it, with `▁` for a space and `<0x0A>` for a byte.

        Raises UsageError for an id that the tokenizer does not have.
        """
        if not 0 <= piece_id < len(self):
            raise UsageError(f"the tokenizer has no piece {piece_id}; it has 0…{len(self) - 1}")
        return self._model.id_to_piece(piece_id)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of pieces; PAD, EPAD, BOS and EOS and ids that the tokenizer lacks are left out."""
        return self._model.decode([int(i) for i in ids if max(SPECIAL_IDS.values()) < i < len(self)])


def _load(serialized: bytes, name: str) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor()
    try:
        if not serialized:
            raise RuntimeError("the file is empty")
        model.LoadFromSerializedProto(serialized)
        # A damaged model loads, and fails at the piece that is no text.
        for piece_id in range(model.vocab_size()):
            model.id_to_piece(piece_id)
    except (RuntimeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not a SentencePiece model: {error}", where=name) from error
    faults = [
        f"the id of {token} is {got}; the text stream needs {wanted}"
        for token, wanted in SPECIAL_IDS.items()
        if (got := getattr(model, f"{token}_id")()) != wanted
    ]
    size = model.vocab_size()
    byte_pieces = sum(model.is_byte(i) for i in range(size))
    if byte_pieces != 256:
        faults.append(
            f"it has {byte_pieces} byte pieces; without byte fallback (256 of them) an unknown character "
            "becomes id 0, which is end-of-padding in the text stream"
        )
    if size > TEXT_CARD:
        faults.append(f"it has {size} pieces; the speech model has {TEXT_CARD} text classes")
    if faults:
        raise ConfigError(
            "the tokenizer does not fit the text stream",
            where=name,
            faults=faults,
            next_step="Use the tokenizer that comes with the speech model, or train one with examples/train_tokenizer.py.",
        )
    return model


def _check_text(texts: Sequence[str]) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{text!r} holds half a surrogate pair, which has no UTF-8",
                next_step="Replace it with U+FFFD before tokenizing.",
            ) from error


def _keep(cache: dict[str, T], fresh: dict[str, T]) -> None:
    """Remember short texts, within the cache's bound."""
    short = {text: value for text, value in fresh.items() if len(text) <= _CACHE_CHARACTERS}
    if len(cache) + len(short) > _CACHE_WORDS:
        cache.clear()
    if len(short) <= _CACHE_WORDS:
        cache.update(short)
