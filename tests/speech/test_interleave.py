from __future__ import annotations

import json
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inkplex_data.clock import seconds_to_us
from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.problems import CODES
from inkplex_data.speech.interleave import TextStream, Word, interleave
from inkplex_data.speech.interleave_types import REASONS
from tests.speech.stepwise import stepwise

MAIN, OTHER, THIRD = "SPEAKER_MAIN", "SPEAKER_OTHER", "SPEAKER_THIRD"
MS = 1_000


def case_words(case: dict[str, Any]) -> list[Word]:
    return [
        Word(w["pieces"], seconds_to_us(w["start"]), seconds_to_us(w["end"]), w["speaker"])
        for w in case["words"]
    ]


def run_case(case: dict[str, Any], rounding: str) -> TextStream:
    options = case["options"]
    assert options["bos"] is not options["main_only"]
    return interleave(
        case_words(case),
        ceil(case["duration_s"] * 12.5),
        overflow="shift" if options["shift"] else "replace",
        rounding=rounding,
        in_word_padding=options["inword"],
        delay_us=seconds_to_us(options["delay"]),
        speaker_tokens=options["bos"],
    )


@pytest.fixture(scope="module")
def cases(golden: Path) -> list[dict[str, Any]]:
    """The golden cases, with `expected` cut to the call's frames.

    In six calls that are shorter than their negative delay, the recipe's blank stretch runs past the end;
    our stream has the call's length, always.
    """
    found: list[dict[str, Any]] = json.loads((golden / "interleave.json").read_text())
    longer = 0
    for case in found:
        frames = ceil(case["duration_s"] * 12.5)
        assert set(case["expected"][frames:]) <= {-1}
        longer += len(case["expected"]) > frames
        del case["expected"][frames:]
    assert (len(found), longer) == (220, 6)
    return found


def test_all_golden_cases_with_the_recipes_rounding(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        assert run_case(case, "kyutai").ids.tolist() == case["expected"], case["id"]


def test_exact_rounding_differs_from_golden_only_at_float_boundaries(cases: list[dict[str, Any]]) -> None:
    differing = {case["id"] for case in cases if run_case(case, "exact").ids.tolist() != case["expected"]}
    # In the other marked cases, the word at the boundary is dropped, replaced or past the end either way.
    assert differing < {case["id"] for case in cases if case["float_boundary"]}
    assert len(differing) == 8


def test_with_exact_rounding_every_first_piece_sits_on_its_onset(cases: list[dict[str, Any]]) -> None:
    checked = 0
    for case in cases:
        options = case["options"]
        if options["shift"] or options["delay"]:
            continue
        stream = run_case(case, "exact")
        onsets = {max(w.start_us // 80_000, 0) for w in case_words(case)}
        firsts = np.flatnonzero(stream.roles == 2).tolist()
        assert set(firsts) <= onsets
        for word, frame in zip(case_words(case), stream.word_frames, strict=True):
            if frame >= 0:
                assert frame == max(word.start_us // 80_000, 0)
                checked += 1
    assert checked > 500


def test_golden_streams_account_for_every_word_and_piece(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        check_accounts(case_words(case), run_case(case, "exact"))


# seeds/002, "Aligning text to 12.5 Hz": "Hello, I'm Moshi." over 24 frames, counted from 1.
PAPER = [
    Word([101, 102], 320 * MS, 700 * MS),
    Word([103, 104, 105], 1_040 * MS, 1_300 * MS),
    Word([106, 107, 108], 1_440 * MS, 1_800 * MS),
]
PAPER_TABLE = {3: 0, 4: 101, 5: 102, 12: 0, 13: 103, 14: 104, 15: 105, 17: 0, 18: 106, 19: 107, 20: 108}


def paper_table(table: dict[int, int], frames: int = 24) -> list[int]:
    return [table.get(frame, 3) for frame in range(1, frames + 1)]


@pytest.mark.parametrize("rounding", ["exact", "kyutai"])
def test_the_papers_table(rounding: str) -> None:
    stream = interleave(PAPER, 24, policy="moshi-paper", rounding=rounding)
    assert stream.ids.tolist() == paper_table(PAPER_TABLE)
    assert stream.pieces_placed == 8
    assert (stream.roles == 1).sum() == 3
    assert stream.pad_fraction == pytest.approx(16 / 24)
    assert stream.word_frames.tolist() == [3, 12, 17]


def test_the_papers_epad_never_overwrites_a_piece() -> None:
    words = [*PAPER[:2], PAPER[2]._replace(start_us=1_280 * MS)]
    expected = {3: 0, 4: 101, 5: 102, 12: 0, 13: 103, 14: 104, 15: 105, 16: 106, 17: 107, 18: 108}
    assert interleave(words, 24, policy="moshi-paper").ids.tolist() == paper_table(expected)


@pytest.mark.parametrize("start_us", [-500 * MS, 0, 40 * MS, 80 * MS, 119 * MS])
def test_a_word_on_the_papers_first_frame_shifts_by_one(start_us: int) -> None:
    stream = interleave([Word([101, 102], start_us, 900 * MS)], 6, policy="moshi-paper")
    assert stream.ids.tolist() == [0, 101, 102, 3, 3, 3]
    assert stream.roles.tolist() == [1, 2, 3, 0, 0, 0]


def test_the_papers_new_word_clears_older_pieces() -> None:
    words = [Word([101, 102, 103, 104], 320 * MS, 500 * MS), Word([105], 400 * MS, 600 * MS)]
    stream = interleave(words, 8, policy="moshi-paper")
    assert stream.ids.tolist() == [3, 3, 0, 101, 105, 3, 3, 3]
    assert stream.drops == ((0, "replaced", 3),)


def test_a_time_that_float_arithmetic_puts_one_frame_early() -> None:
    words = [Word([50], 2_320 * MS, 2_500 * MS)]
    assert interleave(words, 40).word_frames.tolist() == [29]
    assert interleave(words, 40, rounding="kyutai").word_frames.tolist() == [28]


def test_every_loss_has_its_reason() -> None:
    words = [
        Word([10, 11], -200 * MS, 100 * MS),  # on frame 0; its second piece is replaced on frame 1
        Word([12, 0, 13, 3], 80 * MS, 300 * MS),  # ids 0 and 3 are never placed
        Word([14], 500 * MS, 500 * MS),
        Word([15, 16], 600 * MS, 700 * MS, OTHER),
        Word([], 700 * MS, 720 * MS),
        Word([17, 18, 19], 720 * MS, 900 * MS),
        Word([20], 800 * MS, 900 * MS),
    ]
    stream = interleave(words, 10)
    assert stream.ids.tolist() == [10, 12, 13, 3, 3, 3, 3, 3, 0, 17]
    assert stream.roles.tolist() == [2, 2, 3, 0, 0, 0, 0, 0, 1, 2]
    assert stream.drops == (
        (0, "replaced", 1),
        (1, "reserved-id", 2),
        (2, "no-duration", 1),
        (3, "other-speaker", 2),
        (4, "no-pieces", 0),
        (5, "past-end", 2),
        (6, "past-end", 1),
    )
    assert (stream.words_placed, stream.words_dropped) == (3, 4)
    assert (stream.pieces_placed, stream.pieces_dropped) == (4, 9)
    assert sum(drop.pieces for drop in stream.drops if drop.reason in {"past-end", "replaced"}) == 4
    assert stream.word_placed.tolist() == [1, 2, 0, 0, 0, 1, 0]


def test_text_ahead_of_audio_drops_what_is_over_and_text_behind_it_blanks_the_start() -> None:
    words = [Word([10, 11], 0, 200 * MS), Word([12], 300 * MS, 500 * MS)]
    ahead = interleave(words, 4, delay_us=240 * MS)
    assert ahead.ids.tolist() == [12, 3, 3, 3]
    assert ahead.drops == ((0, "before-delay", 2),)
    behind = interleave([Word([10, 11], -160 * MS, 200 * MS)], 6, delay_us=-160 * MS)
    assert behind.ids.tolist() == [-1, -1, 3, 3, 3, 3]
    assert behind.drops == ((0, "no-input", 2),)


def test_speaker_tokens_open_and_close_the_main_speakers_turns() -> None:
    words = [
        Word([10], 0, 80 * MS, OTHER),
        Word([11, 12], 160 * MS, 300 * MS),
        Word([13], 480 * MS, 560 * MS, OTHER),
        Word([14], 800 * MS, 900 * MS, THIRD),
    ]
    stream = interleave(words, 12, speaker_tokens=True)
    assert stream.ids.tolist() == [10, 0, 1, 11, 12, 0, 2, 13, 3, 0, 14, 3]
    assert stream.roles.tolist() == [2, 1, 2, 3, 3, 1, 2, 3, 0, 1, 2, 0]
    assert stream.word_frames.tolist() == [0, 2, 6, 10]
    assert (stream.pieces_placed, stream.markers_placed) == (5, 2)


def test_a_word_piece_like_the_in_word_padding_is_not_overwritten() -> None:
    words = [Word([7], 80 * MS, 100 * MS), Word([10], 160 * MS, 300 * MS)]
    assert interleave(words, 4, in_word_padding=7).ids.tolist() == [0, 7, 10, 7]


def test_every_reason_has_a_problem_code() -> None:
    for reason in REASONS:
        code = CODES[f"text-{reason}"]
        assert code.severity == ("info" if reason == "other-speaker" else "repair")


def test_no_words_and_no_frames() -> None:
    assert interleave([], 3).ids.tolist() == [3, 3, 3]
    stream = interleave([Word([10], 0, 80 * MS)], 0)
    assert stream.ids.tolist() == []
    assert stream.drops == ((0, "past-end", 1),)
    assert stream.pad_fraction == 0.0


def test_all_faults_of_the_options_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        interleave([], -1, policy="moshi", overflow="keep", rounding="up", in_word_padding=32_000)
    assert len(caught.value.faults) == 5
    with pytest.raises(UsageError, match="32000 of word 1"):
        interleave([Word([5], 0, 1), Word([9, 32_000], 0, 1)], 3)


def check_accounts(words: list[Word], stream: TextStream) -> None:
    """Nothing is lost silently: counts add up, and each lost piece has exactly one reason."""
    assert stream.words_placed + stream.words_dropped == len(words)
    assert stream.pieces_placed + stream.pieces_dropped == sum(len(w.pieces) for w in words)
    assert sum(drop.pieces for drop in stream.drops) == stream.pieces_dropped
    lost = np.zeros(len(words), int)
    for drop in stream.drops:
        lost[drop.word] += drop.pieces
    assert (stream.word_placed + lost).tolist() == [len(w.pieces) for w in words]
    silent = np.flatnonzero(stream.word_placed == 0).tolist()
    assert set(silent) <= {drop.word for drop in stream.drops}
    on_grid = int((stream.roles >= 2).sum())
    assert on_grid == stream.pieces_placed + stream.markers_placed


# Round times make collisions, boundaries and halves of the grid common.
times = st.one_of(
    st.integers(-6, 40).map(lambda k: k * 40_000),
    st.integers(-20, 180).map(lambda k: k * 10_000),
    st.integers(-300_000, 1_900_000),
)
words = st.builds(
    lambda pieces, start, length, speaker: Word(pieces, start, start + length, speaker),
    st.lists(st.one_of(st.integers(4, 12), st.integers(0, 3), st.integers(0, 31_999)), max_size=6),
    times,
    st.one_of(st.sampled_from([0, -40_000, 10_000, 80_000]), st.integers(1, 600_000)),
    st.sampled_from([MAIN, MAIN, MAIN, OTHER, THIRD]),
)


@settings(max_examples=300, deadline=None)
@given(
    words=st.lists(words, max_size=14),
    frames=st.integers(0, 24),
    policy=st.sampled_from(["kyutai", "moshi-paper"]),
    overflow=st.sampled_from(["replace", "shift"]),
    rounding=st.sampled_from(["exact", "kyutai"]),
    in_word_padding=st.sampled_from([None, 7, 3, 0]),
    delay_us=st.one_of(st.just(0), st.sampled_from([400_000, -400_000]), st.integers(-900_000, 900_000)),
    speaker_tokens=st.booleans(),
)
@example([Word([5, 6], 0, 10)], 1, "moshi-paper", "replace", "exact", None, 0, False)
def test_the_whole_call_at_once_equals_one_frame_at_a_time(
    words: list[Word],
    frames: int,
    policy: str,
    overflow: str,
    rounding: str,
    in_word_padding: int | None,
    delay_us: int,
    speaker_tokens: bool,
) -> None:
    options = {
        "policy": policy,
        "overflow": overflow,
        "rounding": rounding,
        "in_word_padding": in_word_padding,
        "delay_us": delay_us,
        "speaker_tokens": speaker_tokens,
    }
    stream = interleave(words, frames, **options)
    expected = stepwise(words, frames, **options)
    assert stream.ids.tolist() == expected.ids
    assert stream.roles.tolist() == expected.roles
    assert stream.word_placed.tolist() == [expected.placed[i] for i in range(len(words))]
    assert stream.word_frames.tolist() == [
        expected.frames[i] if expected.placed[i] else -1 for i in range(len(words))
    ]
    assert {(d.word, d.reason): d.pieces for d in stream.drops} == dict(expected.lost)
    assert stream.markers_placed == expected.markers
    check_accounts(words, stream)


@settings(max_examples=60, deadline=None)
@given(st.lists(words, max_size=14), st.integers(1, 24), st.integers(-6, 6))
def test_a_delay_of_whole_frames_moves_the_words(words: list[Word], frames: int, shift: int) -> None:
    """With exact rounding, a delay of k frames is the same as words that are k frames earlier."""
    delay = shift * 80_000
    moved = [w._replace(start_us=w.start_us - delay, end_us=w.end_us - delay) for w in words]
    blank = max(-shift, 0)
    delayed = interleave(words, frames, delay_us=delay)
    assert delayed.ids[blank:].tolist() == interleave(moved, frames).ids[blank:].tolist()
    assert set(delayed.ids[:blank].tolist()) <= {-1}
