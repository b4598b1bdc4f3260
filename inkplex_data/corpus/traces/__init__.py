"""Readers of recorded agent traces, found by content. A new format is a new file in `readers/`.

The module sets `FORMAT = TraceFormat(…)`; nothing else needs to know of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.corpus.traces import readers
from inkplex_data.corpus.traces.dialogue import Dialogue, Found, Message, Part, ToolCall, TraceFormat
from inkplex_data.errors import CallRefused, CorpusError, UsageError
from inkplex_data.faults import FaultError
from inkplex_data.problems import refusal
from inkplex_data.reading import read_bounded

__all__ = [
    "Dialogue",
    "Found",
    "Message",
    "Part",
    "ToolCall",
    "TraceFile",
    "TraceFormat",
    "formats",
    "read_traces",
]


@dataclass(frozen=True)
class TraceFile:
    """The dialogues of a file, found and not read yet; `format.parse` reads one, or refuses it.

    `faults` are lines of a JSONL file that are no JSON.
    """

    path: Path
    format: TraceFormat
    found: tuple[Found, ...]
    faults: tuple[CallRefused, ...] = ()


@cache
def formats() -> tuple[TraceFormat, ...]:
    """Every format that is known, in the order in which they are asked."""
    found = []
    for module in pkgutil.iter_modules(readers.__path__):
        loaded = importlib.import_module(f"{readers.__name__}.{module.name}")
        form = getattr(loaded, "FORMAT", None)
        if isinstance(form, TraceFormat):
            found.append(form)
    return tuple(sorted(found, key=lambda form: (-form.priority, form.name)))


def read_traces(path: Path, format_name: str | None = None) -> TraceFile:
    """Find the dialogues of a JSON or JSONL file.

    Raises CorpusError for a file that cannot be read or is of no known format, UsageError for a
    `format_name` that is not known.
    """
    known = [form for form in formats() if format_name in (None, form.name)]
    if not known:
        raise UsageError(
            f"there is no trace format {format_name!r}",
            next_step="Known formats: " + ", ".join(form.name for form in formats()) + ".",
        )
    try:
        data = read_bounded(path).removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise CorpusError(f"cannot be read ({error.strerror or error})", where=str(path)) from error
    documents, faults = _documents(data)
    for form in known:
        found = _found(form, documents)
        if found:
            return TraceFile(path, form, tuple(found), tuple(faults))
    reason = f"; {faults[0].what}" if faults else ""
    raise CorpusError(
        f"holds no dialogue of a known format{reason}",
        where=str(path),
        next_step="Known formats: " + ", ".join(form.title for form in known) + ".",
    )


def _found(form: TraceFormat, documents: list[tuple[Any, str]]) -> list[Found]:
    """The dialogues of a file, none where it is of another format."""
    if form.gather is not None:
        return list(form.gather(documents) or ())
    parts = [(document, place, form.find(document, place)) for document, place in documents]
    if all(items is None for _, _, items in parts):
        return []
    # A line of another kind among dialogues is refused by name when it is parsed.
    return [
        item
        for document, place, items in parts
        for item in ([Found(document, place)] if items is None else items)
    ]


def _documents(data: bytes) -> tuple[list[tuple[Any, str]], list[CallRefused]]:
    """The JSON values of a file with their places: one, or one a line."""
    try:
        return [(parse_json(data, half_pairs=True), "")], []
    except FaultError as whole:
        fault = refusal("trace-message", str(whole))
    documents, faults = [], []
    for number, line in enumerate(data.split(b"\n"), start=1):
        place = f"line {number}: "
        try:
            if line.strip():
                documents.append((parse_json(line, half_pairs=True), place))
        except FaultError as error:
            faults.append(refusal("trace-message", f"{place}{error}"))
    return (documents, faults) if documents else ([], [fault])
