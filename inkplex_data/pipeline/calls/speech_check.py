"""The recipe's `check_speech` while a call is prepared: what was measured is kept in the ledger, what follows is not.

So a rerun, and other limits in the recipe, cost no listening; and the verdict depends on nothing but the call.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from inkplex_data.audio.call_audio import ChannelRef
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.errors import CallRefused
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.ledger import Ledger, stamp
from inkplex_data.problems import Problem, ProblemLog, refusal
from inkplex_data.torch_settings import torch_threads

if TYPE_CHECKING:
    from inkplex_data.speech.check.agreement import Measured

VERSION: Final = 1
KIND: Final = "speech"
MAX_TOLD: Final = 20


def is_masked_by_check(
    call_id: str,
    agent: ChannelRef,
    words: Sequence[TimedWord],
    recipe: Recipe,
    *,
    ledger: Ledger,
    log: ProblemLog,
    audio_sha256: str,
) -> bool:
    """Whether the call's text and agent audio are to carry no loss, since the agent does not say its text.

    The whole call is masked, also for a single lost fact: what follows from a wrong amount is wrong as well.
    `words` are all of the call's. What was found goes to `log`. Raises CallRefused (speech-word-error,
    speech-fact-lost) where the recipe refuses such calls, CheckpointError, MissingLibraryError.
    """
    from inkplex_data.speech.check.agreement import judge

    settings = recipe.check_speech
    own = [word for word in words if word.speaker == recipe.text.main_speaker]
    if settings is None or not own:
        return False
    mark = stamp(
        VERSION,
        settings.model,
        audio_sha256,
        [agent.path.name, agent.channel_index],
        [[word.text, word.start_us, word.end_us] for word in own],
    )
    folder = ledger.done(KIND, call_id, mark)
    if folder is None:
        with ledger.result(KIND, call_id, mark) as working:
            _listen(working / "measured.json", agent, own, settings.model)
        folder = ledger.folder(KIND, call_id)
    measured = _read(folder / "measured.json")
    found = judge(call_id, own, measured, max_wer=settings.max_wer, margin_nats=settings.margin).problems
    if not found:
        return False
    if settings.on_failure == "refuse" or recipe.strict:
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


def _listen(path: Path, agent: ChannelRef, words: Sequence[TimedWord], model: str) -> None:
    from inkplex_data.speech.align.align_corpus import channel_samples
    from inkplex_data.speech.check.agreement import measure

    # One thread: calls run side by side, and sums over threads differ in their last bits.
    with torch_threads(1):
        measured = measure(channel_samples(agent), words, tools.speech_scorer(model))
    path.write_text(json.dumps(dataclasses.asdict(measured), ensure_ascii=False), encoding="utf-8")


def _read(path: Path) -> Measured:
    from inkplex_data.speech.check.agreement import Measured
    from inkplex_data.speech.check.weigh import Weighed

    body = json.loads(path.read_text(encoding="utf-8"))
    facts = tuple(Weighed(**fact) for fact in body.pop("facts"))
    return Measured(**body, facts=facts)
