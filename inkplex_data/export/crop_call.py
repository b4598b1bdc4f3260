"""A part of a call as files of its own, in which everything has moved together: what `crop` writes and a build of
clips reads.

    STEM.wav | STEM.agent.wav + STEM.caller.wav    the samples of the part, exact, in the channels and at the rate of the file
    STEM.json            the words that begin in it, with the labels of the transcript
    STEM.rttm            its speaker turns, where such lie beside the audio
    STEM.sidecar.json    the sidecar, cropped; a new one where the call has none
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final, Literal

import numpy as np

from inkplex_data.atomic import replacing, write_json
from inkplex_data.audio.files.audio_source import AudioSource, open_audio
from inkplex_data.audio.files.blocks import BlockReader
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.files.write_audio import write_wav_into
from inkplex_data.clock import INT64_MAX, samples_to_us, seconds_to_us, us_to_samples, us_to_seconds
from inkplex_data.corpus import swap
from inkplex_data.corpus.assemble import SIDECAR_SUFFIX
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import AgentCaller, CallEntry, Clip
from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.sidecars.crop import crop, cut_text
from inkplex_data.corpus.sidecars.sidecar_models import Audio, Excluded, Identity, Masks, Sidecar
from inkplex_data.corpus.transcripts import read_segments, timed_words
from inkplex_data.corpus.transcripts.moshi import moshi_document
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.export.native import wav_subtype
from inkplex_data.problems import ProblemLog, refusal

RECORDING_FOLDER: Final = "recording"


def crop_call(
    entry: CallEntry, folder: Path, log: ProblemLog, *, stem: str = "call", turns: Path | None = None
) -> None:
    """Write the files of the part that `entry.clip` names into `folder`; `cropped_entry` finds them there.

    `turns`: an RTTM file of the call. What was repaired in the words of the whole call, and what the part lacks, goes
    to `log`. Memory stays at a few blocks; decoding ends with the part.

    Raises CallRefused: clip-outside where the audio ends before the part does, audio-not-finite, and what opening and
    decoding the audio and reading the words and the sidecar raise.
    """
    clip = entry.clip
    assert clip is not None
    text = CallText.of(entry)
    lost = _write_audio(entry, clip, folder / stem, log)
    cut: list[Excluded] = []
    if entry.words is not None:
        if text.lacks_word_times:
            log.add("clip-words-untimed", "its words have no times of their own", item=entry.words.name)
        elif (found := text.transcript) is not None:
            words = timed_words(found, duration_us=INT64_MAX, log=log)
            cut = cut_text(
                ((word.text, word.start_us, word.end_us) for word in words), clip.start_us, clip.end_us
            )
            document = moshi_document(
                cropped_words(words, clip),
                text_conditions=found.text_conditions,
                method=found.method or found.format,
                agent=found.agent,
                channels=found.channels,
            )
            write_json(folder / f"{stem}.json", document)
    if turns is not None:
        _write_turns(turns, clip, folder / f"{stem}.rttm")
    told = _sidecar(entry, text.unswapped_sidecar, clip, [*lost, *cut])
    if told.audio is not None:
        told = told.model_copy(update={"audio": _described(told.audio, entry, folder, stem)})
    write_sidecar(folder / f"{stem}{SIDECAR_SUFFIX}", told)


def write_sidecar(path: Path, sidecar: Sidecar) -> None:
    """Write a sidecar file."""
    path.write_text(sidecar.model_dump_json(by_alias=True, exclude_none=True), encoding="utf-8")


def cropped_entry(entry: CallEntry, folder: Path, *, stem: str = "call") -> CallEntry:
    """The part as a call of the files that `crop_call` wrote."""

    def there(suffix: str) -> Path | None:
        path = folder / f"{stem}{suffix}"
        return path if path.is_file() else None

    audio: Path | AgentCaller = folder / f"{stem}.wav"
    if isinstance(entry.audio, AgentCaller):
        agent, caller = (folder / f"{stem}.{side}.wav" for side in ("agent", "caller"))
        audio = AgentCaller(caller, agent) if entry.swapped else AgentCaller(agent, caller)
    return dataclasses.replace(
        entry, audio=audio, words=there(".json"), sidecar=there(SIDECAR_SUFFIX), clip=None
    )


def cropped_words(words: Sequence[TimedWord], clip: Clip) -> list[TimedWord]:
    """The words that begin in the part, on its own clock; what sounds on behind it ends with it."""
    return [
        dataclasses.replace(
            word,
            start_us=word.start_us - clip.start_us,
            end_us=min(word.end_us, clip.end_us) - clip.start_us,
        )
        for word in words
        if clip.start_us <= word.start_us < clip.end_us
    ]


def copy_recording(path: Path, folder: Path, *, root: Path) -> Path:
    """A task recording with its states under `folder`, laid out as it was. Returns where the recording is now.

    Raises RecordingError for one that cannot be read.
    """
    states = (request.states_path for request in read_recording(path, root=root))
    files = [path, *(one for one in states if one is not None)]
    base = os.path.commonpath([file.resolve().parent for file in files])
    for file in dict.fromkeys(files):
        target = folder / os.path.relpath(file.resolve(), base)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    return folder / os.path.relpath(path.resolve(), base)


def _write_audio(entry: CallEntry, clip: Clip, base: Path, log: ProblemLog) -> list[Excluded]:
    """Write the part of each file; returns the stretches that a file lacks inside."""
    sides: list[tuple[Literal["agent", "caller"], ...]] = [("agent", "caller")]
    targets = [base.with_name(f"{base.name}.wav")]
    if isinstance(entry.audio, AgentCaller):
        sides = [("caller",), ("agent",)] if entry.swapped else [("agent",), ("caller",)]
        targets = [base.with_name(f"{base.name}.{own}.wav") for (own,) in sides]
    lost: list[Excluded] = []
    ends: list[tuple[bool, str]] = []
    for path, target, modalities in zip(entry.audio_paths, targets, sides, strict=True):
        source = open_audio(path)
        if source.tracks > 1:
            log.add(
                "audio-extra-tracks",
                f"holds {source.tracks} audio tracks; the first is used",
                item=str(path),
            )
        rate = source.sample_rate_hz
        span = us_to_samples(clip.start_us, rate), us_to_samples(clip.end_us, rate)
        reader = source.blocks()
        with replacing(target) as file:
            write_wav_into(
                file,
                _between(reader, *span, source),
                rate,
                subtype=wav_subtype([source.container]),
                where=target.name,
            )
        reason = f" ({reader.fault})" if reader.fault else ""
        ends.append((reader.samples >= span[1], f"{reader.samples / rate:.6f} s{reason}"))
        for start_s, end_s in _holes(reader, *span, rate):
            lost += [
                Excluded(modality=own, start_s=start_s, end_s=end_s, reason="missing") for own in modalities
            ]
            # Words that sound into a hole are cut by it, whoever says them.
            lost.append(Excluded(modality="text", start_s=start_s, end_s=end_s, reason="cut_word"))
    if lost:
        log.add("audio-damaged", f"{len(lost)} stretches of the part are missing inside", item=entry.source)
    if not any(reached for reached, _ in ends):
        what = f"the part ends at {us_to_seconds(clip.end_us)} s, the audio at {' and '.join(end for _, end in ends)}"
        raise refusal("clip-outside", what, entry.source)
    return lost


def _between(reader: BlockReader, first: int, last: int, source: AudioSource) -> Iterator[Samples]:
    """Samples [first, last) of a file, float32 [channels, n]; fewer where it ends before."""
    yield np.zeros((source.channels, 0), np.float32)
    at = 0
    while at < last and (block := next(reader, None)) is not None:
        piece = block[:, max(first - at, 0) : max(last - at, 0)]
        if not np.isfinite(piece).all():
            raise refusal("audio-not-finite", "holds NaN or infinity in the part", source.path)
        if piece.shape[1]:
            yield piece
        at += block.shape[1]


def _holes(reader: BlockReader, first: int, last: int, rate: int) -> Iterator[tuple[float, float]]:
    """What the file lacks of [first, last), in seconds of the part."""
    for start, end in reader.holes:
        if start < last and end > first:
            within = (max(start, first) - first, min(end, last) - first)
            yield us_to_seconds(samples_to_us(within[0], rate)), us_to_seconds(samples_to_us(within[1], rate))


def _sidecar(entry: CallEntry, given: Sidecar | None, clip: Clip, lost: Sequence[Excluded]) -> Sidecar:
    """The cropped sidecar, under the part's name, with what carries no loss in it."""
    whole = given or Sidecar(schema_="inkplex/sidecar@1", identity=Identity(clip_id=entry.call_id))
    part = crop(whole, clip.start_us, clip.end_us)
    identity = part.identity.model_copy(
        update={
            # The sidecar is that of the call as it was recorded.
            "clip_id": entry.call_id.removesuffix(swap.SUFFIX) if entry.swapped else entry.call_id,
            "source_id": part.identity.source_id or (given.identity.clip_id if given else entry.source),
            "family": entry.family,
        }
    )
    masks = part.masks or Masks()
    excluded = {
        (span.start_s, span.end_s, span.modality, span.reason): span for span in (*masks.excluded, *lost)
    }
    if lost:
        ordered = [excluded[key] for key in sorted(excluded)]
        part = part.model_copy(update={"masks": masks.model_copy(update={"excluded": ordered})})
    return part.model_copy(update={"identity": identity})


def _described(audio: Audio, entry: CallEntry, folder: Path, stem: str) -> Audio:
    """The sidecar's waveform as the file that was written of it; where that lay in the old one is `offset_s`."""
    part = cropped_entry(entry, folder, stem=stem)
    made = dict(zip((path.name for path in entry.audio_paths), part.audio_paths, strict=True))
    file = made.get(PurePath(audio.path).name if audio.path else entry.audio_paths[0].name)
    if file is None or (audio.path is None and len(made) > 1):
        return audio.model_copy(update={"path": None, "sha256": None, "samples": None})
    source = open_audio(file)
    known = {
        "path": audio.path and file.name,
        "sha256": audio.sha256 and _sha256(file),
        "samples": None if audio.samples is None else source.count_samples(),
        "sample_rate_hz": audio.sample_rate_hz and source.sample_rate_hz,
    }
    return audio.model_copy(update=known)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_turns(path: Path, clip: Clip, target: Path) -> None:
    """Speaker turns within the part, as RTTM."""
    lines = []
    for turn in read_segments(path):
        start_us = max(seconds_to_us(turn.start_s), clip.start_us) - clip.start_us
        end_us = min(seconds_to_us(turn.end_s), clip.end_us) - clip.start_us
        if start_us < end_us:
            times = f"{us_to_seconds(start_us)} {us_to_seconds(end_us - start_us)}"
            lines.append(f"SPEAKER {target.stem} 1 {times} <NA> <NA> {turn.speaker} <NA> <NA>\n")
    target.write_text("".join(lines), encoding="utf-8")
