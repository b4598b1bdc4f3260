"""Every code by its name, in the order of the reference page."""

from __future__ import annotations

from typing import Final

from inkplex_data.problems import (
    audio_codes,
    build_codes,
    corpus_codes,
    evidence_codes,
    recording_codes,
    speech_codes,
    text_codes,
    word_codes,
)
from inkplex_data.problems.code_table import Code

CODES: Final[dict[str, Code]] = {
    **corpus_codes.CORPUS,
    **recording_codes.RECORDING,
    **word_codes.WORDS,
    **text_codes.INTERLEAVE,
    **text_codes.PREFIX,
    **recording_codes.MEMORY,
    **evidence_codes.EVIDENCE,
    **audio_codes.AUDIO,
    **speech_codes.CHANNELS,
    **speech_codes.ALIGN,
    **speech_codes.DIARIZE,
    **speech_codes.CHECK_SPEECH,
    **text_codes.SURPRISE,
    **corpus_codes.TRACES,
    **build_codes.EXPORT,
    **build_codes.STORE,
    **build_codes.BUILD,
}
