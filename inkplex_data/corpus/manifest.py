"""JSONL corpora: our manifest, and the Moshi fine-tuning inventory. One bad line never stops the others."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.assemble import LINE_INVALID, LOOK_BESIDE, Draft, Listing, Refusal, path_ids
from inkplex_data.corpus.entry import ChannelSpec, Clip, CorpusKind
from inkplex_data.corpus.jsontext import Line, numbered_lines, parse_json
from inkplex_data.corpus.models import ManifestEntry, MoshiEntry, TwoFiles
from inkplex_data.errors import CorpusError
from inkplex_data.faults import Fault, FaultError, faults_of, short
from inkplex_data.problems import Problem

Entry = TypeVar("Entry", bound=ManifestEntry)


def read_lines(path: Path, *, root: Path, kind: CorpusKind | None = None) -> Listing:
    """Every line of a manifest or inventory. Ids of an inventory are its paths without suffix.

    Raises CorpusError where the file as a whole is no JSONL of objects, is empty, or cannot be read.
    """
    objects: list[tuple[Line, dict[str, Any]]] = []
    refusals: list[Refusal] = []
    for line, data in _objects(path):
        if isinstance(data, dict):
            objects.append((line, data))
        else:
            refusals.append(_refusal(path, line, f"{path.name}:{line.number}", data))
    if not objects or _is_one_array(refusals):
        raise _not_jsonl(path, refusals)
    if kind is None:
        # A Moshi inventory has no ids, and one file a call.
        is_manifest = any("id" in data or isinstance(data.get("path"), dict) for _, data in objects)
        kind = "manifest" if is_manifest else "moshi"
    lines = Listing(kind, refusals=refusals)
    if kind == "manifest":
        _manifest(path, objects, lines)
    else:
        _inventory(path, root, objects, lines)
    return lines


def _objects(path: Path) -> Iterator[tuple[Line, dict[str, Any] | Fault]]:
    try:
        for line in numbered_lines(path):
            try:
                data = parse_json(line.data)
            except FaultError as error:
                yield line, error.faults[0]
                continue
            yield line, data if isinstance(data, dict) else Fault("is not a JSON object", short(data))
    except OSError as error:
        raise CorpusError(f"cannot be read ({error.strerror or error})", where=str(path)) from error


def _is_one_array(refusals: list[Refusal]) -> bool:
    """Whether the file is one JSON array over many lines, some of which may be objects by themselves."""
    first = refusals[0] if refusals else None
    return first is not None and first.faults[0].line == 1 and first.faults[0].value == repr("[")


def _not_jsonl(path: Path, refusals: list[Refusal]) -> CorpusError:
    if not refusals:
        return CorpusError("the file holds no calls", where=str(path))
    first = refusals[0]
    what = f"the file is not JSONL with one call per line: line {first.faults[0].line} {replace(first.faults[0], where='')}"
    return CorpusError(
        what,
        where=str(path),
        next_step='Write one JSON object a line, such as {"path": "call.wav", "duration": 12.5}, or name a folder.',
    )


def _refusal(path: Path, line: Line, call_id: str, *faults: Fault) -> Refusal:
    where = f"{path.name}:{line.number}"
    return Refusal(
        call_id, where, tuple(replace(fault, line=line.number, code=LINE_INVALID) for fault in faults)
    )


def _checked(
    path: Path, line: Line, data: dict[str, Any], model: type[Entry], lines: Listing
) -> Entry | None:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        known = data.get("id")
        call_id = known if isinstance(known, str) and known else f"{path.name}:{line.number}"
        lines.refusals.append(_refusal(path, line, call_id, *faults_of(error, data, model)))
        return None


def _manifest(path: Path, objects: list[tuple[Line, dict[str, Any]]], lines: Listing) -> None:
    for line, data in objects:
        entry = _checked(path, line, data, ManifestEntry, lines)
        if entry is not None:
            lines.drafts.append(_draft(path, line, entry, entry.id, entry.duration))


def _inventory(path: Path, root: Path, objects: list[tuple[Line, dict[str, Any]]], lines: Listing) -> None:
    good: list[tuple[Line, MoshiEntry]] = []
    ignored: set[str] = set()
    for line, data in objects:
        entry = _checked(path, line, data, MoshiEntry, lines)
        if entry is not None:
            good.append((line, entry))
            ignored.update(entry.model_extra or ())
    ids = path_ids([_relative(entry.path, root) for _, entry in good])
    for (line, entry), call_id in zip(good, ids, strict=True):
        duration_s = _duration(entry.duration)
        if duration_s is None:
            where = f"{path.name}:{line.number}"
            lines.notes.append(
                Problem.of("duration-invalid", call_id, f"got {short(entry.duration)}", item=where)
            )
        lines.drafts.append(_draft(path, line, entry, call_id, duration_s))
    if ignored:
        named = ", ".join(_ignored(name) for name in sorted(ignored))
        lines.notes.append(Problem.of("fields-ignored", "", named, item=path.name))


def _ignored(name: str) -> str:
    """A field that was not used, with the one that may have been meant."""
    near = difflib.get_close_matches(name, ManifestEntry.model_fields, n=1)
    return f"{name} (did you mean {near[0]!r}?)" if near else name


def _draft(path: Path, line: Line, entry: ManifestEntry, call_id: str, duration_s: float | None) -> Draft:
    given, audio = entry.model_fields_set, entry.path
    return Draft(
        call_id=call_id,
        audio=(audio.agent, audio.caller) if isinstance(audio, TwoFiles) else audio,
        where=f"{path.name}:{line.number}",
        line=line.number,
        words=entry.words if "words" in given else LOOK_BESIDE,
        sidecar=entry.sidecar if "sidecar" in given else LOOK_BESIDE,
        recording=entry.recording if "recording" in given else LOOK_BESIDE,
        recording_starts_at_us=(
            None if entry.recording_starts_at is None else seconds_to_us(entry.recording_starts_at)
        ),
        family=entry.family,
        split=entry.split,
        role=entry.role,
        voice=entry.voice,
        channels=ChannelSpec(entry.channels.agent, entry.channels.caller) if entry.channels else None,
        text_conditions=entry.text_conditions,
        duration_s=duration_s,
        clips=tuple(Clip(seconds_to_us(start), seconds_to_us(end)) for start, end in entry.clips or ()),
    )


def _relative(spelled: str, root: Path) -> str:
    """An absolute path inside the root as if it had been spelled relative to it, so that ids do not depend on the disk."""
    path = Path(spelled)
    return path.relative_to(root).as_posix() if path.is_absolute() and path.is_relative_to(root) else spelled


def _duration(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        return None
    return float(value)
