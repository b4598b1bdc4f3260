"""Optional libraries, loaded where they are used, with an error that names the pip line."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

from inkplex_data.errors import ConfigError, MissingLibraryError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""owner/name of a model on the Hugging Face hub."""


def require(module: str, *, extra: str, needed_for: str) -> ModuleType:
    """Import `module`, or raise MissingLibraryError naming the extra of inkplex-data that brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # An import that fails inside an installed library is that library's fault; say so unchanged.
        if error.name is not None and module.split(".", maxsplit=1)[0] != error.name.split(".")[0]:
            raise
        raise MissingLibraryError(module, extra=extra, needed_for=needed_for) from error


def hub_snapshot(
    hub_id: str, patterns: list[str], *, what: str, extra: str, where: str, next_step: str
) -> Path:
    """The local copy of a hub model's files, downloaded or taken from the cache. Raises ConfigError."""
    hub = require("huggingface_hub", extra=extra, needed_for=f"a {what} from the Hugging Face hub")
    try:
        return Path(hub.snapshot_download(hub_id, allow_patterns=patterns))
    except Exception as error:  # the hub client raises its own, its HTTP library's and OS errors alike
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"the {what} {hub_id!r} is not in the local cache and cannot be downloaded: {reason}",
            where=where,
            next_step=next_step,
        ) from error


def seed_of(spec: str, prefix: str, *, what: str, where: str, next_step: str) -> int | None:
    """The seed of `PREFIX:SEED`, or None for any other spec. Raises ConfigError unless it is 0 … 2^63 − 1."""
    if not spec.startswith(f"{prefix}:"):
        return None
    text = spec.removeprefix(f"{prefix}:")
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) >= 2**63:
        raise ConfigError(
            f"the seed of {what} is a whole number from 0 to 2^63 − 1, got {text!r}",
            where=where,
            next_step=next_step,
        )
    return int(text)
