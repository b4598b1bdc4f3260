"""Sidecars: what they must say, the loss mask, what counts as heard, and what came too early."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.sidecars.claims import claim_faults
from inkplex_data.corpus.sidecars.loss_mask import frame_mask
from inkplex_data.corpus.sidecars.sidecar import (
    Heard,
    Sidecar,
    availability_faults,
    heard_spans,
    read_sidecar,
)
from inkplex_data.errors import CallRefused
from inkplex_data.grid import MASK_AGENT, MASK_ALL, MASK_CALLER, MASK_TEXT

BASE: dict[str, Any] = {"schema": "inkplex/sidecar@1", "identity": {"clip_id": "clip"}}


def sidecar(**groups: Any) -> Sidecar:
    return Sidecar.model_validate(BASE | groups)


def test_json_round_trip_keeps_unknown_apart_from_none(tmp_path: Path) -> None:
    document = BASE | {
        "audio": {"sample_rate_hz": 24000, "samples": 48000, "caller": {"origin": "recorded"}},
        "history": {"segments": [{"id": "a", "source": "teacher", "queued": [], "played": None}]},
    }
    path = tmp_path / "a.sidecar.json"
    path.write_text(json.dumps(document))
    read = read_sidecar(path)
    assert read.to_json() == document
    assert read.history is not None
    assert (read.history.segments[0].queued, read.history.segments[0].played) == ([], None)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"identity": {}}, "/identity/clip_id is missing"),
    ({"schema": "inkplex/sidecar@2"}, "/schema"),
    ({"indentity": {}}, "did you mean 'identity'?"),
    ({"audio": {"samples": 5}}, "samples need sample_rate_hz"),
    ({"audio": {"sample_rate_hz": 24000.5}}, "/audio/sample_rate_hz"),
    (
        {"words": {"items": [{"text": "a", "start_s": 2, "end_s": 1}]}},
        "/words/items/0 end_s must not be before",
    ),
    ({"words": {"items": [{"text": "a", "start_s": "2", "end_s": 3}]}}, "/words/items/0/start_s"),
    ({"evidence": {"claims": [{"text": "a", "supported_by": ["e"]}]}}, "'e' names nothing in this sidecar"),
    ({"masks": {"permitted_updates": [{"update": "u", "start_s": 1}]}}, "'u' names nothing"),
    ({"targets": {"items": [{"text": "a", "start_s": 1}]}}, "start_s and end_s must be given together"),
    ({"private_updates": {"updates": [{"id": "u", "available_at_s": 1, "rows": [3, 2]}]}}, "first ≤ end"),
    (
        {"history": {"segments": [{"id": "a", "source": "teacher"}, {"id": "a", "source": "teacher"}]}},
        "the id 'a' occurs twice",
    ),
    ({"history": {"segments": [{"id": "a", "source": "caller"}]}}, "/history/segments/0/source"),
]


@pytest.mark.parametrize(("groups", "words"), BAD, ids=lambda value: str(value)[:50])
def test_faults_are_named(tmp_path: Path, groups: dict[str, Any], words: str) -> None:
    path = tmp_path / "a.sidecar.json"
    path.write_text(json.dumps(BASE | groups))
    with pytest.raises(CallRefused) as caught:
        read_sidecar(path)
    assert caught.value.code == "sidecar-invalid"
    assert words in str(caught.value)


def test_mask_excludes_what_is_missing_or_uncertain() -> None:
    spans = [
        {"modality": "caller", "start_s": 0.08, "end_s": 0.24, "reason": "missing"},
        {"modality": "text", "start_s": 0.30, "end_s": 0.33, "reason": "uncertain"},
        {"modality": "text", "start_s": 0.5, "end_s": 0.5, "reason": "uncertain"},
        {"modality": "agent", "start_s": -1, "end_s": 0.000001, "reason": "padding"},
    ]
    mask = frame_mask(sidecar(masks={"excluded": spans}), 6)
    assert mask.dtype == np.uint8
    assert mask.tolist() == [
        MASK_TEXT | MASK_CALLER,
        MASK_TEXT | MASK_AGENT,
        MASK_TEXT | MASK_AGENT,
        MASK_AGENT | MASK_CALLER,
        MASK_AGENT | MASK_CALLER,
        MASK_ALL,
    ]
    assert frame_mask(sidecar(), 3).tolist() == [MASK_ALL] * 3


def test_mask_of_valid_stretches_and_a_missing_channel() -> None:
    groups = {
        "audio": {"sample_rate_hz": 8000, "samples": 2800, "caller": {"origin": "missing"}},
        "masks": {
            "valid": {"agent": [{"start_s": 0.08, "end_s": 0.2}, {"start_s": 0.2, "end_s": 0.35}], "text": []}
        },
    }
    # 0.35 s are 4.375 frames: the padded rest of frame 4 is no gap.
    assert frame_mask(sidecar(**groups), 5).tolist() == [0, *[MASK_AGENT] * 4]


SPANS = st.lists(
    st.tuples(st.integers(-200_000, 900_000), st.integers(0, 300_000)).map(
        lambda pair: {"start_s": pair[0] / 1e6, "end_s": (pair[0] + pair[1]) / 1e6}
    ),
    max_size=4,
)


@given(st.integers(0, 10), SPANS, st.one_of(st.none(), SPANS), st.integers(1, 24_000))
def test_mask_equals_a_loop_over_microseconds(
    frames: int, excluded: list[Any], valid: list[Any] | None, samples: int
) -> None:
    masks: dict[str, Any] = {
        "excluded": [span | {"modality": "agent", "reason": "missing"} for span in excluded],
        "valid": {"agent": valid},
    }
    clip = sidecar(audio={"sample_rate_hz": 24_000, "samples": samples}, masks=masks)
    mask = frame_mask(clip, frames)
    duration_us = (2 * samples * 10**6 + 24_000) // 48_000

    def stretches(spans: list[Any]) -> list[tuple[int, int]]:
        return [(round(span["start_s"] * 1e6), round(span["end_s"] * 1e6)) for span in spans]

    edges = sorted({0, *(edge for pair in stretches(excluded + (valid or [])) for edge in pair), duration_us})
    for frame in range(frames):
        first, last = frame * 80_000, (frame + 1) * 80_000
        # Within a frame nothing changes but at an edge, so looking at each piece between edges is complete.
        cuts = [first, *(edge for edge in edges if first < edge < last)]
        touched = any(start <= cut < end for cut in cuts for start, end in stretches(excluded))
        uncovered = valid is not None and any(
            cut < duration_us and not any(start <= cut < end for start, end in stretches(valid))
            for cut in cuts
        )
        assert bool(mask[frame] & MASK_AGENT) == (not touched and not uncovered)
        assert mask[frame] & (MASK_TEXT | MASK_CALLER) == MASK_TEXT | MASK_CALLER


def segment(**fields: Any) -> dict[str, Any]:
    full = [{"start_s": 1.0, "end_s": 2.0}]
    return {"id": "a", "source": "agent_output", "generated": full, "queued": full, **fields}


PLAYED = {"played": [{"start_s": 1.0, "end_s": 1.6}]}


@pytest.mark.parametrize(
    ("fields", "heard"),
    [
        ({}, None),
        (PLAYED, None),
        (PLAYED | {"playback_ack": {"observation": "local_render", "at_s": 2}}, None),
        (PLAYED | {"playback_ack": {"observation": "none", "at_s": 2}}, None),
        ({"playback_ack": {"observation": "playback_device", "at_s": 2}}, None),
        (PLAYED | {"playback_ack": {"observation": "playback_device", "at_s": 2}}, ((1_000_000, 1_600_000),)),
        ({"played": [], "playback_ack": {"observation": "playback_device", "at_s": 2}}, ()),
    ],
)
def test_heard_needs_a_device(fields: dict[str, Any], heard: Any) -> None:
    clip = sidecar(history={"segments": [segment(**fields)]})
    assert heard_spans(clip) == [Heard("a", heard)]
    assert heard_spans(sidecar()) == []


def test_use_before_arrival_is_named() -> None:
    groups = {
        "private_updates": {
            "updates": [
                {"id": "u1", "available_at_s": 1, "ready_at_s": 1.5, "rows": [0, 5]},
                {"id": "u2", "available_at_s": 1.2, "rows": [5, 6]},
            ]
        },
        "masks": {
            "permitted_updates": [
                {"update": "u1", "start_s": 1.4},
                {"update": "u1", "start_s": 1.5},
                {"update": "u2", "start_s": 1.2, "end_s": 3},
            ]
        },
        "evidence": {
            "items": [{"id": "e", "kind": "tool_result", "available_at_s": 2}],
            "claims": [
                {"text": "early", "start_s": 1.99, "end_s": 3, "supported_by": ["e"]},
                {"text": "in time", "start_s": 2, "end_s": 3, "supported_by": ["e"]},
                {"text": "untimed", "supported_by": ["e"]},
            ],
        },
    }
    pointers = [fault.pointer for fault in availability_faults(sidecar(**groups))]
    assert pointers == ["/private_updates/updates/1", "/masks/permitted_updates/0/start_s"]
    assert [fault.pointer for fault in claim_faults(sidecar(**groups))] == ["/evidence/claims/0/start_s"]
    assert availability_faults(sidecar()) == []


def words(**extra: Any) -> dict[str, Any]:
    items = [
        {"text": "a", "start_s": 0.16, "end_s": 0.24, "uncertainty_s": 0.08},
        {"text": "b", "start_s": 0.48, "end_s": 0.56, "uncertainty_s": 0.08, "speaker": "SPEAKER_CALLER"},
    ]
    return {"items": items, **extra}


def off(document: Sidecar, bit: int, **options: int) -> list[int]:
    return [index for index, mask in enumerate(frame_mask(document, 10, **options)) if not mask & bit]


def test_a_known_mismatch_takes_text_and_agent_where_it_is_named() -> None:
    everywhere = sidecar(words=words(mismatch="known"))
    assert off(everywhere, MASK_TEXT) == off(everywhere, MASK_AGENT) == list(range(10))
    assert off(everywhere, MASK_CALLER) == []
    assert off(everywhere, MASK_TEXT, text_ahead_us=160_000) == list(range(10))
    named = words(mismatch="known", mismatches=[{"start_s": 0.4, "end_s": 0.41}])
    named["items"][0]["mismatch"] = True
    assert off(sidecar(words=named), MASK_TEXT) == off(sidecar(words=named), MASK_AGENT) == [2, 5]
    assert off(sidecar(words=named), MASK_TEXT, text_ahead_us=160_000) == [0, 3]
    assert off(sidecar(words=words(mismatch="unknown")), MASK_TEXT) == []
    for mismatch in ("none", "unknown"):
        with pytest.raises(ValueError, match="need `mismatch: known`"):
            sidecar(words=named | {"mismatch": mismatch})


def test_text_is_masked_around_words_that_may_be_elsewhere() -> None:
    uncertain = sidecar(words=words())
    assert off(uncertain, MASK_TEXT, uncertainty_limit_us=80_000) == []
    assert off(uncertain, MASK_TEXT, uncertainty_limit_us=79_999) == [1, 2, 3]
    assert off(uncertain, MASK_AGENT, uncertainty_limit_us=0) == []
    assert off(uncertain, MASK_TEXT) == []
