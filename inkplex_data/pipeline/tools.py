"""The heavy tools of a worker process, loaded once each: codec, tokenizer, reasoning model.

A process may outlive a build, so a tool whose files were replaced under their name is loaded again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from inkplex_data.config.recipe import CodecConfig
from inkplex_data.pipeline.stamp import named_files

if TYPE_CHECKING:
    from inkplex_data.audio.band_extension import BandwidthExtension
    from inkplex_data.memory.capture.inkling import Dtype, Inkling
    from inkplex_data.speech.align.transcribe import SpeechAligner
    from inkplex_data.speech.check.scorer import WhisperScorer
    from inkplex_data.speech.codec_identity import StreamKind
    from inkplex_data.speech.codec_stream import Codec
    from inkplex_data.speech.diarize.diarizer import Diarizer
    from inkplex_data.speech.tokenizer import TextTokenizer


P = ParamSpec("P")
T = TypeVar("T")


def _loaded_once(load: Callable[P, T]) -> Callable[P, T]:
    """`load` with its last result kept, as long as the files that its arguments name are the same."""

    @lru_cache(maxsize=1)
    def kept(marks: tuple[str | None, ...], *args: P.args, **kwargs: P.kwargs) -> T:
        return load(*args, **kwargs)

    @wraps(load)
    def get(*args: P.args, **kwargs: P.kwargs) -> T:
        marks = tuple(named_files(value) for value in (*args, *kwargs.values()) if isinstance(value, str))
        return kept(marks, *args, **kwargs)  # type: ignore[arg-type]

    return get


def codec(config: CodecConfig, device: str) -> Codec:
    """The codec of a recipe, on a device: one per process, on one thread, since calls in parallel beat threads within a call."""
    return _codec(config.id, device, config.batch_rows, config.stream)


@_loaded_once
def _codec(spec: str, device: str, rows: int, stream: StreamKind) -> Codec:
    from inkplex_data.speech.codec import load_codec

    return load_codec(spec, device=device, threads=1, rows=rows, stream=stream)


@_loaded_once
def tokenizer(path: str | None) -> TextTokenizer:
    """The text tokenizer of a recipe."""
    from inkplex_data.speech.tokenizer import TextTokenizer

    return TextTokenizer.load(path)


@_loaded_once
def aligner(whisper: str, forced: str, language: str, device: str) -> SpeechAligner:
    """Whisper and the forced aligner of a recipe."""
    from inkplex_data.speech.align.transcribe import SpeechAligner

    return SpeechAligner(whisper, retime=forced, language=language, device=device)


@_loaded_once
def speech_scorer(whisper: str, device: str) -> WhisperScorer:
    """The Whisper that checks speech."""
    from inkplex_data.speech.check.scorer import WhisperScorer

    return WhisperScorer(whisper, device=device)


@_loaded_once
def diarizer(spec: str, speakers: int | None, device: str) -> Diarizer:
    """The diarizer of a recipe."""
    from inkplex_data.speech.diarize.diarizer import load_diarizer

    return load_diarizer(spec, speakers=speakers, device=device)


def bandwidth(name: str) -> BandwidthExtension | None:
    """The model that widens the band of telephone speech; None for plain resampling. Raises ConfigError."""
    from inkplex_data.audio.band_extension import source_of

    source = source_of(name)
    return _bandwidth(name, None if source is None else named_files(str(source)))


@lru_cache(maxsize=1)
def _bandwidth(name: str, mark: str | None) -> BandwidthExtension | None:
    from inkplex_data.audio.band_extension import bandwidth_extension

    return bandwidth_extension(name)


@_loaded_once
def inkling(spec: str, dtype: Dtype, device: str) -> Inkling:
    """One Inkling per process, for the states of recordings that bring none."""
    from inkplex_data.memory.capture.inkling import load_inkling

    return load_inkling(spec, dtype=dtype, device=device)
