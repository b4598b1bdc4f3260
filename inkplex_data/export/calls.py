"""What an export takes from a corpus: each call's audio, checked, and its repaired words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from inkplex_data.atomic import write_json_lines
from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.clock import samples_to_us
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.clips import with_clips
from inkplex_data.corpus.entry import CallEntry, Corpus
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.errors import CallRefused
from inkplex_data.export.crop_call import crop_call, cropped_entry
from inkplex_data.export.native import NativeStereo
from inkplex_data.plural import counted
from inkplex_data.problems import Problem, ProblemLog
from inkplex_data.problems.told import MOST_LINES, told

REFUSED_FILE: Final = "refused.jsonl"


@dataclass(frozen=True)
class ExportCall:
    """One call that can be exported. `words` may be empty; `problems` are what was repaired in it."""

    entry: CallEntry
    stereo: NativeStereo
    words: list[TimedWord]
    text_conditions: dict[str, Any] | None
    problems: tuple[Problem, ...]

    @property
    def duration_us(self) -> int:
        return samples_to_us(self.stereo.scan.samples)


@dataclass
class ExportSummary:
    """What an export wrote: ids of calls, the refused ones with their reason, and what the reader should know."""

    folder: Path
    calls: list[str] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 all done; 1 nothing could be exported; 3 some calls were refused."""
        return 0 if not self.refused else 3 if self.calls else 1

    def text(self) -> str:
        """The summary as a person reads it; see `told_refused`."""
        lines = [f"{self.folder}: {counted(len(self.calls), 'call')}", *(f"  {note}" for note in self.notes)]
        return "\n".join([*lines, *told_refused(self.refused, self.folder)])


def told_refused(refused: Sequence[Problem], folder: Path) -> list[str]:
    """Lines that list what was refused. A list that is cut goes into a file of `folder` as a whole."""
    if len(refused) > MOST_LINES:
        write_json_lines(folder / REFUSED_FILE, map(vars, refused))
    lines = [(problem.code, f"refused {problem}") for problem in refused]
    return [f"  {line}" for line in told(lines, everything=f"all are in {folder / REFUSED_FILE}")]


def export_calls(corpus: Corpus, *, agent: str | None, refused: list[Problem]) -> Iterator[ExportCall]:
    """Each call of the corpus that is sound, in its order; the others go to `refused`. A part of a call (`clips`) has
    files until the next is asked for.

    `agent` names the agent's label in transcripts, as the recipe key `words.agent` does.
    """
    entries, taken = with_clips(corpus.entries)
    refused += [*corpus.refused, *taken]
    for entry in entries:
        log = ProblemLog(entry.call_id)
        with TemporaryDirectory(prefix="inkplex-clip-") as folder:
            try:
                if entry.clip is not None:
                    crop_call(entry, Path(folder), log)
                own = entry if entry.clip is None else cropped_entry(entry, Path(folder))
                yield _read(own, agent, log)
            except CallRefused as error:
                refused.append(log.refuse(error))


def _read(entry: CallEntry, agent: str | None, log: ProblemLog) -> ExportCall:
    audio = resolve_channels(entry.audio, entry.channels)
    stereo = NativeStereo(audio, audio.scan(log))
    duration_us = samples_to_us(stereo.scan.samples)
    text = CallText.of(entry, agent=agent)
    words = text.words(duration_us=duration_us, log=log)
    return ExportCall(entry, stereo, words, text.conditions, tuple(log.problems))
