"""Options that take KEY=VALUE and may be given more than once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.faults import short


def key_values(
    option: str, settings: Sequence[str] | None, *, read: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """The values of an option by key; of a key given twice the last one counts.

    `read` makes a value of its text (default: as YAML does) and raises ValueError, saying what it takes.
    Raises UsageError.
    """
    found = {}
    for setting in settings or ():
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{option} takes KEY=VALUE (got {short(setting)})")
        try:
            found[key.strip()] = (read or _yaml)(text)
        except ValueError as error:
            raise UsageError(f"{option} {key.strip()} takes {error} (got {short(text)})") from error
    return found


def number(text: str) -> float:
    """Raises ValueError."""
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def _yaml(text: str) -> Any:
    from inkplex_data.config.yamltext import parse_yaml

    try:
        return parse_yaml(text)
    except ConfigError as error:
        raise ValueError(f"a value as YAML spells it; this {error.what}") from None
