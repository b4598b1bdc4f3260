"""Whether a call's agent says what its text says: word error rate by Whisper, and facts weighed against each other.

A small recogniser mishears much that was said well. So a fact counts as lost only where Whisper finds the same
text with another fact in its place clearly more likely, both spelled out by us and scored on the same sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.clock import us_to_seconds
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.read import read_corpus
from inkplex_data.corpus.sidecar import read_sidecar
from inkplex_data.corpus.transcripts import load_words
from inkplex_data.corpus.words import SPEAKER_MAIN, RawWord, TimedWord, repair_words
from inkplex_data.errors import CallRefused
from inkplex_data.libraries import require
from inkplex_data.problems import Problem, ProblemLog
from inkplex_data.speech.align.batch import agent_channel, channel_samples
from inkplex_data.speech.align.facts import Fact, facts_of
from inkplex_data.speech.align.packing import RATE_HZ, pack
from inkplex_data.speech.align.spoken import spoken
from inkplex_data.speech.align.weights import NEEDED_FOR, PACKAGED, load_whisper

MARGIN_NATS: Final = 0.5
"""By how much another fact must be more likely. In the example corpus every true fact is ahead by 0.9 nats or more."""
BATCH: Final = 16
NEIGHBOURS: Final = 3
MAX_WER: Final = 0.75
"""A text of another call gives some 100%; tiny.en on well synthesised speech up to 60%."""
PAUSE_US: Final = 600_000
MARGIN_US: Final = 150_000


@dataclass(frozen=True)
class SpeechCheck:
    """One call's result. `problems` have the codes speech-word-error and speech-fact-lost."""

    call_id: str
    words: int
    wer: float
    problems: list[Problem] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        problems = [asdict(problem) for problem in self.problems]
        return {"call": self.call_id, "words": self.words, "wer": round(self.wer, 4), "problems": problems}


def check_corpus(path: Path, *, model: str = PACKAGED, max_wer: float = MAX_WER) -> Iterator[SpeechCheck]:
    """Check each call of a corpus; a call that cannot be read has its refusal as its only problem."""
    scorer = WhisperScorer(model)
    for entry in read_corpus(path).entries:
        try:
            samples = channel_samples(agent_channel(entry))
            words = target_words(entry, len(samples) * 1_000_000 // RATE_HZ)
        except CallRefused as error:
            log = ProblemLog(entry.call_id)
            yield SpeechCheck(entry.call_id, 0, float("nan"), [log.refuse(error)])
            continue
        yield check_call(entry.call_id, samples, words, scorer, max_wer=max_wer)


def target_words(entry: CallEntry, duration_us: int) -> list[TimedWord]:
    """The agent's words as the corpus gives them. Raises CallRefused."""
    log = ProblemLog(entry.call_id)
    words: list[TimedWord] = []
    if entry.words is not None:
        words, _ = load_words(entry.words, duration_us=duration_us, log=log)
    elif entry.sidecar is not None and (found := read_sidecar(entry.sidecar).words) is not None:
        raw = [RawWord(w.text, w.start_s, w.end_s, w.speaker, w.confidence, "") for w in found.items]
        words = repair_words(raw, duration_us=duration_us, log=log)
    words = [word for word in words if word.speaker == SPEAKER_MAIN]
    if not words:
        raise CallRefused("text-all-pad", "the call has no words of its agent to check", where=entry.where)
    return words


class WhisperScorer:
    """Whisper as a judge: what it hears, and how likely it finds given texts, in float32 [n] of up to 30 s."""

    def __init__(self, model: str = PACKAGED) -> None:
        self._whisper = require("whisper", extra="align", needed_for=NEEDED_FOR)
        self._model = load_whisper(model)
        self._tokens = self._whisper.tokenizer.get_tokenizer(
            self._model.is_multilingual, language="en", task="transcribe"
        )

    def features(self, samples: npt.NDArray[np.float32]) -> Any:
        """The encoder's output, which `heard` and `scores` take."""
        import torch

        audio = self._whisper.pad_or_trim(torch.from_numpy(samples))
        mel = self._whisper.log_mel_spectrogram(audio, self._model.dims.n_mels)
        with torch.no_grad():
            return self._model.embed_audio(mel[None])

    def _cross(self, features: Any, rows: int) -> dict[Any, Any]:
        """Keys and values of cross-attention, computed once for all rows, in Whisper's own form of a cache.

        Its first entry tells the decoder how many tokens came before: none.
        """
        import torch

        cache: dict[Any, Any] = {None: torch.empty(1, 0)}
        for block in self._model.decoder.blocks:
            for layer in (block.cross_attn.key, block.cross_attn.value):
                cache[layer] = layer(features).expand(rows, -1, -1)
        return cache

    def heard(self, features: Any) -> str:
        """The most likely text, greedily."""
        options = self._whisper.DecodingOptions(language="en", without_timestamps=True, fp16=False)
        return str(self._whisper.decode(self._model, features, options)[0].text)

    def scores(self, features: Any, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Log-probability, nats, of each text: float64 [k]."""
        import torch

        start = list(self._tokens.sot_sequence_including_notimestamps)
        rows = [[*start, *self._tokens.encode(" " + text.strip()), self._tokens.eot] for text in texts]
        longest = max(map(len, rows))
        tokens = torch.tensor([row + [self._tokens.eot] * (longest - len(row)) for row in rows])
        with torch.no_grad():
            cache = self._cross(features, len(rows))
            logits = self._model.decoder(tokens[:, :-1], features, kv_cache=cache).float()
            chosen = logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0].double()
        kept = torch.arange(longest - 1)[None] < torch.tensor([[len(row) - 1] for row in rows])
        kept[:, : len(start) - 1] = False
        return np.asarray(torch.where(kept, chosen, 0.0).sum(dim=1))


def check_call(
    call_id: str,
    samples: npt.NDArray[np.float32],
    words: Sequence[TimedWord],
    scorer: WhisperScorer,
    *,
    max_wer: float,
) -> SpeechCheck:
    """Check float32 [n] at 16 kHz of the agent against its words."""
    log = ProblemLog(call_id)
    errors = total = 0
    for window in pack(_stretches(words, len(samples) * 1_000_000 // RATE_HZ)):
        low, high = int(window.source[0, 0]), int(window.source[-1, 1])
        own = [word for word in words if low <= (word.start_us + word.end_us) // 2 < high]
        features = scorer.features(window.samples(samples))
        target = [unit for word in own for unit in spoken(word.text)]
        heard = [unit for word in scorer.heard(features).split() for unit in spoken(word)]
        errors += edit_distance(target, heard)
        total += len(target)
        for word, fact, said, gain in lost_facts(own, features, scorer):
            times = f"{us_to_seconds(word.start_us):.2f} to {us_to_seconds(word.end_us):.2f} s"
            spoken_there = repr(said) if said else "nothing in its place"
            log.add(
                "speech-fact-lost",
                f"{fact.kind}: the text has {word.text!r}, the audio says {spoken_there} ({gain:.1f} nats likelier)",
                item=times,
            )
    wer = errors / total if total else 0.0
    if wer > max_wer:
        log.add("speech-word-error", f"word error rate {wer:.1%}, allowed are {max_wer:.1%}")
    return SpeechCheck(call_id, len(words), wer, list(log))


def lost_facts(
    words: Sequence[TimedWord], features: Any, scorer: WhisperScorer
) -> Iterator[tuple[TimedWord, Fact, str, float]]:
    """Facts that something else outweighs: the word, the fact, what was said instead, and by how many nats."""
    texts = [_plain(word.text) for word in words]
    base = scorer.scores(features, [" ".join(texts)])[0]
    facts = [fact for fact in facts_of([word.text for word in words]) if fact.alternatives]
    variants = [_with(texts, fact.index, other) for fact in facts for other in fact.alternatives]
    rows = range(0, len(variants), BATCH)
    scores = [scorer.scores(features, variants[first : first + BATCH]) for first in rows]
    gain = np.concatenate([np.zeros(0), *scores]) - base
    place = 0
    lost: list[tuple[Fact, str, float]] = []
    for fact in facts:
        gains = gain[place : place + len(fact.alternatives)]
        place += len(fact.alternatives)
        best = int(gains.argmax())
        if gains[best] > MARGIN_NATS:
            lost.append((fact, fact.alternatives[best], float(gains[best])))
    for fact, said, ahead in lost:
        # One negation raises the likelihood of several places; only the best of neighbours is reported.
        near = [other[2] for other in lost if abs(other[0].index - fact.index) <= NEIGHBOURS]
        if ahead == max(near):
            yield words[fact.index], fact, said, ahead


def _plain(text: str) -> str:
    """Numbers in words, everything else as written, so that alternatives differ in the fact alone."""
    if not any(character.isdigit() for character in text):
        return text
    return " ".join(spoken(text)) + (text[-1] if text[-1] in ".,?!" else "")


def _with(texts: Sequence[str], index: int, other: str) -> str:
    """The text with another word at `index`, in the capitals and with the punctuation of what stood there."""
    old = texts[index]
    end = old[-1] if old[-1:] in set(".,?!;:") else ""
    new = (
        other[:1].upper() + other[1:]
        if old[:1].isupper() and not other.startswith(("no ", "not "))
        else other
    )
    parts = [*texts[:index], *([new + end] if new else []), *texts[index + 1 :]]
    if not new and old[:1].isupper() and index < len(parts):
        parts[index] = parts[index][:1].upper() + parts[index][1:]
    return " ".join(parts)


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
