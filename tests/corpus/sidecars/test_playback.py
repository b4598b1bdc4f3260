"""How far the agent's output was heard: what a device observed, and what stays unknown without one."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from inkplex_data.corpus.sidecars.playback import history_row, unheard_spans
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.store.format import HISTORY


def sidecar(*segments: dict[str, Any]) -> Sidecar:
    return Sidecar.model_validate(
        {
            "schema": "inkplex/sidecar@1",
            "identity": {"clip_id": "clip"},
            "history": {"segments": [{"source": "agent_output", **segment} for segment in segments]},
        }
    )


def span(start: float, end: float) -> dict[str, float]:
    return {"start_s": start, "end_s": end}


ACK = {"observation": "playback_device", "device": "headset", "at_s": 9.0}
TWO = [span(1.0, 2.0), span(3.0, 4.0)]


@pytest.mark.parametrize(
    ("fields", "unheard"),
    [
        # Played later and for as long: all of it was heard.
        ({"played": [span(1.5, 2.5), span(3.2, 4.2)], "playback_ack": ACK}, None),
        # A second and a quarter were played, so a quarter of the second piece.
        ({"played": [span(1.5, 2.75)], "playback_ack": ACK}, (3.25, 4.0, True)),
        ({"played": [], "playback_ack": ACK}, (1.0, 4.0, True)),
        # The end of a file's rendering is no evidence, and neither are spans that no device observed.
        (
            {"played": [span(1.5, 2.5)], "playback_ack": {**ACK, "observation": "local_render"}},
            (1.0, 4.0, False),
        ),
        ({"played": [span(1.5, 2.5)], "cancelled": [span(3.5, 4.0)]}, (3.5, 4.0, False)),
        ({"cancelled": []}, None),
        ({}, (1.0, 4.0, False)),
        ({"source": "teacher"}, None),
        ({"generated": None}, None),
        ({"generated": [span(-3, -1)]}, None),
        ({"generated": [span(-3, 1)], "cancelled": None}, (0.0, 1.0, False)),
    ],
)
def test_what_was_not_heard(fields: dict[str, Any], unheard: tuple[float, float, bool] | None) -> None:
    found = unheard_spans(sidecar({"id": "a", "generated": TWO, **fields}))
    expected = [] if unheard is None else [("a", unheard[0] * 1e6, unheard[1] * 1e6, unheard[2])]
    assert [(cut.segment, cut.start_us, cut.end_us, cut.known) for cut in found] == expected


def test_the_row_keeps_unknown_and_none_apart() -> None:
    clip = sidecar(
        {
            "id": "a",
            "text": "Yes.",
            "generated": TWO,
            "queued": [],
            "played": [span(1.5, 2.0)],
            "playback_ack": ACK,
        },
        {"id": "b", "source": "teacher"},
    )
    rows = pl.Series([history_row(clip)], dtype=HISTORY).to_list()[0]
    assert rows[0] == {
        "segment": "a",
        "source": "agent_output",
        "text": "Yes.",
        "generated": [{"start": 24_000, "end": 48_000}, {"start": 72_000, "end": 96_000}],
        "queued": [],
        "played": [{"start": 36_000, "end": 48_000}],
        "cancelled": None,
        "is_heard_known": True,
        "observation": "playback_device",
        "device": "headset",
        "acknowledged_us": 9_000_000,
        "cut": False,
    }
    assert rows[1]["is_heard_known"] is False and rows[1]["generated"] is None
    assert history_row(None) is None
