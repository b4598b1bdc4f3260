"""A plain folder as a corpus: every audio file in it and below is a call, the files beside it are its own."""

from __future__ import annotations

import os
from pathlib import Path

from inkplex_data.corpus.assemble import (
    RECORDING_SUFFIX,
    SIDECAR_SUFFIX,
    Draft,
    Listing,
    path_ids,
    without_suffix,
)
from inkplex_data.corpus.paths import Paths
from inkplex_data.corpus.transcripts import word_suffixes
from inkplex_data.errors import CorpusError
from inkplex_data.faults import FaultError
from inkplex_data.plural import counted
from inkplex_data.problems import Problem

_NAMED = "wav wave flac mp3 ogg oga opus m4a mp4 m4b aac ac3 aif aiff aifc au snd sph nist caf w64 rf64 bwf"
_NAMED += " wma webm mka mkv mov amr 3gp gsm spx wv ape tta voc ulaw alaw ul al g711 g722 vox raw pcm"
AUDIO_SUFFIXES = frozenset("." + name for name in _NAMED.split())
"""File name endings taken for audio. Headerless ones are here too: they are refused by name, not passed over."""

MANIFEST_NAME = "manifest.jsonl"
"""A folder that holds this is read through it."""


def read_folder(folder: Path, paths: Paths) -> Listing:
    """All calls in `folder`, sorted by path, and notes on files that belong to none and on folders not looked into.

    Hidden files and folders are passed over. Links to folders inside the root of `paths` are followed, each folder once.
    Raises CorpusError where there is no audio at all.
    """
    files, skipped = _walk(folder, paths)
    spelled = [path for path in files if Path(path).suffix.lower() in AUDIO_SUFFIXES]
    if not spelled:
        more = f"; not looked into: {_some(skipped)}" if skipped else ""
        raise CorpusError(
            f"the folder holds no audio file, only {counted(len(files), 'other file')}{more}"
            if files or skipped
            else "the folder is empty",
            where=str(folder),
            next_step="Name a folder with audio files, a manifest, or a JSONL inventory.",
        )
    drafts = [
        Draft(call_id=call_id, audio=path, where=path)
        for call_id, path in zip(path_ids(spelled), spelled, strict=True)
    ]
    listing = Listing("folder", drafts)
    for code, found in (("files-ignored", _stray(files, spelled)), ("folders-skipped", skipped)):
        if found:
            listing.notes.append(Problem.of(code, "", _some(found), item=folder.name))
    return listing


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more


def _walk(folder: Path, paths: Paths) -> tuple[list[str], list[str]]:
    """All files below `folder`, sorted, and the folders that cannot be listed or lead outside, with the reason.

    Both relative to `folder`, with forward slashes. A folder that can be reached in several ways is listed under its own
    name, not that of a link.
    """
    files: list[str] = []
    skipped: list[str] = []
    seen: set[str] = set()

    def spelled(path: str) -> str:
        return Path(path).relative_to(folder).as_posix()

    def unreadable(error: OSError) -> None:
        skipped.append(f"{spelled(error.filename)} ({error.strerror})")

    starts = [str(folder)]
    while starts:
        links: list[str] = []
        for start in starts:
            for parent, folders, names in os.walk(start, onerror=unreadable):
                real = os.path.realpath(parent)
                if real in seen:
                    folders.clear()
                    continue
                seen.add(real)
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                below = [os.path.join(parent, name) for name in folders]  # noqa: PTH118
                links += [path for path in below if os.path.islink(path)]  # noqa: PTH114
                files += [spelled(os.path.join(parent, name)) for name in names if not name.startswith(".")]  # noqa: PTH118
        starts = []
        for link in sorted(links):
            try:
                paths.check_inside(Path(link), link)
                starts.append(link)
            except FaultError:
                skipped.append(f"{spelled(link)} (leads outside, to {os.path.realpath(link)})")
    return sorted(files), sorted(skipped)


def _stray(files: list[str], audio: list[str]) -> list[str]:
    suffixes = (SIDECAR_SUFFIX, RECORDING_SUFFIX, *word_suffixes())
    calls, stems = set(audio), {without_suffix(path) for path in audio}

    def is_owned(path: str) -> bool:
        lower = path.lower()
        return path in calls or any(
            lower.endswith(suffix.lower()) and path[: -len(suffix)] in stems for suffix in suffixes
        )

    return [path for path in files if not is_owned(path)]
