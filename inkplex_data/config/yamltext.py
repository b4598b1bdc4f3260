"""YAML from files and options that nobody vouches for: one document, no aliases and tags, no key given twice.

The parser's events are checked before anything is built of them, because building calls itself once a level and
would follow an alias as often as it is named.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from inkplex_data.errors import ConfigError, CorpusError
from inkplex_data.reading import read_bounded

MOST_BYTES: Final = 1 << 20
MOST_DEPTH: Final = 20
MOST_DIGITS: Final = 40


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, of which it would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ValueError(f"gives the key {key.value!r} twice, again {_place(key.start_mark)}")
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, *, where: str | None = None) -> Any:
    """The value of a YAML document; None for an empty one. Raises ConfigError."""
    try:
        _check_events(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" {_place(mark)}" if mark is not None else ""
        raise ConfigError(f"is not YAML: {error.problem or error.context}{place}", where=where) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"is not YAML: {' '.join(str(error).split())}", where=where) from error
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Numbers and dates that look like ones and are none: the library leaves them to int() and datetime().
        raise ConfigError(f"cannot be read as YAML: {error}", where=where) from error


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping of a small YAML file, empty for an empty file. Raises ConfigError for anything else."""
    try:
        text = read_bounded(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror or error})", where=str(path)) from error
    except CorpusError as error:
        raise ConfigError(error.what, where=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 at byte {error.start}", where=str(path)) from error
    body = parse_yaml(text, where=str(path))
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise ConfigError(f"a recipe is a mapping of keys, not a {type(body).__name__}", where=str(path))
    return body


def _check_events(text: str) -> None:
    """Raise ValueError for what no recipe needs; stops at the first event that is too much."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        place = _place(event.start_mark) if event.start_mark is not None else ""
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"has an alias (*{event.anchor}) {place}; write the value out")
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) is not None:
            raise ValueError(f"has a tag ({event.tag}) {place}")  # type: ignore[attr-defined]
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent):
            _check_scalar(event.value, place, is_plain=event.implicit[0])
        if depth > MOST_DEPTH:
            raise ValueError(f"is nested more than {MOST_DEPTH} levels deep {place}")


def _check_scalar(value: str, place: str, *, is_plain: bool) -> None:
    if is_plain and len(value) > MOST_DIGITS and not value.strip("0123456789_+-.:xXoObB"):
        raise ValueError(f"has a number of more than {MOST_DIGITS} digits {place}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"has half a surrogate pair {place}") from None


def _place(mark: Any) -> str:
    return f"at line {mark.line + 1}, column {mark.column + 1}"
