"""Word times for the calls of a corpus: each call's agent channel, with a file per call and a record of failures.

A run that was interrupted goes on where it stopped, because a call that has its file is left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from inkplex_data.atomic import only_writer, write_json, write_json_lines
from inkplex_data.audio.call_audio import CallAudio, open_files
from inkplex_data.corpus.call_text import CallText, has_word_times, speaker_rule
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.transcripts import SpeakerRule, read_transcript, word_suffixes
from inkplex_data.corpus.transcripts.moshi import moshi_document
from inkplex_data.corpus.transcripts.speakers import DEFAULT_RULE
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, TimedWord
from inkplex_data.errors import CallRefused, InkplexError
from inkplex_data.problems import Problem, ProblemLog, refusal
from inkplex_data.speech.agent.find import Rule, decide
from inkplex_data.speech.align.known import Voices, align_known
from inkplex_data.speech.align.packing import RATE_HZ
from inkplex_data.speech.align.transcribe import SpeechAligner

FAILURES: Final = "align.failures.jsonl"


@dataclass(frozen=True)
class AlignedCall:
    """What happened to a call. `state`: aligned, kept (it had its words) or failed, with `code` and `message`.

    `problems`: what was repaired, left out or filtered. `method`: how most of its words got their times.
    """

    call_id: str
    state: str
    path: Path
    words: int = 0
    code: str = ""
    message: str = ""
    problems: tuple[Problem, ...] = ()
    method: str = ""


def call_voices(entry: CallEntry) -> CallAudio:
    """The call's audio; a one-channel file has no channel for the caller alone. Raises CallRefused."""
    files = open_files(entry.audio)
    if isinstance(entry.audio, Path) and files.agent.channels == 1:
        return files.single()
    return files.channels(entry.channels)


def known_text(entry: CallEntry) -> Path | None:
    """The call's text without word times: its transcript, or what lies beside its audio under another ending.

    The second is found where a call is aligned once more and its word file, made from that text, comes first.
    """
    if entry.words is None:
        return None
    audio = entry.audio_paths[0]
    beside = (audio.with_name(audio.stem + suffix) for suffix in word_suffixes())
    for path in (entry.words, *beside):
        if path != audio and path.is_file() and _has_text(path):
            return path
    return None


def _has_text(path: Path) -> bool:
    """Whether a file is a text without word times."""
    try:
        read_transcript(path)
    except CallRefused as error:
        return error.code == "words-no-word-times"
    return False


def align_entry(
    entry: CallEntry,
    aligner: SpeechAligner,
    log: ProblemLog,
    *,
    rule: SpeakerRule = DEFAULT_RULE,
    text: Path | None = None,
    audio: CallAudio | None = None,
) -> list[TimedWord]:
    """The call's words with times, sorted: the agent's under `rule.main`, and the caller's where a text has them.
    Where `rule.main` is None, everybody is the agent.

    A text that is known, `text` or the entry's own, is timed by its sound; else, and where it has no word of the
    agent, Whisper hears the agent's channel. What was repaired, left out or filtered is in `log`.
    `audio` is the call's, where it is open already.
    Raises CallRefused: words-not-found where nothing is heard, and what decoding and `align_known` raise.
    """
    audio = call_voices(entry) if audio is None else audio
    samples = audio.voice("agent", RATE_HZ)
    words: list[TimedWord] = []
    path = text if text is not None else known_text(entry)
    if path is not None:
        voices = Voices(samples, None if audio.is_single else audio.voice("caller", RATE_HZ))
        words = align_known(path, voices, aligner, log, rule=rule)
        if any(word.is_by(rule.main) for word in words):
            return words
    found = aligner.words(samples, speaker=rule.main or SPEAKER_MAIN)
    for reason, filtered in found.removed:
        log.add("word-filtered", f"{reason}: {filtered[:200]}")
    if not found.words:
        raise refusal("words-not-found", "no words were heard in the agent's channel", entry.source)
    return sorted([*words, *found.words], key=lambda word: word.start_us)


def target_path(entry: CallEntry, root: Path, out: Path | None) -> Path:
    """Where a call's words go: `NAME.json` beside its audio (the agent's), or in the same place under `out`."""
    beside = entry.audio_paths[0].with_suffix(".json")
    if out is None:
        return beside
    try:
        return out / beside.resolve().relative_to(root.resolve())
    except ValueError:
        return out / beside.name


def align_entries(
    entries: Iterable[CallEntry],
    aligner: SpeechAligner,
    *,
    root: Path,
    out: Path | None = None,
    redo: bool = False,
    agent: str | None = None,
    side: Rule = "left",
    text: Path | None = None,
    refused: Iterable[Problem] = (),
) -> Iterator[AlignedCall]:
    """Align call after call and yield what happened to each; failures also go to `align.failures.jsonl`.

    A call with word times of its own keeps them unless `redo`; its transcript is then replaced only where it is
    the file that this writes. `agent` is the agent's label in texts that name speakers; `text` stands for the
    texts of the entries. `side` is the agent's channel where the corpus names none (`speech.agent.find.decide`).
    `refused` are calls that the corpus lost before, which the record of failures names too.
    Raises OutputError for a full disk, and while another process aligns into the folder.
    """
    failures = [{"call": row.call_id, "code": row.code, "message": row.message} for row in refused]
    folder = out if out is not None else root
    # No mark of an unfinished command: a call that has no words yet is refused by a build, which names it.
    with only_writer(folder):
        try:
            for entry in entries:
                done = _align_one(
                    entry,
                    aligner,
                    target_path(entry, root, out),
                    redo=redo,
                    agent=agent,
                    side=side,
                    text=text,
                )
                if done.state == "failed":
                    failures.append({"call": done.call_id, "code": done.code, "message": done.message})
                yield done
        finally:
            _record(folder, failures)


def _align_one(
    entry: CallEntry,
    aligner: SpeechAligner,
    path: Path,
    *,
    redo: bool,
    agent: str | None,
    side: Rule,
    text: Path | None,
) -> AlignedCall:
    log = ProblemLog(entry.call_id)
    try:
        if not redo and path.is_file() and has_word_times(path):
            return AlignedCall(entry.call_id, "kept", path)
        if not redo and text is None and entry.words is not None and has_word_times(entry.words):
            return AlignedCall(entry.call_id, "kept", entry.words)
        if path.is_file() and _has_text(path):
            what = "is a text without word times, which its own words would overwrite"
            raise refusal("words-name-taken", what, path)
        entry = _sided(entry, side, aligner, log, agent=agent, text=text)
        words = align_entry(entry, aligner, log, rule=speaker_rule(entry, agent=agent), text=text)
        write_words(path, words)
    except CallRefused as error:
        log.refuse(error)
        code, message = error.code, str(error)
    except InkplexError:
        # A library or model that is not there, a disk that is full: no other call would fare better.
        raise
    # One call must not stop the others, whatever its file does to a decoder or a model.
    except Exception as error:
        code, message = "unexpected", f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
    else:
        return AlignedCall(
            entry.call_id, "aligned", path, words=len(words), problems=tuple(log), method=method_of(words)
        )
    return AlignedCall(entry.call_id, "failed", path, code=code, message=message, problems=tuple(log))


def _sided(
    entry: CallEntry,
    side: Rule,
    aligner: SpeechAligner,
    log: ProblemLog,
    *,
    agent: str | None,
    text: Path | None,
) -> CallEntry:
    """The entry with its channels named. Raises CallRefused as `decide` does."""
    told = replace(entry, words=text) if text is not None else entry
    found = decide(told, side, text=CallText.of(told, agent=agent), hear=aligner.text)
    if found.guess is not None:
        log.add("agent-guessed", found.guess.text(), item=entry.source)
    return replace(found.entry, words=entry.words)


def _record(folder: Path, failures: list[dict[str, Any]]) -> None:
    """Leave the failures of this run in `folder`, and none of an earlier one."""
    record = folder / FAILURES
    if not failures:
        record.unlink(missing_ok=True)
        return
    write_json_lines(record, failures)


def method_of(words: list[TimedWord]) -> str:
    """How most of the words got their times."""
    return Counter(word.method for word in words).most_common(1)[0][0]


def write_words(path: Path, words: list[TimedWord]) -> None:
    """The Moshi layout's JSON, plain numbers only, whole or not at all. Text conditions of a file there are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = moshi_document(words, method=method_of(words), text_conditions=_text_conditions(path))
    write_json(path, document)


def _text_conditions(path: Path) -> dict[str, Any] | None:
    try:
        return read_transcript(path).text_conditions if path.is_file() else None
    except CallRefused:
        return None
