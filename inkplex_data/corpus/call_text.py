"""What a corpus says of one call: its sidecar, its transcript, and by which rule the agent is found in it.

Build, export and checks read a call's text through `CallText` alone, which parses each file once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.agent_words import refuse_without_agent
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.sidecars.sidecar import read_sidecar
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.corpus.swap import swapped_sidecar
from inkplex_data.corpus.transcripts import (
    SpeakerRule,
    Transcript,
    map_speakers,
    read_transcript,
    timed_words,
)
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, RawWord, TimedWord
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog

UNTIMED: Final = frozenset({"words-no-word-times", "words-speakers-only"})
"""Codes of transcripts that can be read and time no word."""


def has_word_times(path: Path) -> bool:
    """False for captions, utterances, plain text and speaker turns. Raises CallRefused for what cannot be read."""
    found = _readable(path)
    if isinstance(found, CallRefused) and found.code not in UNTIMED:
        raise found
    return not isinstance(found, CallRefused)


def speaker_rule(
    entry: CallEntry, *, agent: str | None = None, main: str | None = SPEAKER_MAIN
) -> SpeakerRule:
    """How the agent is found in the call's transcript. `agent` and `main` are those of `SpeakerRule`.

    A channel's label goes with the channel. Labels are those of the call as it was before its sides were exchanged.
    """
    channel = 0
    if entry.channels is not None:
        channel = entry.channels.caller if entry.swapped else entry.channels.agent
    return SpeakerRule(agent=agent, agent_channel=channel, main=main, swapped=entry.swapped)


@dataclass(frozen=True)
class CallText:
    """The files of `entry` that are text. `rule` finds the agent among the labels of its words; `has_made_words`: they
    are not the corpus's own."""

    entry: CallEntry
    rule: SpeakerRule
    has_made_words: bool = False

    @classmethod
    def of(cls, entry: CallEntry, *, agent: str | None = None, main: str | None = SPEAKER_MAIN) -> CallText:
        """`agent` and `main` are those of `SpeakerRule`."""
        return cls(entry, speaker_rule(entry, agent=agent, main=main))

    @classmethod
    def of_words(cls, path: Path) -> CallText:
        """A transcript without a call around it."""
        entry = CallEntry(
            call_id=path.stem,
            audio=path,
            channels=None,
            words=path,
            sidecar=None,
            recording=None,
            recording_starts_at_us=0,
            family="",
            split=None,
            role=None,
            voice=None,
            text_conditions=None,
            duration_s=None,
            source=path.name,
            where="",
        )
        return cls.of(entry)

    def moved_to(self, entry: CallEntry) -> CallText:
        """The text of the same call under another entry; what is parsed stays where its file does."""
        return self._with(entry, speaker_rule(entry, agent=self.rule.agent, main=self.rule.main))

    def with_made_words(self, words: Path) -> CallText:
        """With a word file whose labels are those of this call already, whatever the rule was."""
        made = self._with(replace(self.entry, words=words), SpeakerRule(main=self.rule.main))
        return replace(made, has_made_words=True)

    def _with(self, entry: CallEntry, rule: SpeakerRule) -> CallText:
        other = CallText(entry, rule, self.has_made_words)
        kept = {
            "unswapped_sidecar": entry.sidecar == self.entry.sidecar,
            "_read": entry.words == self.entry.words,
        }
        vars(other).update({name: value for name, value in vars(self).items() if kept.get(name)})
        return other

    @cached_property
    def unswapped_sidecar(self) -> Sidecar | None:
        """The sidecar as the file has it, its sides not exchanged. Raises CallRefused (sidecar-invalid)."""
        return read_sidecar(self.entry.sidecar) if self.entry.sidecar is not None else None

    @property
    def sidecar(self) -> Sidecar | None:
        """What the sidecar says of the call, its sides exchanged where the entry's are. Raises CallRefused."""
        found = self.unswapped_sidecar
        return swapped_sidecar(found) if found is not None and self.entry.swapped else found

    @cached_property
    def _read(self) -> Transcript | CallRefused | None:
        return _readable(self.entry.words) if self.entry.words is not None else None

    @property
    def transcript(self) -> Transcript | None:
        """The transcript, its labels untouched; None where there is none. Raises CallRefused as `read_transcript`."""
        if isinstance(self._read, CallRefused):
            raise self._read
        return self._read

    @property
    def lacks_word_times(self) -> bool:
        """Whether there is no transcript, or one without word times. One that cannot be read is another matter."""
        found = self._read
        return found is None or (isinstance(found, CallRefused) and found.code in UNTIMED)

    @property
    def has_words(self) -> bool:
        """Whether the corpus gives words with times (or a transcript that cannot be read). Raises CallRefused."""
        return not self.lacks_word_times or self._sidecar_words is not None

    @property
    def _sidecar_words(self) -> Transcript | None:
        known = self.unswapped_sidecar.words if self.unswapped_sidecar is not None else None
        if known is None or not known.items:
            return None
        raw = [
            RawWord(
                word.text,
                word.start_s,
                word.end_s,
                word.speaker,
                word.confidence,
                f"/words/items/{index}",
                uncertainty_s=word.uncertainty_s,
            )
            for index, word in enumerate(known.items)
        ]
        agent = known.main_speaker if known.main_speaker != SPEAKER_MAIN else None
        where = self.entry.sidecar or Path()
        return Transcript(raw, "sidecar", where, method=known.method or "", agent=agent)

    @property
    def best_transcript(self) -> Transcript | None:
        """The transcript, else the words of the sidecar; None where there are no words at all. Raises CallRefused.

        Captions or plain text beside the audio do not displace the word times of a sidecar.
        """
        given = self._sidecar_words if self.lacks_word_times else None
        return given if given is not None else self.transcript

    def words(self, *, duration_us: int, log: ProblemLog) -> list[TimedWord]:
        """The repaired words within the audio, labelled by `rule`; empty where there are none.

        Raises CallRefused where a file cannot be read, and under `log.strict` for the first repair.
        """
        found = self.best_transcript
        if found is None:
            return []
        words = timed_words(map_speakers(found, self.rule), duration_us=duration_us, log=log)
        told = self.sidecar.words if self.sidecar is not None else None
        if told is None or told.provenance is None or self.has_made_words:
            return words
        return [replace(word, provenance=told.provenance) for word in words]

    def agent_words(self, *, duration_us: int, log: ProblemLog) -> list[TimedWord]:
        """`words`, of which the agent says at least one. Raises CallRefused (text-all-pad) where it says none."""
        words = self.words(duration_us=duration_us, log=log)
        found = self.best_transcript
        refuse_without_agent(
            words,
            map_speakers(found, self.rule).words if found is not None else (),
            log,
            duration_us=duration_us,
            main_speaker=self.rule.main,
            where=self.entry.words.name if self.entry.words else self.entry.source,
        )
        return words

    @property
    def conditions(self) -> dict[str, Any] | None:
        """The text conditions of the manifest's line, else those of the transcript. Raises CallRefused.

        Those of a transcript were the former agent's where the sides are exchanged.
        """
        found = self.entry.text_conditions
        if found is None and not self.entry.swapped and (given := self.best_transcript) is not None:
            found = given.text_conditions
        return found


def _readable(path: Path) -> Transcript | CallRefused:
    try:
        return read_transcript(path)
    except CallRefused as error:
        return error
