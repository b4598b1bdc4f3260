"""Word times for the calls of a corpus: each call's agent channel, with a file per call and a record of failures.

A run that was interrupted goes on where it stopped, because a call that has its file is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.atomic import replacing
from inkplex_data.audio.call import ChannelRef, resolve_channels
from inkplex_data.audio.resample import resample
from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.transcripts import read_segments, read_transcript
from inkplex_data.corpus.transcripts.moshi import moshi_document
from inkplex_data.corpus.words import SPEAKER_MAIN, TimedWord
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog
from inkplex_data.speech.align.packing import RATE_HZ
from inkplex_data.speech.align.transcribe import SpeechAligner

FAILURES: Final = "align.failures.jsonl"
MAX_STRETCH_US: Final = 300_000_000


@dataclass(frozen=True)
class AlignedCall:
    """What happened to a call. `state`: aligned, kept (it had its words) or failed, with `code` and `message`."""

    call_id: str
    state: str
    path: Path
    words: int = 0
    code: str = ""
    message: str = ""


def channel_samples(ref: ChannelRef) -> npt.NDArray[np.float32]:
    """One channel as float32 [n] at 16 kHz. Raises CallRefused."""
    source = ref.open()
    blocks = [block[ref.channel_index] for block in source.blocks()]
    return resample(np.concatenate([np.zeros(0, np.float32), *blocks]), source.sample_rate_hz, RATE_HZ)


def agent_channel(entry: CallEntry) -> ChannelRef:
    """Where the agent's voice is: a one-channel file holds one voice. Raises CallRefused."""
    try:
        return resolve_channels(entry.audio, entry.channels).agent
    except CallRefused as error:
        if error.code == "audio-mono" and isinstance(entry.audio, Path):
            return ChannelRef(entry.audio)
        raise


def needs_words(path: Path | None) -> bool:
    """Whether a call has no transcript, or one that times captions or utterances only."""
    if path is None:
        return True
    try:
        read_transcript(path)
    except CallRefused as error:
        return error.code in {"words-no-word-times", "words-speakers-only"}
    return False


def align_entry(
    entry: CallEntry, aligner: SpeechAligner, log: ProblemLog, *, known: bool = True
) -> list[TimedWord]:
    """The agent's words; where the entry's transcript times stretches of text, and `known`, those words re-timed.

    Raises CallRefused (words-not-found) where nothing is heard. Words that the filters removed are in `log`.
    """
    samples = channel_samples(agent_channel(entry))
    if known and entry.words is not None and needs_words(entry.words):
        words = _retimed(entry.words, samples, aligner, log)
        if words:
            return words
    found = aligner.words(samples)
    for reason, text in found.removed:
        log.add("word-filtered", f"{reason}: {text[:200]}")
    if not found.words:
        raise CallRefused("words-not-found", "no words were heard in the agent's channel", where=entry.source)
    return found.words


def _retimed(
    path: Path, samples: npt.NDArray[np.float32], aligner: SpeechAligner, log: ProblemLog
) -> list[TimedWord]:
    """The words of captions, each caption aligned within its own stretch."""
    words: list[TimedWord] = []
    for segment in read_segments(path):
        text = segment.text.split()
        start_us, end_us = max(seconds_to_us(segment.start_s), 0), seconds_to_us(segment.end_s)
        if not text or end_us <= start_us:
            continue
        timed = None
        if end_us - start_us <= MAX_STRETCH_US:
            timed = aligner.time_text(
                samples, text, start_us=start_us, end_us=end_us, speaker=segment.speaker or SPEAKER_MAIN
            )
        if timed is None:
            log.add(
                "words-not-aligned", f"{start_us} to {end_us} µs: {segment.text[:200]!r}", item=segment.item
            )
            continue
        words += timed
    return sorted(words, key=lambda word: word.start_us)


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
    on_problems: Callable[[ProblemLog], None] | None = None,
) -> Iterator[AlignedCall]:
    """Align call after call and yield what happened to each; failures also go to `align.failures.jsonl`.

    A call with word times of its own keeps them unless `redo`; its transcript is then replaced only where it is
    the file that this writes.
    """
    failures: list[dict[str, Any]] = []
    folder = out if out is not None else root
    for entry in entries:
        path = target_path(entry, root, out)
        log = ProblemLog(entry.call_id)
        if not redo and (path.is_file() or not needs_words(entry.words)):
            yield AlignedCall(entry.call_id, "kept", path if path.is_file() else entry.words or path)
            continue
        try:
            words = align_entry(entry, aligner, log)
        except CallRefused as error:
            log.refuse(error)
            failures.append({"call": entry.call_id, "code": error.code, "message": str(error)})
            yield AlignedCall(entry.call_id, "failed", path, code=error.code, message=str(error))
        else:
            write_words(path, words, method=words[0].method)
            yield AlignedCall(entry.call_id, "aligned", path, words=len(words))
        if on_problems is not None:
            on_problems(log)
    record = folder / FAILURES
    if failures:
        record.parent.mkdir(parents=True, exist_ok=True)
        with replacing(record) as file:
            file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in failures).encode())
    else:
        record.unlink(missing_ok=True)


def write_words(path: Path, words: list[TimedWord], *, method: str) -> None:
    """The Moshi layout's JSON, plain numbers only, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(
            json.dumps(moshi_document(words, method=method), ensure_ascii=False, allow_nan=False).encode()
        )
