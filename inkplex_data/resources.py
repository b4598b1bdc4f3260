"""Files that come with the package: recipes and schemas, in a checkout or in an installed wheel."""

from __future__ import annotations

from pathlib import Path


def resource_folder(name: str) -> Path:
    """Folder `pipelines` or `schemas`: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parent
    packaged = package / "_data" / name
    return packaged if packaged.is_dir() else package.parent / name
