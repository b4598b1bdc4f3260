"""The `config.json` of a model's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import ConfigError, CorpusError
from inkplex_data.reading import read_bounded

MOST_BYTES: Final = 1 << 20


def model_config(folder: Path, *, where: str, next_step: str) -> Any:
    """The JSON value in a model folder's `config.json`, None without that file. Raises ConfigError."""
    path = folder / "config.json"
    if not path.exists():
        return None
    try:
        # Other libraries write NaN and read it; what they make of it is theirs to say.
        return parse_json(read_bounded(path, MOST_BYTES), words=True)
    except (OSError, CorpusError) as error:
        raise ConfigError(f"config.json cannot be read: {error}", where=where, next_step=next_step) from error
