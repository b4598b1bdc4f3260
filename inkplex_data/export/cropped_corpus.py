"""A corpus of one part of one call: its files, its task recording, and a manifest that says the rest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from inkplex_data.atomic import new_folder, write_json_lines
from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.audio.files.write_audio import write_wav
from inkplex_data.clock import SAMPLE_RATE_HZ, us_to_samples, us_to_seconds
from inkplex_data.corpus.clips import part_of
from inkplex_data.corpus.entry import AgentCaller, CallEntry, Clip, Corpus
from inkplex_data.corpus.sidecars.sidecar import read_sidecar
from inkplex_data.corpus.sidecars.sidecar_models import FileReference
from inkplex_data.errors import UsageError
from inkplex_data.export.crop_call import (
    RECORDING_FOLDER,
    copy_recording,
    crop_call,
    cropped_entry,
    write_sidecar,
)
from inkplex_data.export.file_names import FileNames
from inkplex_data.problems import Problem, ProblemLog

VOICE_FOLDER: Final = "voice"


def crop_corpus(
    corpus: Corpus, call_id: str | None, clip: Clip, folder: Path
) -> tuple[CallEntry, list[Problem]]:
    """Write the part `clip` of a call as the corpus `folder`, which is empty or not there.

    Returns the call that it holds, and what was repaired. `call_id` may be left out where there is one call.
    Crops compose: the part [c, d) of the part [a, b) is the part [a + c, a + d), to the sample and the microsecond where
    a lies on a sample of the file.

    Raises UsageError for a call that is not there and a folder that holds something, CallRefused as `crop_call` does,
    RecordingError for a faulty recording, OutputError as `new_folder` does.
    """
    part = part_of(_chosen(corpus, call_id), clip)
    log = ProblemLog(part.call_id)
    stem = FileNames().of(part.call_id)
    beside = part.audio.with_suffix(".rttm") if isinstance(part.audio, Path) else None
    with new_folder(folder) as making:
        crop_call(part, making, log, stem=stem, turns=beside if beside and beside.is_file() else None)
        cut = cropped_entry(part, making, stem=stem)
        if cut.recording is not None:
            cut = replace(
                cut, recording=copy_recording(cut.recording, making / RECORDING_FOLDER, root=corpus.root)
            )
        _take_voice(cut, {entry.call_id: entry for entry in corpus.entries}, making)
        write_json_lines(making / "manifest.jsonl", [_line(cut, making)])
    return part, list(log)


def _chosen(corpus: Corpus, call_id: str | None) -> CallEntry:
    known = {entry.call_id: entry for entry in corpus.entries}
    if call_id is None and len(known) == 1:
        return next(iter(known.values()))
    if call_id in known:
        return known[call_id]
    refused = next((str(problem) for problem in corpus.refused if problem.call_id == call_id), None)
    what = "there are several calls" if call_id is None else refused or f"there is no call {call_id!r}"
    names = ", ".join(list(known)[:10]) + (" …" if len(known) > 10 else "")
    raise UsageError(what, where=str(corpus.root), next_step=f"Name one of {names}." if known else None)


def _take_voice(entry: CallEntry, others: Mapping[str, CallEntry], folder: Path) -> None:
    """Bring the voice sample along that the sidecar names, a stretch of another call as a file."""
    assert entry.sidecar is not None
    told, segment = read_sidecar(entry.sidecar), entry.voice_segment
    prompt = told.prompt
    if prompt is None:
        return
    if entry.voice_prompt is not None and entry.voice_prompt.is_file() and prompt.voice_prompt is not None:
        name = f"{VOICE_FOLDER}/{entry.voice_prompt.name}"
        (folder / name).parent.mkdir()
        shutil.copyfile(entry.voice_prompt, folder / name)
        reference = prompt.voice_prompt.model_copy(update={"path": name})
    elif segment is not None and segment.call_id in others:
        other = others[segment.call_id]
        name = f"{VOICE_FOLDER}/{FileNames().of(segment.call_id)}.wav"
        said = resolve_channels(other.audio, other.channels).agent.samples(SAMPLE_RATE_HZ)
        said = said[us_to_samples(segment.start_us) : us_to_samples(segment.end_us)]
        (folder / name).parent.mkdir()
        write_wav(folder / name, said, SAMPLE_RATE_HZ, subtype="FLOAT")
        reference = FileReference(path=name)
    else:
        return
    prompt = prompt.model_copy(update={"voice_prompt": reference, "voice_segment": None})
    write_sidecar(entry.sidecar, told.model_copy(update={"prompt": prompt}))


def _line(entry: CallEntry, folder: Path) -> dict[str, Any]:
    """The manifest's line of a call whose files lie in `folder`."""

    def spelled(path: Path | None) -> str | None:
        return None if path is None else path.relative_to(folder).as_posix()

    audio, channels = entry.audio, entry.channels
    line: dict[str, Any] = {
        "id": entry.call_id,
        "path": {"agent": spelled(audio.agent), "caller": spelled(audio.caller)}
        if isinstance(audio, AgentCaller)
        else spelled(audio),
        "words": spelled(entry.words),
        "sidecar": spelled(entry.sidecar),
        "recording": spelled(entry.recording),
    }
    others = {
        "recording_starts_at": us_to_seconds(entry.recording_starts_at_us) if entry.recording else None,
        "family": entry.family,
        "split": entry.split,
        "role": entry.role,
        "voice": entry.voice,
        "channels": {"agent": channels.agent, "caller": channels.caller} if channels else None,
        "text_conditions": entry.text_conditions,
    }
    return line | {name: value for name, value in others.items() if value is not None}
