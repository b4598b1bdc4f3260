"""A corpus of one part of one call: its files, its task recording, and a manifest that says the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from inkplex_data.atomic import new_folder, write_json_lines
from inkplex_data.clock import us_to_seconds
from inkplex_data.corpus.clips import part_of
from inkplex_data.corpus.entry import AgentCaller, CallEntry, Clip, Corpus
from inkplex_data.errors import UsageError
from inkplex_data.export.crop_call import RECORDING_FOLDER, copy_recording, crop_call, cropped_entry
from inkplex_data.export.file_names import FileNames
from inkplex_data.problems import Problem, ProblemLog


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
