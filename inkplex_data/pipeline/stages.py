"""The stages of a build in the order in which data flows: read it from top to bottom to know what a build does.

Each does one kind of work; what is the same for all of them (stamps, resume, results, failure) is in `stage.py`.
Between SCAN and PREFIX stands the plan, which is pure (`planning/`); after CALL, shards are published (`shards.py`).
"""

from __future__ import annotations

from typing import Any, Final

from inkplex_data.pipeline.calls.agent_side import AGENT_SIDE
from inkplex_data.pipeline.calls.build_call import CALL
from inkplex_data.pipeline.calls.clip_files import CLIP
from inkplex_data.pipeline.calls.scan_call import SCAN
from inkplex_data.pipeline.calls.speech_check import SPEECH_CHECK
from inkplex_data.pipeline.calls.spoken_words import SPOKEN_WORDS
from inkplex_data.pipeline.calls.two_streams import TWO_STREAMS
from inkplex_data.pipeline.prefixes import PREFIX
from inkplex_data.pipeline.recordings import RECORDING
from inkplex_data.pipeline.stage import Stage

STAGES: Final[tuple[Stage[Any, Any], ...]] = (
    CLIP,  # the part of a call that the corpus names, as files of its own
    TWO_STREAMS,  # one channel becomes an agent's and a caller's, where the recipe asks for it
    AGENT_SIDE,  # which channel is the agent's, where nobody says so
    SPOKEN_WORDS,  # words by Whisper, where the call brings none
    SPEECH_CHECK,  # does the agent say its text
    SCAN,  # decode once: faults, lengths, digests; read and repair the words
    RECORDING,  # a task recording: owners of its tokens, words, hidden states
    PREFIX,  # voice and role before a call, once for each pair
    CALL,  # codes, text stream, loss mask, versions
)


def stage_named(name: str) -> Stage[Any, Any]:
    """The stage of a name; raises KeyError for one that does not exist."""
    return {stage.name: stage for stage in STAGES}[name]
