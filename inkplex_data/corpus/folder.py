"""A plain folder as a corpus: every audio file in it and below is a call, the files beside it are its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from inkplex_data.corpus.assemble import (
    RECORDING_SUFFIX,
    SIDECAR_SUFFIX,
    Draft,
    Listing,
    path_ids,
    without_suffix,
)
from inkplex_data.corpus.transcripts import word_suffixes
from inkplex_data.errors import CorpusError
from inkplex_data.problems import Problem

_NAMED = "wav wave flac mp3 ogg oga opus m4a mp4 m4b aac ac3 aif aiff aifc au snd sph nist caf w64 rf64 bwf"
_NAMED += " wma webm mka mkv mov amr 3gp gsm spx wv ape tta voc ulaw alaw ul al g711 g722 vox raw pcm"
AUDIO_SUFFIXES = frozenset("." + name for name in _NAMED.split())
"""File name endings taken for audio. Headerless ones are here too: they are refused by name, not passed over."""

MANIFEST_NAME = "manifest.jsonl"
"""A folder that holds this is read through it."""


def read_folder(folder: Path) -> Listing:
    """All calls in `folder`, sorted by path, and a note on files that belong to none.

    Hidden files and folders are passed over; symbolic links to folders are not followed.
    Raises CorpusError where there is no audio at all.
    """
    files = sorted(_files(folder))
    spelled = [path for path in files if Path(path).suffix.lower() in AUDIO_SUFFIXES]
    if not spelled:
        raise CorpusError(
            f"the folder holds no audio file, only {len(files)} other files"
            if files
            else "the folder is empty",
            where=str(folder),
            next_step="Name a folder with audio files, a manifest, or a JSONL inventory.",
        )
    drafts = [
        Draft(call_id=call_id, audio=path, where=path)
        for call_id, path in zip(path_ids(spelled), spelled, strict=True)
    ]
    listing = Listing("folder", drafts)
    stray = _stray(files, spelled)
    if stray:
        shown = ", ".join(stray[:10]) + (f" and {len(stray) - 10} more" if len(stray) > 10 else "")
        listing.notes.append(Problem.of("files-ignored", "", shown, item=folder.name))
    return listing


def _files(folder: Path) -> Iterator[str]:
    """Paths of all files, relative to `folder`, with forward slashes."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            if not name.startswith("."):
                yield (Path(parent) / name).relative_to(folder).as_posix()


def _stray(files: list[str], audio: list[str]) -> list[str]:
    suffixes = (SIDECAR_SUFFIX, RECORDING_SUFFIX, *word_suffixes())
    owned = set(audio)
    for path in audio:
        owned.update(without_suffix(path) + suffix for suffix in suffixes)
    return [path for path in files if path not in owned]
