"""The recipe's `check_speech`: what is measured is kept, what follows from it is judged anew.

So a rerun, and other limits in the recipe, cost no listening; and the verdict depends on nothing but the call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from inkplex_data.audio.call_audio import CallAudio
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.errors import CallRefused
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.prepare import main_speaker
from inkplex_data.pipeline.stage import Build, Job, Stage
from inkplex_data.problems import Problem, ProblemLog, refusal
from inkplex_data.torch_settings import torch_threads

MAX_TOLD: Final = 20


@dataclass(frozen=True, kw_only=True)
class SpeechCheckJob(Job):
    """The agent's words of one call beside its sound, which is known by its digest."""

    call_id: str
    audio: CallAudio = field(compare=False)
    audio_sha256: str
    channel: tuple[str, int]
    is_single: bool
    words: tuple[TimedWord, ...]

    @property
    def key(self) -> str:
        return self.call_id


@dataclass(frozen=True)
class MeasuredSpeech:
    """The fields of `agreement.Measured`, in plain values: whoever does not check need not load it."""

    measured: dict[str, Any]


def listen(job: SpeechCheckJob, folder: Path) -> MeasuredSpeech:
    """Measure with Whisper. Raises CheckpointError, MissingLibraryError, and CallRefused as decoding does."""
    from inkplex_data.speech.align.packing import RATE_HZ
    from inkplex_data.speech.check.agreement import measure

    assert job.recipe.check_speech is not None
    # One thread: calls run side by side, and sums over threads differ in their last bits.
    with torch_threads(1):
        scorer = tools.speech_scorer(job.recipe.check_speech.model, job.device)
        samples = job.audio.voice("agent", RATE_HZ)
        return MeasuredSpeech(dataclasses.asdict(measure(samples, job.words, scorer)))


SPEECH_CHECK: Final = Stage(
    name="speech-check",
    version=2,
    result=MeasuredSpeech,
    run=listen,
    recipe=("check_speech.model", "device"),
    needs_device=True,
)
SPEECH_CHECK_KEYS: Final = (
    "check_speech.margin",
    "check_speech.max_wer",
    "check_speech.on_failure",
    "strict",
)
"""The recipe keys that `is_masked_by_check` reads itself."""


def is_masked_by_check(
    call_id: str,
    audio: CallAudio,
    words: Sequence[TimedWord],
    build: Build,
    *,
    log: ProblemLog,
    audio_sha256: str,
) -> bool:
    """Whether the call's text and agent audio are to carry no loss, since the agent does not say its text.

    The whole call is masked, also for a single lost fact: what follows from a wrong amount is wrong as well.
    `words` are all of the call's. What was found goes to `log`. Raises CallRefused (speech-word-error,
    speech-fact-lost) where the recipe refuses such calls, CheckpointError, MissingLibraryError.
    """
    settings = build.recipe.check_speech
    own = tuple(word for word in words if word.is_by(main_speaker(build.recipe)))
    if settings is None or not own:
        return False
    from inkplex_data.speech.check.agreement import Measured, judge
    from inkplex_data.speech.check.weigh import Weighed

    job = SpeechCheckJob(
        build=build,
        call_id=call_id,
        audio=audio,
        audio_sha256=audio_sha256,
        channel=(audio.agent.path.name, audio.agent.channel_index),
        is_single=audio.is_single,
        words=own,
    )
    body = SPEECH_CHECK.do(job).measured
    measured = Measured(**(body | {"facts": tuple(Weighed(**fact) for fact in body["facts"])}))
    found = judge(call_id, own, measured, max_wer=settings.max_wer, margin_nats=settings.margin).problems
    if not found:
        return False
    if settings.on_failure == "refuse" or build.recipe.strict:
        raise failed_check(found)
    log.extend(found)
    if settings.on_failure == "report":
        return False
    log.add("speech-masked", "text and agent audio carry no loss; the caller's audio does")
    return True


def failed_check(found: Sequence[Problem]) -> CallRefused:
    """The refusal that tells all that was found in one call; its code is that of the first. Pure."""
    told = [f"{problem.item}: {problem.message}" if problem.item else problem.message for problem in found]
    if len(told) > MAX_TOLD:
        told = [*told[:MAX_TOLD], f"and {len(told) - MAX_TOLD} more"]
    return refusal(found[0].code, "; ".join(told))
