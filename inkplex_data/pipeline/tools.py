"""The heavy tools of a worker process, loaded once each: codec, tokenizer, reasoning model."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inkplex_data.audio.band import BandwidthExtension
    from inkplex_data.memory.capture.inkling import Dtype, Inkling
    from inkplex_data.speech.align.transcribe import SpeechAligner
    from inkplex_data.speech.check.scorer import WhisperScorer
    from inkplex_data.speech.codec_stream import Codec
    from inkplex_data.speech.diarize.diarizer import Diarizer
    from inkplex_data.speech.tokenizer import TextTokenizer


@lru_cache(maxsize=1)
def codec(spec: str) -> Codec:
    """One Mimi per process, on one thread: calls in parallel beat threads within a call."""
    from inkplex_data.speech.codec import load_codec

    return load_codec(spec, threads=1)


@lru_cache(maxsize=2)
def tokenizer(path: str | None) -> TextTokenizer:
    """The text tokenizer of a recipe."""
    from inkplex_data.speech.tokenizer import TextTokenizer

    return TextTokenizer.load(path)


@lru_cache(maxsize=1)
def aligner(whisper: str, forced: str, language: str) -> SpeechAligner:
    """Whisper and the forced aligner of a recipe."""
    from inkplex_data.speech.align.transcribe import SpeechAligner

    return SpeechAligner(whisper, retime=forced, language=language)


@lru_cache(maxsize=1)
def speech_scorer(whisper: str) -> WhisperScorer:
    """The Whisper that checks speech."""
    from inkplex_data.speech.check.scorer import WhisperScorer

    return WhisperScorer(whisper)


@lru_cache(maxsize=1)
def diarizer(spec: str, speakers: int | None) -> Diarizer:
    """The diarizer of a recipe."""
    from inkplex_data.speech.diarize.diarizer import load_diarizer

    return load_diarizer(spec, speakers=speakers)


@lru_cache(maxsize=1)
def bandwidth(name: str) -> BandwidthExtension | None:
    """The model that widens the band of telephone speech; None for plain resampling."""
    from inkplex_data.audio.band import bandwidth_extension

    return bandwidth_extension(name)


@lru_cache(maxsize=1)
def inkling(spec: str, dtype: Dtype, device: str) -> Inkling:
    """One Inkling per process, for the states of recordings that bring none."""
    from inkplex_data.memory.capture.inkling import load_inkling

    return load_inkling(spec, dtype=dtype, device=device)
