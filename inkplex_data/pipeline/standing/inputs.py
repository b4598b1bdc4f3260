"""What a stored call was made from, part by part, so that a later run can tell which calls are stale, and why.

A part is a file by its bytes, or `line`: what the corpus says of the call. Task recordings are parts of their own
rows, for many calls may share one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.entry import AgentCaller, CallEntry
from inkplex_data.pipeline.stamp import stamp

Digest = Callable[[Path], str | None]
"""SHA-256 of a file's bytes, None where the file is not there."""

_NOT_STORED: Final = ("call_id", "duration_s", "recording", "named")
"""The call's name, what the decoded audio decides, what the recording's row answers for, and files that are a part of
their own."""


def files_of(entry: CallEntry, turns: Path | None) -> dict[str, list[Path]]:
    """The files of a call by part. `turns`: an RTTM file beside its audio."""
    found = {"turns": [turns]} if turns is not None else {}
    for name, value in _fields(entry):
        if isinstance(value, AgentCaller):
            found[name] = [value.agent, value.caller]
        elif isinstance(value, Path):
            found[name] = [value]
    if named := [path for path in entry.named if path is not None]:
        found["named"] = named
    return found


def call_inputs(entry: CallEntry, turns: Path | None, digest: Digest) -> str:
    """JSON text of part → digest, for the column `inputs` of the calls table."""
    # Without what is not said: a field that a later version adds changes no call that does not use it.
    line = {
        name: value for name, value in _fields(entry) if value and not isinstance(value, Path | AgentCaller)
    }
    parts = {name: [digest(path) for path in paths] for name, paths in files_of(entry, turns).items()}
    known = {name: found[0] if len(found) == 1 else found for name, found in parts.items()}
    return json.dumps({**known, "line": stamp(line)}, sort_keys=True)


def differing(stored: str, present: str) -> tuple[str, ...]:
    """The parts whose digests differ, sorted."""
    old, new = json.loads(stored), json.loads(present)
    # Versions that compared no file that a sidecar names kept no digests of them.
    unkept = {"named"} - old.keys()
    return tuple(
        sorted(name for name in (old.keys() | new.keys()) - unkept if old.get(name) != new.get(name))
    )


def recording_files(path: Path, states: Iterable[Path], digest: Digest) -> str:
    """JSON text of [name, digest] of a recording and of its states' files, for the column `files` of its row.

    Names are relative to the recording's folder.
    """
    others = [os.path.relpath(file, path.parent) for file in dict.fromkeys(states)]
    listed = [(path.name, path), *((name, path.parent / name) for name in others)]
    return json.dumps([[name, digest(file)] for name, file in listed], ensure_ascii=False)


def recording_differs(stored: str, path: Path, digest: Digest) -> bool:
    """Whether a recording that now lies at `path`, or a file of its states, is not what was stored."""
    (_, own), *others = json.loads(stored)
    return digest(path) != own or any(digest(path.parent / name) != sha256 for name, sha256 in others)


def _fields(entry: CallEntry) -> Iterable[tuple[str, Any]]:
    """What of an entry a stored call depends on. Fields that only messages show (`compare=False`) are not."""
    return [
        (field.name, getattr(entry, field.name))
        for field in fields(entry)
        if field.compare and field.name not in _NOT_STORED
    ]
