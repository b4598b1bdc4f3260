"""Views with made content for the tests of this folder."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console, RenderableType

from inkplex_data.grid import MASK_ALL, PAD, TAG_EPAD, TAG_FIRST, TAG_LATER
from inkplex_data.memory.tables import KIND
from inkplex_data.report.view import CallView

WORD_SCHEMA = {
    "text": pl.String,
    "start_us": pl.Int64,
    "end_us": pl.Int64,
    "speaker": pl.String,
    "frame": pl.Int32,
    "pieces": pl.List(pl.Int32),
    "placed": pl.Int16,
}


def word_table(*words: tuple[Any, ...]) -> pl.DataFrame:
    """Rows of text, start_us, end_us, speaker, frame, pieces, placed."""
    return pl.DataFrame(list(words), schema=WORD_SCHEMA, orient="row")


def token_table(*tokens: tuple[int, str]) -> pl.DataFrame:
    """Rows of arrival_us, kind."""
    return pl.DataFrame(list(tokens), schema={"arrival_us": pl.Int64, "kind": KIND}, orient="row")


def a_view(frames: int = 40, **fields: Any) -> CallView:
    """`frames` of PAD, with two agent words (the second lost a piece) and one of the caller's."""
    ids = np.full(frames, PAD, np.int32)
    tags = np.zeros(frames, np.uint8)
    tags[4], tags[5], tags[6] = TAG_EPAD, TAG_FIRST, TAG_LATER
    tags[10] = TAG_FIRST
    ids[4], ids[5], ids[6], ids[10] = 0, 100, 101, 102
    given: dict[str, Any] = {
        "call_id": "call one",
        "ids": ids,
        "tags": tags,
        "mask": np.full(frames, MASK_ALL, np.uint8),
        "words": word_table(
            ("Hello", 400_000, 640_000, "SPEAKER_MAIN", 5, [100, 101], 2),
            ("there", 800_000, 880_000, "SPEAKER_MAIN", 10, [102, 103], 1),
            ("yes", 1_600_000, 1_900_000, "SPEAKER_CALLER", -1, [104], 0),
        ),
        "spelled": {100: "▁Hel", 101: "lo", 102: "▁the", 103: "re", 104: "▁yes"},
    }
    return CallView(**(given | fields))


def drawn(renderable: RenderableType, width: int = 100) -> list[str]:
    """Lines of plain text, as a terminal of `width` columns shows them, without what pads them."""
    console = Console(width=width, force_terminal=True, color_system=None, file=StringIO())
    console.print(renderable)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
