"""Cropping: every group moves with the others, crops compose, and relative times stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.sidecars.crop import crop, cut_text
from inkplex_data.corpus.sidecars.sidecar import availability_faults
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.corpus.swap import swapped_sidecar
from inkplex_data.errors import UsageError

BASE: dict[str, Any] = {"schema": "inkplex/sidecar@1", "identity": {"clip_id": "clip"}}


def sidecar(**groups: Any) -> Sidecar:
    return Sidecar.model_validate(BASE | groups)


def test_every_group_moves_by_its_own_rule() -> None:
    full = sidecar(
        audio={"path": "a.wav", "sample_rate_hz": 24000, "samples": 240_000, "offset_s": 1, "times": "clip"},
        words={
            "transcript": "one two three",
            "items": [
                {"text": "one", "start_s": 1.8, "end_s": 2.3},
                {"text": "hm", "start_s": 1.9, "end_s": 2.2, "speaker": "SPEAKER_CALLER"},
                {"text": "two", "start_s": 2.5, "end_s": 3},
                {"text": "three", "start_s": 4.5, "end_s": 5.5},
                {"text": "late", "start_s": 5, "end_s": 6},
            ],
        },
        prompt={"role": "You help."},
        private_updates={
            "mapping": {"kind": "measured", "recording_starts_at_s": 100},
            "updates": [
                {"id": "u1", "available_at_s": 0.5, "ready_at_s": 0.7, "rows": [0, 2]},
                {"id": "u2", "available_at_s": 3, "rows": [2, 3]},
                {"id": "u3", "available_at_s": 4, "ready_at_s": 5, "rows": [3, 4]},
            ],
        },
        evidence={
            "items": [
                {"id": "e1", "kind": "tool_call", "available_at_s": 1},
                {"id": "e2", "kind": "tool_result", "available_at_s": 6},
            ],
            "claims": [
                {"text": "before", "start_s": 1, "end_s": 3, "supported_by": ["e1"]},
                {"text": "inside", "start_s": 3, "end_s": 9, "supported_by": ["e1", "e2"]},
                {"text": "always", "supported_by": ["e1"]},
            ],
        },
        targets={
            "items": [
                {"text": "whole", "start_s": 2, "end_s": 5},
                {"text": "part", "start_s": 4, "end_s": 8},
                {"text": "gone", "start_s": 5, "end_s": 8},
                {"text": "untimed"},
                {"decision": "quiet", "start_s": 3, "end_s": 3},
            ],
            "response_start_s": 2.5,
        },
        history={
            "segments": [
                {
                    "id": "old",
                    "source": "agent_output",
                    "generated": [{"start_s": 0, "end_s": 1}],
                    "played": [{"start_s": 0.5, "end_s": 1.5}],
                    "playback_ack": {"observation": "playback_device", "at_s": 1.6},
                },
                {
                    "id": "running",
                    "source": "agent_output",
                    "generated": [{"start_s": 4, "end_s": 4.5}],
                    "queued": [{"start_s": 4.5, "end_s": 6}],
                    "played": [{"start_s": 6, "end_s": 7}],
                    "playback_ack": {"observation": "playback_device", "at_s": 7},
                },
                {"id": "future", "source": "teacher", "generated": [{"start_s": 5, "end_s": 6}]},
            ]
        },
        masks={
            "valid": {"agent": [{"start_s": 0, "end_s": 3}, {"start_s": 6, "end_s": 7}]},
            "excluded": [{"modality": "caller", "start_s": 4.9, "end_s": 9, "reason": "missing"}],
            "permitted_updates": [
                {"update": "u1", "start_s": 0.7},
                {"update": "u2", "start_s": 3, "end_s": 4},
                {"update": "u3", "start_s": 5},
            ],
        },
    )
    part = crop(full, 2_000_000, 5_000_000).to_json()
    assert part["audio"] == {
        "path": "a.wav",
        "sample_rate_hz": 24000,
        "samples": 72_000,
        "offset_s": 3.0,
        "times": "clip",
    }
    assert part["words"] == {
        "transcript": "two three",
        "items": [
            {"text": "two", "start_s": 0.5, "end_s": 1.0},
            {"text": "three", "start_s": 2.5, "end_s": 3.0},
        ],
    }
    assert part["prompt"] == {"role": "You help."}
    assert part["private_updates"] == {
        "mapping": {"kind": "measured", "recording_starts_at_s": 102.0},
        "updates": [
            {"id": "u1", "available_at_s": -1.5, "ready_at_s": -1.3, "rows": [0, 2]},
            {"id": "u2", "available_at_s": 1.0, "rows": [2, 3]},
        ],
    }
    assert [item["id"] for item in part["evidence"]["items"]] == ["e1"]
    assert part["evidence"]["claims"] == [
        {"text": "inside", "start_s": 1.0, "end_s": 3.0, "supported_by": ["e1"]},
        {"text": "always", "supported_by": ["e1"]},
    ]
    assert part["targets"] == {
        "items": [
            {"text": "whole", "start_s": 0.0, "end_s": 3.0, "cut": False},
            {"text": "part", "start_s": 2.0, "end_s": 3.0, "cut": True},
            {"text": "untimed"},
            {"decision": "quiet", "start_s": 1.0, "end_s": 1.0, "cut": False},
        ],
        "response_start_s": 0.5,
    }
    old, running = part["history"]["segments"]
    assert part["history"]["begins"] == "cut"
    assert old["played"] == [{"start_s": -1.5, "end_s": -0.5}]
    assert old["playback_ack"]["at_s"] == -0.4
    assert running["generated"] == [{"start_s": 2.0, "end_s": 2.5}]
    assert running["queued"] == [{"start_s": 2.5, "end_s": 3.0}]
    assert (running["played"], running["playback_ack"], running["cut"]) == ([], None, True)
    assert part["masks"]["valid"]["agent"] == [{"start_s": 0.0, "end_s": 1.0}]
    assert part["masks"]["excluded"] == [
        # The sounds of "hm" and "one" run on past the cut, their text does not.
        {"modality": "text", "start_s": 0.0, "end_s": 0.2, "reason": "cut_word"},
        {"modality": "text", "start_s": 0.0, "end_s": 0.3, "reason": "cut_word"},
        {"modality": "caller", "start_s": 2.9, "end_s": 3.0, "reason": "missing"},
        # The frame before "late" ends a padding in the whole clip, and not in the part.
        {"modality": "text", "start_s": 2.92, "end_s": 3.0, "reason": "cut_word"},
    ]
    assert part["masks"]["permitted_updates"] == [
        {"update": "u1", "start_s": 0.0, "end_s": None},
        {"update": "u2", "start_s": 1.0, "end_s": 2.0},
    ]
    Sidecar.model_validate(part)


def test_what_supersedes_evidence_only_later_is_not_known_in_a_crop() -> None:
    items = [
        {
            "id": "old",
            "kind": "tool_result",
            "available_at_s": 1,
            "status": "superseded",
            "superseded_by": "new",
        },
        {"id": "new", "kind": "tool_result", "available_at_s": 4},
    ]
    full = sidecar(evidence={"items": items}, masks={"permitted_updates": []})
    for end_us, status, successor in ((4_000_000, "unknown", None), (4_000_001, "superseded", "new")):
        part = crop(full, 2_000_000, end_us)
        assert part.evidence is not None and part.masks is not None
        assert (part.evidence.items[0].status, part.evidence.items[0].superseded_by) == (status, successor)
        assert part.masks.permitted_updates == [], "a list that permits nothing stays one"


def test_an_empty_or_early_crop_is_an_error() -> None:
    for start_us, end_us in ((5, 5), (6, 5), (-1, 5)):
        with pytest.raises(UsageError, match="0 ≤ start < end"):
            crop(sidecar(), start_us, end_us)


TIME = st.integers(-2_000, 6_000).map(lambda ms: ms / 1000)


def intervals(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda start, length, more: {"start_s": start, "end_s": round(start + length, 6), **more},
        TIME,
        st.integers(0, 2_000).map(lambda ms: ms / 1000),
        st.fixed_dictionaries(fields),
    )


def lists(strategy: st.SearchStrategy[Any], **options: Any) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=4, **options)


ARRIVING = st.fixed_dictionaries(
    {"id": st.sampled_from("abcdef"), "available_at_s": TIME}, optional={"ready_at_s": TIME}
)
UNIQUE = {"unique_by": lambda item: item["id"]}
SPANS = st.one_of(st.none(), lists(intervals()))
REFERENCE = st.lists(st.sampled_from("abcdef"), max_size=2)


@st.composite
def sidecars(draw: st.DrawFn) -> Sidecar:
    updates = [item | {"rows": [0, 1]} for item in draw(lists(ARRIVING, **UNIQUE))]
    evidence = [item | {"kind": "tool_result"} for item in draw(lists(ARRIVING, **UNIQUE))]
    known = {item["id"] for item in evidence}
    claims = [
        claim | {"supported_by": [name for name in claim["supported_by"] if name in known]}
        for claim in draw(lists(intervals(text=st.just("c"), supported_by=REFERENCE)))
    ]
    permitted = draw(lists(intervals(update=st.sampled_from("abcdef"))))
    segment = st.fixed_dictionaries(
        {"id": st.sampled_from("abcd"), "source": st.just("teacher")},
        optional={
            **dict.fromkeys(("generated", "queued", "played", "cancelled"), SPANS),
            "playback_ack": st.fixed_dictionaries({"observation": st.just("playback_device"), "at_s": TIME}),
        },
    )
    groups = {
        "audio": {
            "sample_rate_hz": draw(st.sampled_from([8_000, 22_050, 24_000])),
            "samples": draw(st.integers(0, 200_000)),
            "offset_s": draw(st.integers(0, 10**7)) / 10**6,
            "times": "clip",
        },
        "words": {
            "transcript": "t",
            "items": sorted(
                draw(
                    lists(
                        intervals(
                            text=st.sampled_from("xyz"),
                            speaker=st.sampled_from(["SPEAKER_MAIN", "B"]),
                            mismatch=st.booleans(),
                        )
                    )
                ),
                key=lambda word: word["start_s"],
            ),
            "mismatch": "known",
            "mismatches": draw(lists(intervals())),
        },
        "private_updates": {
            "mapping": {"kind": "measured", "recording_starts_at_s": 7.5},
            "updates": updates,
        },
        "evidence": {"items": evidence, "claims": claims},
        "targets": {
            "items": draw(lists(intervals(text=st.just("t")))),
            "response_start_s": draw(st.one_of(st.none(), TIME)),
        },
        "history": {"segments": draw(lists(segment, **UNIQUE))},
        "masks": {
            "valid": {"agent": draw(SPANS), "text": draw(SPANS)},
            "excluded": draw(
                lists(intervals(modality=st.sampled_from(["text", "caller"]), reason=st.just("uncertain")))
            ),
            "permitted_updates": [
                item for item in permitted if item["update"] in {update["id"] for update in updates}
            ],
        },
    }
    chosen = draw(st.sets(st.sampled_from(sorted(groups))))
    if "private_updates" not in chosen:
        groups["masks"]["permitted_updates"] = []
    return sidecar(**{name: groups[name] for name in chosen})


CUT = st.tuples(st.integers(0, 4_000), st.integers(1, 4_000)).map(
    lambda pair: (pair[0] * 997, pair[0] * 997 + pair[1] * 991)
)


@settings(max_examples=60)
@given(sidecars(), CUT, st.data())
def test_a_crop_of_a_crop_is_a_crop(full: Sidecar, outer: tuple[int, int], data: st.DataObject) -> None:
    length = outer[1] - outer[0]
    start = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(start + 1, length))
    once = crop(full, outer[0], outer[1])
    assert crop(once, start, end) == crop(full, outer[0] + start, outer[0] + end)
    assert crop(once, 0, length) == once
    Sidecar.model_validate(once.to_json())


def test_masks_that_a_crop_empties_leave_no_trace() -> None:
    """Half a word is masked where a crop cuts it; a second crop behind it takes the mask away again."""
    full = sidecar(words={"items": [{"text": "a", "start_s": 0.0, "end_s": 0.2}]})
    once = crop(full, 100_000, 400_000)
    assert once.masks is not None and len(once.masks.excluded) == 1
    assert crop(once, 100_000, 200_000) == crop(full, 200_000, 300_000)


def test_a_cut_word_is_masked_as_long_as_it_could_have_pieces() -> None:
    """Ten letters said in a tenth of a second have at most ten pieces and a space, one a frame."""
    said = [("ten1234567", 0, 100_000)]
    assert [span.end_s for span in cut_text(said, 80_000, 2_000_000)] == [0.8]
    assert cut_text(said, 880_000, 2_000_000) == []


@settings(max_examples=60)
@given(sidecars(), CUT)
def test_a_crop_moves_all_by_the_same_time_and_shows_no_future(full: Sidecar, cut: tuple[int, int]) -> None:
    start, end = cut
    part = crop(full, start, end)
    if full.private_updates and part.private_updates:
        arrivals = {item.id: seconds_to_us(item.arrival_s) for item in full.private_updates.updates}
        for item in part.private_updates.updates:
            assert seconds_to_us(item.arrival_s) == arrivals[item.id] - start
        kept = {item.id for item in part.private_updates.updates}
        assert kept == {name for name, arrival in arrivals.items() if arrival < end}
    if full.words and part.words:
        before = [(w.text, seconds_to_us(w.start_s) - start, w.speaker) for w in full.words.items]
        after = [(w.text, seconds_to_us(w.start_s), w.speaker) for w in part.words.items]
        assert after == [word for word in before if 0 <= word[1] < end - start]
        assert all(seconds_to_us(word.end_s) <= end - start for word in part.words.items)
    if not availability_faults(full):
        assert availability_faults(part) == []


@settings(max_examples=40)
@given(sidecars(), CUT)
def test_crop_and_swap_commute(full: Sidecar, cut: tuple[int, int]) -> None:
    """Words are the former agent's, and with them goes where a crop cut them; all else is the same in either order."""
    full = full.model_copy(update={"words": None})
    assert swapped_sidecar(crop(full, *cut)) == crop(swapped_sidecar(full), *cut)
