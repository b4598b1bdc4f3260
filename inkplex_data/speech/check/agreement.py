"""Whether a call's agent says what its text says: word error rate by Whisper, and facts that did not survive.

Measuring (`measure`) needs the model; judging what was measured (`judge`) is pure and takes the limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.clock import US_PER_S, us_to_seconds
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, TimedWord
from inkplex_data.errors import CallRefused, InkplexError
from inkplex_data.problems import Problem, ProblemLog, refusal
from inkplex_data.speech.align.align_corpus import call_voices
from inkplex_data.speech.align.packing import RATE_HZ, pack
from inkplex_data.speech.align.whisper_weights import PACKAGED
from inkplex_data.speech.check.scorer import WhisperScorer
from inkplex_data.speech.check.weigh import MARGIN_NATS, Weighed, lost, weigh
from inkplex_data.speech.spoken_form import spoken

MAX_WER: Final = 0.75
"""A text of another call gives some 100%; tiny.en on well synthesised speech up to 60%."""
PAUSE_US: Final = 600_000
MARGIN_US: Final = 150_000


@dataclass(frozen=True)
class Measured:
    """What Whisper made of a call: word errors of `units` spoken words, and every fact's strongest alternative."""

    words: int
    units: int
    errors: int
    facts: tuple[Weighed, ...] = ()

    @property
    def wer(self) -> float:
        return self.errors / self.units if self.units else 0.0


@dataclass(frozen=True)
class SpeechCheck:
    """One call's result. `problems` have the codes speech-word-error and speech-fact-lost, or why it was refused."""

    call_id: str
    words: int
    wer: float
    problems: list[Problem] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def unreadable(self) -> bool:
        """Whether the call could not be checked at all."""
        return any(problem.severity == "error" for problem in self.problems)

    def as_json(self) -> dict[str, Any]:
        problems = [asdict(problem) for problem in self.problems]
        wer = None if self.unreadable else round(self.wer, 4)
        return {"call": self.call_id, "words": self.words, "wer": wer, "problems": problems}


def check_corpus(
    path: Path,
    *,
    model: str = PACKAGED,
    max_wer: float = MAX_WER,
    margin_nats: float = MARGIN_NATS,
    agent: str | None = None,
) -> Iterator[SpeechCheck]:
    """Check each call of a corpus; a call that cannot be read has its refusal as its only problem.

    `agent` is the label of the agent in transcripts that do not say so themselves.

    Raises CorpusError where the corpus cannot be listed, CheckpointError where the model cannot be had.
    """
    found = read_corpus(path)
    unlisted: dict[str, list[Problem]] = {}
    for problem in found.problems:
        if problem.severity == "error":
            unlisted.setdefault(problem.call_id, []).append(problem)
    for call_id, problems in unlisted.items():
        yield SpeechCheck(call_id, 0, float("nan"), problems)
    if not found.entries:
        return
    scorer = WhisperScorer(model)
    for entry in found.entries:
        try:
            samples = call_voices(entry).voice("agent", RATE_HZ)
            words = target_words(entry, len(samples) * US_PER_S // RATE_HZ, agent=agent)
            measured = measure(samples, words, scorer)
        except CallRefused as error:
            yield _refused(entry, error)
        except InkplexError:
            # A library or model that is not there: no other call would fare better.
            raise
        # One call must not stop the others, whatever its file does to a decoder or a model.
        except Exception as error:
            what = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
            yield _refused(entry, refusal("unexpected", what))
        else:
            yield judge(entry.call_id, words, measured, max_wer=max_wer, margin_nats=margin_nats)


def _refused(entry: CallEntry, error: CallRefused) -> SpeechCheck:
    return SpeechCheck(entry.call_id, 0, float("nan"), [Problem.of_refusal(entry.call_id, error)])


def target_words(entry: CallEntry, duration_us: int, *, agent: str | None = None) -> list[TimedWord]:
    """The agent's words as the corpus gives them; `agent` is its label there. Raises CallRefused."""
    text = CallText.of(entry, agent=agent)
    words = text.words(duration_us=duration_us, log=ProblemLog(entry.call_id))
    words = [word for word in words if word.speaker == SPEAKER_MAIN]
    if not words:
        raise refusal("text-all-pad", "the call has no words of its agent to check", entry.where)
    return words


def measure(samples: npt.NDArray[np.float32], words: Sequence[TimedWord], scorer: WhisperScorer) -> Measured:
    """Hold float32 [n] at 16 kHz of the agent against its words. A function of these and the model alone."""
    errors = total = 0
    facts: list[Weighed] = []
    for window in pack(_stretches(words, len(samples) * US_PER_S // RATE_HZ)):
        low, high = int(window.source[0, 0]), int(window.source[-1, 1])
        own = [at for at, word in enumerate(words) if low <= (word.start_us + word.end_us) // 2 < high]
        texts = [words[at].text for at in own]
        features = scorer.features(window.samples(samples))
        heard = scorer.heard(features)
        target = [unit for text in texts for unit in spoken(text)]
        errors += edit_distance(target, [unit for word in heard.split() for unit in spoken(word)])
        total += len(target)
        facts += [
            Weighed(own[fact.word], fact.kind, fact.said, fact.gain)
            for fact in weigh(texts, heard, features, scorer)
        ]
    return Measured(len(words), total, errors, tuple(facts))


def judge(
    call_id: str,
    words: Sequence[TimedWord],
    measured: Measured,
    *,
    max_wer: float = MAX_WER,
    margin_nats: float = MARGIN_NATS,
) -> SpeechCheck:
    """The problems that follow from what was measured, each with its time. Pure."""
    log = ProblemLog(call_id)
    if measured.wer > max_wer:
        log.add("speech-word-error", f"word error rate {measured.wer:.1%}, allowed are {max_wer:.1%}")
    for fact in lost(measured.facts, margin_nats=margin_nats):
        word = words[fact.word]
        said = repr(fact.said) if fact.said else "nothing in its place"
        log.add(
            "speech-fact-lost",
            f"{fact.kind}: the text has {word.text!r}, the audio says {said} ({fact.gain:.1f} nats likelier)",
            item=f"{us_to_seconds(word.start_us):.2f} to {us_to_seconds(word.end_us):.2f} s",
        )
    return SpeechCheck(call_id, measured.words, measured.wer, list(log))


def _stretches(words: Sequence[TimedWord], duration_us: int) -> npt.NDArray[np.int64]:
    """Where the agent speaks according to its words, with a margin."""
    from inkplex_data.audio.turns import units

    spans = [(max(word.start_us - MARGIN_US, 0), min(word.end_us + MARGIN_US, duration_us)) for word in words]
    return units(np.array(spans, np.int64), silence_us=PAUSE_US)


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Fewest insertions, deletions and substitutions from one to the other."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (left != right))
    return row[-1]
