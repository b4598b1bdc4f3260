"""Optional libraries, loaded where they are used, with an error that names the pip line."""

from __future__ import annotations

import importlib
from types import ModuleType

from inkplex_data.errors import MissingLibraryError


def require(module: str, *, extra: str, needed_for: str) -> ModuleType:
    """Import `module`, or raise MissingLibraryError naming the extra of inkplex-data that brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # An import that fails inside an installed library is that library's fault; say so unchanged.
        if error.name is not None and module.split(".", maxsplit=1)[0] != error.name.split(".")[0]:
            raise
        raise MissingLibraryError(module, extra=extra, needed_for=needed_for) from error
