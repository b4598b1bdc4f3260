"""Paths as a corpus spells them: relative to its folder, inside its root, and there."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from inkplex_data.faults import Fault, FaultError, short

URL_MARK = "://"


def _fault(code: str, rule: str, spelled: str) -> FaultError:
    return FaultError(Fault(rule, short(spelled), code=code))


@dataclass(frozen=True)
class Paths:
    """Resolves spelled paths against `folder` and keeps them inside `root`.

    Symbolic links count as where they lead, so that an unpacked archive cannot reach outside through
    one. `allow_outside` lifts the rule, for inventories that name files all over a disk.
    """

    folder: Path
    root: Path
    allow_outside: bool = False
    _names: dict[str, dict[str, list[str]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def file(self, spelled: str) -> Path:
        """The existing regular file that `spelled` names, not yet followed through symbolic links.

        Raises FaultError with code path-outside-corpus or file-missing.
        """
        if URL_MARK in spelled:
            raise _fault("file-missing", "is a URL, not a file of the corpus", spelled)
        if "\0" in spelled:
            raise _fault("file-missing", "holds a NUL character", spelled)
        path = self.folder / spelled
        self.check_inside(path, spelled)
        if is_regular(path):
            return path
        for form in ("NFC", "NFD"):
            # File systems and editors disagree on how accents are composed; the name is the same.
            other = self.folder / unicodedata.normalize(form, spelled)
            if other != path and is_regular(other):
                self.check_inside(other, spelled)
                return other
        raise _fault("file-missing", _why_missing(path), spelled)

    def check_inside(self, path: Path, spelled: str) -> None:
        """Raise FaultError where `path` leads outside the root."""
        if self.allow_outside:
            return
        try:
            real = path.resolve()
        except (OSError, RuntimeError) as error:
            raise _fault("file-missing", f"cannot be followed ({error})", spelled) from error
        if not real.is_relative_to(self.root):
            led = "" if real == path else f", it leads to {real}"
            raise _fault("path-outside-corpus", f"lies outside {self.root}{led}", spelled)

    def beside(self, audio: Path, suffixes: tuple[str, ...]) -> Path | None:
        """The first of `STEM` + suffix beside `audio` that exists and lies inside the root, in small letters or capitals."""
        for name in self.named(audio.parent, audio.stem, suffixes):
            if name != audio.name:
                path = audio.parent / name
                self.check_inside(path, str(path))
                return path
        return None

    def named(self, folder: Path, start: str, suffixes: tuple[str, ...]) -> list[str]:
        """The files of `folder` whose name is `start` and one of `suffixes` in any case, in the order of these.

        A folder is listed once: a corpus of 100,000 calls looks for a million names here.
        """
        names = self._listed(str(folder))
        found = [name for suffix in suffixes for name in names.get((start + suffix).lower(), ())]
        return [name for name in found if name.startswith(start) and is_regular(folder / name)]

    def _listed(self, folder: str) -> dict[str, list[str]]:
        """Names in a folder by their spelling in small letters, which comes first where it is there."""
        if folder not in self._names:
            names = self._names.setdefault(folder, {})
            try:
                for name in sorted(os.listdir(folder), reverse=True):  # noqa: PTH208 - a Path each costs too much
                    names.setdefault(name.lower(), []).append(name)
            except OSError:  # what is beside a file that is not there
                pass
        return self._names[folder]


def is_regular(path: Path) -> bool:
    """Whether `path` is a file that can be read to an end: no folder, pipe or device."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _why_missing(path: Path) -> str:
    try:
        if path.is_dir():
            return "is a folder, not a file"
        if path.exists():
            return "is not a regular file"
    except (OSError, ValueError) as error:
        return f"is not a usable path ({error})"
    return f"does not exist in {path.parent}"
