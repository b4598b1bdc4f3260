"""Values of a file that nobody vouches for, as what they should be: of another kind, they are empty."""

from __future__ import annotations

import json
from typing import Any

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.faults import FaultError


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def within(value: Any, *names: str | int) -> Any:
    """What lies under `names` one after another, None where one is not there."""
    for name in names:
        if isinstance(name, int):
            value = value[name] if isinstance(value, list) and len(value) > name else None
        else:
            value = as_dict(value).get(name)
    return value


def decoded(value: Any) -> Any:
    """JSON that stands as text within JSON; anything else, and text that is none, as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(value, half_pairs=True)
        except FaultError:
            return value
    return value


def as_content(value: Any) -> Any:
    """Content of a message: text and lists as they are, anything else as its JSON text, None as "" """
    if value is None or isinstance(value, (str, list)):
        return "" if value is None else value
    return json.dumps(value, ensure_ascii=False)
