"""What a page's calls can be filtered by: the choices, and what each call says to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from inkplex_data.report.svg import html_text
from inkplex_data.store.call_groups import call_groups

MOST_FAMILIES = 200
"""With more families than this one types a part of the name instead of choosing from a list."""


@dataclass(frozen=True)
class Filters:
    """Choices by name, and call id → name → what the call is. A call can have several problems."""

    choices: Mapping[str, tuple[str, ...]]
    of_call: Mapping[str, Mapping[str, tuple[str, ...]]]

    @classmethod
    def of(cls, calls: pl.DataFrame, problems: pl.DataFrame) -> Filters:
        """From tables of the forms `format.CALLS` and `format.PROBLEMS`."""
        codes: dict[str, set[str]] = {}
        for call_id, code in problems.select("call_id", "code").unique().iter_rows():
            codes.setdefault(call_id, set()).add(code)
        origins = dict(call_groups(calls, "origin").iter_rows())
        told = {
            call_id: {
                "split": _known(split),
                "origin": _known(origins.get(call_id)),
                "problem": tuple(sorted(codes.get(call_id, ()))),
                "family": _known(family),
            }
            for call_id, split, family in calls.select("call_id", "split", "family").iter_rows()
        }
        names = ("split", "origin", "problem", "family")
        choices = {name: tuple(sorted({v for one in told.values() for v in one[name]})) for name in names}
        return cls({name: values for name, values in choices.items() if values}, told)

    def attributes(self, call_id: str) -> str:
        """Data attributes of one call, HTML. Values are apart by a line break, which no text of the page holds."""
        told = self.of_call.get(call_id, {})
        parts = [("call", (call_id,)), *((name, told.get(name, ())) for name in self.choices)]
        return "".join(f' data-{name}="{"&#10;".join(map(html_text, values))}"' for name, values in parts)

    def bar(self) -> str:
        """The form, HTML. Without script it does nothing, so the script shows it."""
        fields = [_search("call", "Call")]
        for name, values in self.choices.items():
            label = name.capitalize()
            if name == "family" and len(values) > MOST_FAMILIES:
                fields.append(_search(name, label))
            else:
                fields.append(_select(name, label, values))
        return (
            f'<form class="filters" hidden role="search" aria-label="Filter calls">{"".join(fields)}'
            '<output class="dim"></output></form>\n'
        )


def _known(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _search(name: str, label: str) -> str:
    return f'<label>{label} <input type="search" data-filter="{name}" placeholder="part of the name"></label>'


def _select(name: str, label: str, values: Iterable[str]) -> str:
    options = "".join(f"<option>{html_text(value)}</option>" for value in values)
    return (
        f'<label>{label} <select data-filter="{name}"><option value="">all</option>{options}</select></label>'
    )
