from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.grid import MASK_ALL, MASK_CALLER, PAD
from inkplex_data.report.timeline import BARS, LABEL, render_call
from inkplex_data.report.view import Mark, PrefixSummary
from tests.report.made import a_view, drawn, token_table, word_table


def lane(lines: list[str], name: str) -> str:
    """The cells of the first line with this label."""
    return next(line[LABEL:] for line in lines if line[:LABEL].strip() == name)


def test_one_frame_is_one_column() -> None:
    lines = drawn(render_call(a_view(40), 100))
    assert lane(lines, "text") == "····╷█▖···█" + "·" * 29
    assert lane(lines, "agent") == "     ▬▬▬  ▬"
    assert lane(lines, "caller") == " " * 20 + "▬▬▬▬"
    assert any(line[LABEL:].find("Hello") == 5 for line in lines)
    assert any(line[LABEL:].find("there") == 10 for line in lines)
    assert any(line[LABEL:].find("yes") == 20 for line in lines)
    assert "1 word with pieces not placed" in "\n".join(lines)
    assert "from word times" in lines[-1]


def test_levels_rise_with_the_sound() -> None:
    agent = np.linspace(-120, -20, 40).astype(np.float32)
    caller = np.full(40, -120, np.float32)
    lines = drawn(render_call(a_view(40, agent_db=agent, caller_db=caller), 100))
    heights = [BARS.index(bar) for bar in lane(lines, "agent").ljust(40)]
    assert heights == sorted(heights)
    assert heights[0] == 0
    assert heights[-1] == 8
    assert not lane(lines, "caller").strip()
    assert not any("word times" in line for line in lines)


def test_tokens_appear_in_the_frame_that_first_sees_them() -> None:
    tokens = token_table(
        *[(0, "setup")] * 5, *[(5_160_000, "tool_result")] * 64, (5_320_001, "reply"), (99_000_000, "reply")
    )
    lines = drawn(render_call(a_view(40, tokens=tokens, recording_starts_at_us=5_000_000), 100))
    assert lane(lines, "+tool_result") == "  ▇"
    assert lane(lines, "+reply") == "     ▁"
    assert lane(lines, "live 70") == "▁▁" + "█" * 38
    assert "in memory at 0:00: setup 5" in "\n".join(lines)
    assert "1 token after the call's end" in "\n".join(lines)
    assert not any(line.strip().startswith("+user") for line in lines)


def test_the_memory_never_shows_more_than_the_window() -> None:
    lines = drawn(render_call(a_view(40, tokens=token_table(*[(0, "user")] * 50), window=7), 100))
    assert lane(lines, "live 7") == "█" * 40


def test_gaps_prefix_and_marks() -> None:
    mask = np.full(40, MASK_ALL, np.uint8)
    mask[8:11] &= ~np.uint8(MASK_CALLER)
    prefix = PrefixSummary(30, "brian", "You are\nBrian.", 10, 8)
    lines = drawn(render_call(a_view(40, mask=mask, prefix=prefix, marks=[Mark(10, "response")]), 100))
    assert lane(lines, "╳ caller") == " " * 8 + "╳╳╳"
    assert lane(lines, "prefix") == "▒" * 10 + "·" * 6 + "█" * 8 + "·" * 6
    assert lane(lines, "role") == "You are Brian."
    assert any(line[LABEL:] == " " * 10 + "▼ response" for line in lines)
    assert not any("╳ text" in line for line in lines)


def test_long_calls_put_several_frames_into_a_column() -> None:
    tags = np.zeros(50_000, np.uint8)
    tags[40_000] = 2
    view = a_view(50_000, tags=tags, words=word_table(), tokens=token_table((1_000_000, "user")))
    lines = drawn(render_call(view, 120))
    assert len(lines) < 24 * 8 + 20
    assert sum(line[:LABEL].strip() == "text" for line in lines) <= 24
    assert sum("█" in line for line in lines if line[:LABEL].strip() == "text") == 1
    assert any("one column is" in line for line in lines)


def test_words_that_do_not_fit_are_cut_never_moved() -> None:
    words = word_table(
        *[(f"word{n:02d}xxxxxx", n * 80_000, n * 80_000 + 1, "SPEAKER_MAIN", n, [], 0) for n in range(12)]
    )
    lines = drawn(render_call(a_view(40, words=words), 100))
    for n in range(12):
        assert any(line[LABEL + n : LABEL + n + 2] == "wo" for line in lines)


@settings(deadline=None)
@given(st.text(max_size=20), st.integers(1, 200), st.integers(34, 140))
def test_no_line_is_wider_than_asked_whatever_the_words_are(text: str, frames: int, width: int) -> None:
    size = max(frames, 11)
    words = word_table(
        (text, 0, 300_000, "SPEAKER_MAIN", 0, [100], 1), (text, 100_000, 400_000, text, -1, [], 0)
    )
    view = a_view(size, call_id=text, words=words, facts={"family": text}, tokens=token_table((0, "user")))
    lines = drawn(render_call(view, width), width)
    assert all("\x1b" not in line for line in lines)
    assert sum(line[:LABEL].strip() == "text" for line in lines) == -(-size // (width - LABEL - 1))


def test_markup_in_names_is_text() -> None:
    words = word_table(("[red]loud[/red]", 0, 80_000, "SPEAKER_MAIN", 0, [100], 1))
    lines = drawn(render_call(a_view(40, call_id="[bold]x", words=words, facts={"family": "[/]"}), 100))
    assert lines[0].startswith("[bold]x")
    assert any("[red]loud[/red]" in line for line in lines)


def test_an_empty_call_and_a_narrow_terminal() -> None:
    empty = a_view(11)
    none = type(empty)(
        call_id="none", ids=np.empty(0, np.int32), tags=np.empty(0, np.uint8), words=word_table()
    )
    assert drawn(render_call(none, 100))[0].startswith("none")
    with pytest.raises(ValueError, match="at least"):
        render_call(empty, 20)


def test_pad_is_not_mistaken_for_a_piece() -> None:
    view = a_view(40, tags=np.zeros(40, np.uint8), ids=np.full(40, PAD, np.int32))
    assert lane(drawn(render_call(view, 100)), "text") == "·" * 40
