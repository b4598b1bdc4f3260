"""What a command names as its corpus: a store, files, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inkplex_data.errors import UsageError
from inkplex_data.soma.tokens.source_text import Document, Stream, TextFile
from inkplex_data.soma.tokens.store_text import store_documents
from inkplex_data.store.reader import open_store

STDIN = "-"


@dataclass(frozen=True)
class Corpus:
    """Documents, and the key under which a model keeps its place among them: a store's snapshot, or the files' paths."""

    key: str
    documents: list[Document]


@contextmanager
def open_corpus(sources: Sequence[str]) -> Iterator[Corpus]:
    """One store (a folder or URL), or files of text in the order given, or `-` for standard input.

    Raises UsageError for a mixture and for what is not there, StoreError for a folder that is no store.
    """
    if not sources:
        raise UsageError(
            "no corpus is named", next_step="Name a store, files of text, or - for standard input."
        )
    stores = [source for source in sources if "://" in source or Path(source).is_dir()]
    if (stores or STDIN in sources) and len(sources) > 1:
        raise UsageError(
            f"a store and standard input are read alone, not with {len(sources) - 1} more",
            where=stores[0] if stores else STDIN,
            next_step="Name one store, or standard input, or files of text.",
        )
    if stores:
        with open_store(stores[0]) as store:
            yield Corpus(f"{store.root}@{store.snapshot.number}", store_documents(store))
    elif sources[0] == STDIN:
        yield Corpus(STDIN, [Stream(sys.stdin.buffer)])
    else:
        paths = [Path(source).resolve() for source in sources]
        for source, path in zip(sources, paths, strict=True):
            if not path.is_file():
                raise UsageError(
                    "there is no such file", where=source, next_step="Name a file of text or a store."
                )
        yield Corpus("\n".join(map(str, paths)), [TextFile(path) for path in paths])
