"""Folders: of files that come with the package, and of files that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def resource_folder(name: str) -> Path:
    """Folder `pipelines` or `schemas`: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parent
    packaged = package / "_data" / name
    return packaged if packaged.is_dir() else package.parent / name


def user_cache() -> Path:
    """Folder for files that can be made again."""
    root = os.environ.get("INKPLEX_CACHE")
    folder = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "inkplex-data"
    return folder.expanduser()
