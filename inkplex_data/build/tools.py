"""The heavy tools of a worker process, loaded once each: the codec and the tokenizer."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inkplex_data.speech.codec import MimiCodec
    from inkplex_data.speech.tokenizer import TextTokenizer


@lru_cache(maxsize=1)
def codec(spec: str) -> MimiCodec:
    """One Mimi per process, on one thread: calls in parallel beat threads within a call."""
    from inkplex_data.speech.codec import load_codec

    return load_codec(spec, threads=1)


@lru_cache(maxsize=2)
def tokenizer(path: str | None) -> TextTokenizer:
    """The text tokenizer of a recipe."""
    from inkplex_data.speech.tokenizer import TextTokenizer

    return TextTokenizer.load(path)
