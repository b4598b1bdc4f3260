"""The models of a folder as their sidecars tell of them; the tensors are not read. Profiles belong to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inkplex_data.atomic import write_json
from inkplex_data.checkpoint_sidecar import EMPTY_PROFILE, MAX_META_BYTES, meta_path
from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import CheckpointError, CorpusError, UsageError
from inkplex_data.reading import read_bounded

MAX_PROFILE: Final = 20_000
"""Characters of one field of a profile."""


@dataclass(frozen=True)
class ShelvedModel:
    """A model's file and what its sidecar says: the machine's fields, and the profile."""

    path: Path
    fields: Mapping[str, Any]
    profile: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Without the history, which is long; `bits_per_byte` of each save instead."""
        history = self.fields.get("history")
        entries = history if isinstance(history, list) else []
        known = {name: value for name, value in self.fields.items() if name not in ("history", "profile")}
        return {
            "file": self.path.name,
            **known,
            "profile": dict(self.profile),
            "course": [entry.get("bits_per_byte") for entry in entries if isinstance(entry, dict)],
        }

    def text(self) -> str:
        """A few lines for people."""
        fields = self.fields
        head = " · ".join(
            filter(None, [str(self.path), self.profile.get("name"), self.profile.get("tagline")])
        )
        bits = fields.get("bits_per_byte")
        told = (
            f"  {_number(fields.get('parameters'))} parameters, {fields.get('n_bands')} bands, "
            f"depth {fields.get('depth')}; {_number(fields.get('source_bytes'))} bytes read"
        )
        told += f", {bits:.3f} bits/byte of late" if isinstance(bits, float) else ""
        more = [text for name in ("art", "about") if (text := self.profile.get(name))]
        return "\n".join([head, told, *more])


def list_models(folder: Path) -> list[ShelvedModel]:
    """The models of a folder, by name; one whose sidecar is damaged is listed without what it says."""
    return [_described(path, {}) for path in sorted(folder.glob("*.pt"))]


def described(path: Path) -> ShelvedModel:
    """One model. Raises CheckpointError where it has no sidecar that can be read."""
    return _described(path, None)


def edit_profile(path: Path, changes: Mapping[str, str]) -> ShelvedModel:
    """Write fields of a model's profile into its sidecar, and nothing else.

    Raises UsageError for a field that profiles do not have or that is too long, CheckpointError without a sidecar.
    """
    wrong = [
        name for name, value in changes.items() if name not in EMPTY_PROFILE or not isinstance(value, str)
    ]
    long = [name for name, value in changes.items() if name not in wrong and len(value) > MAX_PROFILE]
    if wrong or long:
        raise UsageError(
            f"a profile cannot take {', '.join(wrong)}" if wrong else f"{', '.join(long)} is too long",
            where=str(path),
            next_step=f"It has {', '.join(EMPTY_PROFILE)}, texts of at most {MAX_PROFILE:,} characters.",
        )
    body = _sidecar(path)
    body["profile"] = {**_profile(body), **changes}
    write_json(meta_path(path), body, indent=2)
    return described(path)


def _described(path: Path, otherwise: dict[str, Any] | None) -> ShelvedModel:
    try:
        body = _sidecar(path)
    except CheckpointError:
        if otherwise is None:
            raise
        body = otherwise
    fields = {name: value for name, value in body.items() if name != "profile"}
    return ShelvedModel(path, fields, {**EMPTY_PROFILE, **_profile(body)})


def _profile(body: Mapping[str, Any]) -> dict[str, str]:
    profile = body.get("profile")
    return {name: str(value) for name, value in profile.items()} if isinstance(profile, dict) else {}


def _sidecar(path: Path) -> dict[str, Any]:
    try:
        body = parse_json(read_bounded(meta_path(path), MAX_META_BYTES))
        if not isinstance(body, dict):
            raise ValueError("it is no object")
        return body
    except (OSError, ValueError, CorpusError) as error:
        raise CheckpointError(
            f"what is written about this model cannot be read: {getattr(error, 'strerror', None) or error}",
            where=str(meta_path(path)),
            next_step="Name a model that `inkplex-data soma train` saved; it writes this file anew.",
        ) from error


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"
