"""Reading a corpus of any of its three layouts."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from inkplex_data.atomic import UNFINISHED, unfinished
from inkplex_data.corpus.assemble import assemble
from inkplex_data.corpus.entry import Corpus, CorpusKind
from inkplex_data.corpus.folder import MANIFEST_NAME, read_folder
from inkplex_data.corpus.manifest import read_lines
from inkplex_data.corpus.paths import Paths
from inkplex_data.errors import CorpusError


def read_corpus(path: Path, *, root: Path | None = None, allow_outside: bool = False) -> Corpus:
    """The calls of a manifest, a Moshi inventory, or a folder (through its `manifest.jsonl` or `manifest.jsonl.gz`, if
    it has one). JSONL may be packed by gzip.

    Paths are relative to the file's folder and must lead into `root` (default: that folder), symbolic
    links followed; absolute ones too, unless `allow_outside`. A call whose line or files are at fault is
    refused in `Corpus.problems`, the others go on. Of two calls with one id the first stays.

    Raises CorpusError where the corpus as a whole cannot be read, and for a folder that a command has not filled yet.
    """
    path, kind = locate(path)
    folder = path if kind == "folder" else path.parent
    if command := unfinished(folder):
        raise CorpusError(
            f"`inkplex-data {command}` has not finished here",
            where=str(folder),
            next_step=f"Run it again, which completes the folder. To read what there is, remove {UNFINISHED} first.",
        )
    paths = Paths(folder, (root or folder).resolve(), allow_outside)
    listing = read_folder(path, paths) if kind == "folder" else read_lines(path, root=paths.root, kind=kind)
    result = assemble(listing.drafts, paths)
    refused = [refusal.problem() for refusal in (*listing.refusals, *result.refusals)]
    return Corpus(folder, listing.kind, tuple(result.entries), (*listing.notes, *result.notes, *refused))


def read_calls(path: Path) -> Corpus:
    """As `read_corpus`, but `path` may also be an audio file: its folder's calls of this file, or the folder's problems
    where there is none. Raises CorpusError."""
    if not path.is_file() or path.name.lower().removesuffix(".gz").endswith((".jsonl", ".json")):
        return read_corpus(path)
    found, audio = read_corpus(path.parent), path.resolve()
    own = [entry for entry in found.entries if audio in (one.resolve() for one in entry.audio_paths)]
    return replace(found, entries=tuple(own), problems=() if own else found.problems)


def locate(path: Path) -> tuple[Path, CorpusKind | None]:
    """The file or folder to read, and its kind as far as it is known without reading. Raises CorpusError."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the links that neighbours lie beside
    if path.is_dir():
        named = (path / name for name in (MANIFEST_NAME, f"{MANIFEST_NAME}.gz"))
        manifest = next((name for name in named if name.is_file()), None)
        return (path, "folder") if manifest is None else (manifest, "manifest")
    if path.is_file():
        return path, None
    raise CorpusError(
        "is neither a regular file nor a folder" if path.exists() else "does not exist",
        where=str(path),
        next_step="Name a manifest, a Moshi JSONL or a folder of audio files.",
    )
