"""`inkplex-data validate`: every fault of a corpus file, with line or JSON pointer, value got and rule."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

from inkplex_data.corpus.assemble import RECORDING_SUFFIX, SIDECAR_SUFFIX, assemble
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.fields import Model, read_model
from inkplex_data.corpus.folder import MANIFEST_NAME, read_folder
from inkplex_data.corpus.jsontext import numbered_lines, parse_json
from inkplex_data.corpus.manifest import read_lines
from inkplex_data.corpus.models import AlignmentFile, SplitsFile, StoreDescription
from inkplex_data.corpus.names import UNNAMABLE
from inkplex_data.corpus.paths import Paths
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.recordings.recording import check_repeated, check_requests
from inkplex_data.corpus.recordings.recording_lines import RecordedRequest, parse_header, parse_request
from inkplex_data.corpus.recordings.recording_models import RecordingHeader
from inkplex_data.corpus.sidecars.claims import claim_faults
from inkplex_data.corpus.sidecars.sidecar import availability_faults
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.corpus.transcripts import NOT_JSON, Content, detect
from inkplex_data.errors import CallRefused, CorpusError, RecordingError, UsageError
from inkplex_data.faults import Fault, FaultError
from inkplex_data.problems import Problem, ProblemLog
from inkplex_data.reading import read_bounded

Kind = Literal[
    "manifest", "moshi", "alignment", "transcript", "sidecar", "recording", "splits", "store", "folder"
]
STORE_NAME = "store.json"
DETECT_BYTES = 16 * 2**20
"""A document whose kind its name does not tell is read up to here to find it out."""


def detect_kind(path: Path) -> Kind:
    """What `path` is, by its name, else by its content.

    A folder with a store.json is a `store`: `validate_path` checks that file alone, and the digests of
    all others are for `store.verify`. Raises CorpusError where the kind cannot be told.
    """
    if path.is_dir():
        return "store" if (path / STORE_NAME).is_file() else "folder"
    if not path.is_file():
        raise CorpusError("does not exist", where=str(path))
    name = path.name.lower()
    for ending, kind in _BY_NAME.items():
        if name.endswith(ending):
            return kind
    found = _kind_of_content(path)
    if found is None:
        raise CorpusError(
            "cannot be recognised as a manifest, sidecar, recording, alignment, splits file or store",
            where=str(path),
            next_step=f"Say what it is with --kind: {', '.join(get_args(Kind))}.",
        )
    return found


def validate_path(path: Path, kind: str | None = None) -> list[Fault]:
    """Every fault of a file, or of all files of a folder. An empty list says that there is none.

    What a build would only note is among them, under a code whose severity is `info`.

    Raises CorpusError where there is nothing to read or its kind cannot be told, UsageError for a
    `kind` that does not exist.
    """
    found = detect_kind(path) if kind is None else kind
    check = _CHECKS.get(found)
    if check is None:
        raise UsageError(
            f"there is no kind {kind!r} of file", next_step="Choose one of " + ", ".join(get_args(Kind)) + "."
        )
    if not path.exists():
        raise CorpusError("does not exist", where=str(path))
    return list(check(path))


def _kind_of_content(path: Path) -> Kind | None:
    for line in numbered_lines(path):
        try:
            kind = _kind_of_object(parse_json(line.data))
        except FaultError:
            break
        if kind is not None:
            return kind
        if path.suffix.lower() == ".jsonl":
            return "manifest"
        break
    try:
        content = Content(path, read_bounded(path, DETECT_BYTES))
    except CorpusError:
        return None
    kind = _kind_of_object(content.json)
    if kind is None and (detect(content) is not None or _is_broken(content)):
        return "transcript"
    return "manifest" if kind is None and path.suffix.lower() == ".jsonl" else kind


def _is_broken(content: Content) -> bool:
    """Whether this is named JSON and is none, or none that may be read: beside audio a build takes it for words."""
    named = content.path.suffix.lower() == ".json" and content.json is NOT_JSON
    return named or content.refused is not None


def _kind_of_object(data: object) -> Kind | None:
    if not isinstance(data, dict):
        return None
    schema = data.get("schema")
    if isinstance(schema, str) and schema in _BY_SCHEMA:
        return _BY_SCHEMA[schema]
    for keys, kind in _BY_KEYS:
        if keys <= data.keys():
            return kind
    return None


_BY_NAME: dict[str, Kind] = {
    SIDECAR_SUFFIX: "sidecar",
    RECORDING_SUFFIX: "recording",
    MANIFEST_NAME: "manifest",
    STORE_NAME: "store",
}
_BY_SCHEMA: dict[str, Kind] = {
    "inkplex/sidecar@1": "sidecar",
    "inkplex/recording@1": "recording",
    "inkplex/splits@1": "splits",
}
_BY_KEYS: tuple[tuple[frozenset[str], Kind], ...] = (
    (frozenset({"alignments"}), "alignment"),
    (frozenset({"call", "tokens"}), "recording"),
    (frozenset({"families"}), "splits"),
    (frozenset({"format", "codec"}), "store"),
    (frozenset({"id", "path"}), "manifest"),
    (frozenset({"path"}), "moshi"),
    (frozenset({"identity"}), "sidecar"),
)


def _document(
    path: Path, model: type[Model], more: Callable[[Any], list[Fault]] = lambda _: []
) -> Iterator[Fault]:
    try:
        found = more(read_model(path, model))
    except FaultError as error:
        found = list(error.faults)
    yield from (fault.at(str(path)) for fault in found)


def _jsonl(path: Path) -> Iterator[Fault]:
    """Every line by itself, then what a build would refuse: missing files, equal ids, disagreeing splits, bad texts."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 - links are followed when they are checked
    paths = Paths(path.parent, path.parent.resolve())
    try:
        lines = read_lines(path, root=paths.root)
    except CorpusError as error:
        yield Fault(error.what, where=str(path))
        return
    yield from _notes(path, lines.notes)
    calls = assemble(lines.drafts, paths)
    faults = [fault for refusal in (*lines.refusals, *calls.refusals) for fault in refusal.faults]
    yield from (
        fault.at(str(path), fault.line) for fault in sorted(faults, key=lambda fault: fault.line or 0)
    )
    for text in _texts(calls.entries).values():
        yield from _text(text)
    for recording in dict.fromkeys(entry.recording for entry in calls.entries if entry.recording is not None):
        yield from _recording(recording, paths.root)


def _texts(entries: Iterable[CallEntry]) -> dict[Path, CallText]:
    """The calls that have a transcript, by its path; of calls that share one the first."""
    found: dict[Path, CallText] = {}
    for entry in entries:
        if entry.words is not None and entry.words not in found:
            found[entry.words] = CallText.of(entry)
    return found


def _recording(path: Path, root: Path | None = None) -> Iterator[Fault]:
    """The first fault of every line, and where there is none what a build finds the lines to say about each other.

    `root`: the corpus folder, which files that are named must not leave; by default that of the recording.
    """
    folder = Path(os.path.abspath(path)).parent  # noqa: PTH100 - as above
    paths = Paths(folder, (root or folder).resolve())
    seen: dict[int, int] = {}
    requests: list[RecordedRequest] = []
    header: RecordingHeader | None = None
    number = faults = 0
    try:
        for number, line in enumerate(numbered_lines(path), start=1):
            try:
                if number == 1:
                    header = parse_header(line)
                else:
                    requests.append(parse_request(line, paths))
                    check_repeated(requests[-1], seen)
            except FaultError as error:
                faults += 1
                yield from (fault.at(str(path), line.number) for fault in error.faults)
    except (CorpusError, OSError) as error:
        faults += 1
        yield Fault(str(error), where=str(path))
    if number == 0:
        yield Fault("is empty; a recording begins with a header line", where=str(path))
    if header is not None and not faults:
        try:
            check_requests(header, requests, source=path.name)
        except RecordingError as error:
            line_number = (error.where or "").removeprefix(f"{path.name}:")
            at = int(line_number) if line_number.isdecimal() else None
            yield Fault(
                error.what, where=str(path), line=at, code=error.code, next_step=error.next_step or ""
            )


def _transcript(path: Path) -> Iterator[Fault]:
    return _text(CallText.of_words(path))


def _text(text: CallText) -> Iterator[Fault]:
    """What a build would repair or refuse in a call's transcript, were the audio long enough for all words.

    In the layout of Moshi fine-tuning the schema has more to say, and a pointer to it.
    """
    path = text.entry.words
    assert path is not None
    if _quiet_kind(path) == "alignment" and (found := list(_document(path, AlignmentFile))):
        yield from found
        return
    log = ProblemLog(path.name)
    refused: CallRefused | None = None
    try:
        text.agent_words(duration_us=2**62, log=log)
    except CallRefused as error:
        refused = error
    for problem in log:
        if problem.severity != "info":
            yield Fault(problem.code, problem.message, problem.item, str(path), code=problem.code)
    if refused is not None:
        yield Fault(refused.what, where=str(path), code=refused.code, next_step=refused.next_step or "")


def _notes(path: Path, notes: Iterable[Problem]) -> Iterator[Fault]:
    """What a build would note of the corpus or a call of it, without refusing anything; the code says so."""
    yield from (
        Fault(f"{note.code}: {note.message}", where=str(path.parent / note.item), code=note.code)
        for note in notes
    )


def _folder(path: Path) -> Iterator[Fault]:
    """Every file by itself, each transcript as the call reads it that it lies beside."""
    texts: dict[Path, CallText] = {}
    with suppress(CorpusError):  # a folder of anything but calls may be checked as well
        if (path / MANIFEST_NAME).is_file():
            texts = _texts(read_corpus(path).entries)
        else:
            paths = Paths(path, path.resolve())
            listing = read_folder(path, paths)
            calls = assemble(listing.drafts, paths)
            yield from _notes(path, listing.notes)
            faults = [fault for refusal in calls.refusals for fault in refusal.faults]
            yield from (fault.at(str(path)) for fault in faults if fault.code == UNNAMABLE)
            texts = _texts(calls.entries)
    checked: set[str] = set()
    found: Iterator[Fault]
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(parent) / name
            absolute = Path(os.path.abspath(file))  # noqa: PTH100 - as entries have it
            if absolute in texts:
                found = iter([fault.at(str(file), fault.line) for fault in _text(texts[absolute])])
            elif name.startswith(".") or not name.endswith((".json", ".jsonl")):
                continue
            elif (kind := _quiet_kind(file)) is not None:
                found = _recording(file, path) if kind == "recording" else _CHECKS[kind](file)
            else:
                continue
            # An inventory names transcripts that lie in the folder, too.
            faults = [fault for fault in found if os.path.abspath(fault.where) not in checked]  # noqa: PTH100
            checked |= {str(absolute), *(os.path.abspath(fault.where) for fault in faults)}  # noqa: PTH100
            yield from faults


def _quiet_kind(path: Path) -> Kind | None:
    """As `detect_kind`; None where it cannot be told."""
    try:
        return detect_kind(path)
    except (CorpusError, OSError):
        return None


_CHECKS: dict[str, Callable[[Path], Iterator[Fault]]] = {
    "manifest": _jsonl,
    "moshi": _jsonl,
    "alignment": _transcript,
    "transcript": _transcript,
    "sidecar": lambda path: _document(
        path, Sidecar, lambda one: [*availability_faults(one), *claim_faults(one)]
    ),
    "recording": _recording,
    "splits": lambda path: _document(path, SplitsFile),
    "store": lambda path: _document(path / STORE_NAME if path.is_dir() else path, StoreDescription),
    "folder": _folder,
}
