"""What a recipe makes of a call before it is looked at: two streams from one channel, the agent's channel where the
corpus does not name it, words where none are given.

All is kept in the ledger, so that everything after this sees a call whose channels are named, with a transcript.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inkplex_data.audio.call_audio import CallAudio, CallFiles, ChannelRef, open_files
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus import swap
from inkplex_data.corpus.call_words import needs_words
from inkplex_data.corpus.entry import CallEntry, ChannelSpec
from inkplex_data.corpus.sidecars.sidecar import read_sidecar, with_constructed_sides
from inkplex_data.corpus.transcripts import SpeakerRule
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.speaker_rule import speaker_rule
from inkplex_data.pipeline.ledger import Ledger, file_stamp, stamp
from inkplex_data.problems import Problem, ProblemLog
from inkplex_data.speech.agent.find import Hear, decide

VERSION: Final = 3
STREAMS: Final = "streams"
SIDES: Final = "sides"
WORDS: Final = "aligned"


@dataclass(frozen=True)
class Ready:
    """The call with what was made for it, opened, and what there is to say about that.

    `rule` goes for words that were made here: they have their labels already. None: the recipe's own rule.
    """

    entry: CallEntry
    audio: CallAudio
    notes: tuple[Problem, ...]
    rule: SpeakerRule | None = None


def ready_call(entry: CallEntry, recipe: Recipe, store_root: Path) -> Ready:
    """The same files on every call of this, made at the first one.

    Raises CallRefused (what opening, decoding, `divide`, `decide` and `align_entry` raise), MissingLibraryError.
    """
    ledger = Ledger(store_root)
    notes: list[Problem] = []
    files = open_files(entry.audio)
    if recipe.audio.mono == "diarize" and _is_mono(entry, files):
        entry = _two_streams(entry, files, recipe, ledger, notes)
        files = open_files(entry.audio)
    else:
        entry = _with_sides(entry, files, recipe, ledger, notes)
    audio = files.channels(entry.channels)
    if recipe.words.source == "whisper" and not _has_words(entry):
        entry = _with_words(entry, audio, recipe, ledger, notes)
        return Ready(entry, audio, tuple(notes), SpeakerRule(main=recipe.text.main_speaker))
    return Ready(entry, audio, tuple(notes))


def turns_beside(entry: CallEntry) -> Path | None:
    """The RTTM file of a one-file call's own name, which says who speaks when."""
    path = entry.audio.with_suffix(".rttm") if isinstance(entry.audio, Path) else None
    return path if path is not None and path.is_file() else None


def _is_mono(entry: CallEntry, files: CallFiles) -> bool:
    """A one-channel file whose channels nobody named."""
    named = entry.channels is not None and not entry.channels_assumed
    return isinstance(entry.audio, Path) and not named and files.agent.channels == 1


def _two_streams(
    entry: CallEntry, files: CallFiles, recipe: Recipe, ledger: Ledger, notes: list[Problem]
) -> CallEntry:
    assert isinstance(entry.audio, Path)
    settings = recipe.audio
    rttm = turns_beside(entry)
    mark = stamp(
        VERSION,
        [
            settings.diarizer,
            settings.speakers,
            settings.main_speaker,
            settings.inactive,
            settings.seed,
            recipe.strict,
        ],
        [entry.call_id, *map(file_stamp, (entry.audio, entry.sidecar, rttm))],
    )
    folder = ledger.done(STREAMS, entry.call_id, mark)
    if folder is None:
        from inkplex_data.speech.diarize.divide import divide

        with ledger.result(STREAMS, entry.call_id, mark) as working:
            made = divide(
                ChannelRef(files.agent),
                working / "call",
                diarizer=None if rttm else tools.diarizer(settings.diarizer, settings.speakers),
                rttm=rttm,
                # A call and its exchanged twin hold one sound, so `random` has to choose alike.
                call_id=entry.call_id.removesuffix(swap.SUFFIX) if entry.swapped else entry.call_id,
                main=settings.main_speaker,
                inactive=settings.inactive,
                seed=settings.seed,
            )
            if entry.sidecar is not None:
                told = with_constructed_sides(read_sidecar(entry.sidecar), read_sidecar(made.sidecar))
                text = told.model_dump_json(by_alias=True, exclude_none=True)
                made.sidecar.write_text(text, encoding="utf-8")
            log = ProblemLog(entry.call_id, strict=recipe.strict)
            overlap_us = int((made.streams.overlap[:, 1] - made.streams.overlap[:, 0]).sum())
            log.add(
                "streams-constructed",
                f"{len({turn.speaker for turn in made.turns})} speakers by "
                f"{settings.diarizer if rttm is None else rttm.name}, main speaker "
                f"{made.streams.main}, {overlap_us} µs of overlap",
                item=entry.source,
            )
            _keep(working, log)
        folder = ledger.folder(STREAMS, entry.call_id)
    notes += _kept(folder)
    return dataclasses.replace(entry, audio=folder / "call.wav", sidecar=folder / "call.sidecar.json")


def _with_sides(
    entry: CallEntry, files: CallFiles, recipe: Recipe, ledger: Ledger, notes: list[Problem]
) -> CallEntry:
    """The entry with its channels named by the corpus, the recipe's rule, or a guess."""
    settings = recipe.audio
    rule = speaker_rule(entry, recipe)
    if settings.agent != "auto":
        return decide(entry, settings.agent, files=files, rule=rule).entry
    hearing = dataclasses.astuple(rule), recipe.words.source, recipe.words.whisper, recipe.words.language
    mark = stamp(
        VERSION,
        [settings.agent_confidence, hearing],
        [
            dataclasses.asdict(dataclasses.replace(entry, where="")),
            [file_stamp(path) for path in (*entry.audio_paths, entry.words, entry.sidecar)],
        ],
    )
    folder = ledger.done(SIDES, entry.call_id, mark)
    if folder is None:
        found = decide(
            entry,
            "auto",
            files=files,
            rule=rule,
            threshold=settings.agent_confidence,
            hear=_hearing(recipe, entry),
        )
        with ledger.result(SIDES, entry.call_id, mark) as working:
            log = ProblemLog(entry.call_id)
            if found.guess is not None:
                log.add("agent-guessed", found.guess.text(), item=entry.source)
            _keep(working, log)
            channels = found.entry.channels
            named = dataclasses.asdict(channels) if channels is not None else None
            (working / "channels.json").write_text(json.dumps(named), encoding="utf-8")
        folder = ledger.folder(SIDES, entry.call_id)
    notes += _kept(folder)
    named = json.loads((folder / "channels.json").read_text(encoding="utf-8"))
    if named is None:
        return entry
    return dataclasses.replace(entry, channels=ChannelSpec(**named), channels_assumed=False)


def _hearing(recipe: Recipe, entry: CallEntry) -> Hear | None:
    """Whisper for the beginnings of both channels, where the recipe uses it for this call at all."""
    if recipe.words.source != "whisper" or _has_words(entry):
        return None
    return lambda samples: tools.aligner(
        recipe.words.whisper, recipe.words.aligner, recipe.words.language
    ).text(samples)


def _has_words(entry: CallEntry) -> bool:
    if not needs_words(entry.words):
        return True
    sidecar = read_sidecar(entry.sidecar) if entry.sidecar is not None else None
    return sidecar is not None and sidecar.words is not None and bool(sidecar.words.items)


def _with_words(
    entry: CallEntry, audio: CallAudio, recipe: Recipe, ledger: Ledger, notes: list[Problem]
) -> CallEntry:
    settings = recipe.words
    rule = speaker_rule(entry, recipe)
    mark = stamp(
        VERSION,
        [settings.whisper, settings.aligner, settings.language, dataclasses.astuple(rule), recipe.strict],
        [
            entry.call_id,
            [file_stamp(path) for path in (*entry.audio_paths, entry.words)],
            dataclasses.asdict(entry.channels) if entry.channels is not None else None,
        ],
    )
    folder = ledger.done(WORDS, entry.call_id, mark)
    if folder is None:
        from inkplex_data.speech.align.align_corpus import align_entry, write_words

        aligner = tools.aligner(settings.whisper, settings.aligner, settings.language)
        with ledger.result(WORDS, entry.call_id, mark) as working:
            log = ProblemLog(entry.call_id, strict=recipe.strict)
            words = align_entry(entry, aligner, log, rule=rule, audio=audio)
            write_words(working / "words.json", words)
            _keep(working, log)
        folder = ledger.folder(WORDS, entry.call_id)
    notes += _kept(folder)
    return dataclasses.replace(entry, words=folder / "words.json")


def _keep(folder: Path, log: ProblemLog) -> None:
    rows: list[dict[str, Any]] = [dataclasses.asdict(problem) for problem in log]
    (folder / "notes.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")


def _kept(folder: Path) -> list[Problem]:
    return [Problem(**row) for row in json.loads((folder / "notes.json").read_text(encoding="utf-8"))]
