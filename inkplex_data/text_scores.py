"""The scores of a store's texts, as `inkplex-data soma score` writes them: how many bits each call, turn and word costs.

Whoever orders, shows or refuses calls by them reads the file; no model is needed for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import polars as pl

from inkplex_data.errors import StoreError
from inkplex_data.reading import open_file

LEVELS: Final = ("recording", "call", "turn", "word")
SCORES: Final[dict[str, pl.DataType]] = {
    "level": pl.String(),
    "call_id": pl.String(),
    "recording_id": pl.String(),
    "side": pl.String(),
    "turn_ix": pl.Int32(),
    "word_ix": pl.Int32(),
    "start_us": pl.Int64(),
    "end_us": pl.Int64(),
    "text": pl.String(),
    "tokens": pl.Int64(),
    "nats": pl.Float64(),
    "source_bytes": pl.Int64(),
    "bits_per_byte": pl.Float64(),
}
"""One row for each word, each turn, and each call as a whole and by side; for task traces one for each turn and each trace.

`side` is `agent` or `caller`, in a task trace the kind of its tokens, and null for a whole. `nats` are those of the text's
own tokens: a turn's are the sum of its words', a call's of its turns'. `bits_per_byte` is nats / ln 2 / source_bytes, null
where there are no bytes. `text` is that of words and turns. `word_ix` is the word's in the store's words table."""

_NORMAL: Final = 1.4826
"""What the median distance from the median times this estimates is the standard deviation, for normal values."""


def read_scores(path: str | os.PathLike[str]) -> pl.DataFrame:
    """The table of a scores file, `SCORES`. Raises StoreError for a file that is not one."""
    try:
        with open_file(Path(path)) as file:
            table = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _not_scores(path, str(getattr(error, "strerror", None) or error)) from error
    wrong = [name for name, dtype in SCORES.items() if table.schema.get(name) != dtype]
    if wrong:
        raise _not_scores(path, f"it lacks {', '.join(wrong)}, or has them in another type")
    return table.select(*SCORES)


def call_surprise(scores: pl.DataFrame) -> pl.DataFrame:
    """One row for each call, to be joined to `Store.calls()` by `call_id`.

    Columns: call_id; bits_per_byte, agent_bits_per_byte, caller_bits_per_byte, null where there are no words; deviation, the
    one of the three that lies farthest from the median of all calls, in robust standard deviations: above zero more surprising than
    other calls, below zero more predictable, such as one phrase said again and again.
    """
    calls = scores.filter(pl.col("level") == "call")
    wide = calls.select("call_id").unique(maintain_order=True)
    names = []
    for side, name in (
        (None, "bits_per_byte"),
        *((side, f"{side}_bits_per_byte") for side in ("agent", "caller")),
    ):
        of_side = calls.filter(pl.col("side").eq_missing(side)).select(
            "call_id", pl.col("bits_per_byte").alias(name)
        )
        wide = wide.join(of_side, on="call_id", how="left", maintain_order="left")
        names.append(name)
    return wide.with_columns(_farthest([_deviation(wide[name]) for name in names]).alias("deviation"))


def by_surprise(scores: pl.DataFrame) -> list[str]:
    """The ids of all scored calls, from the most predictable to the most surprising; those of equal bits per byte by id."""
    return call_surprise(scores).sort("bits_per_byte", "call_id", nulls_last=True)["call_id"].to_list()


def costly_words(scores: pl.DataFrame, call_id: str, most: int = 5) -> list[str]:
    """The words of a call that cost most nats, dearest first."""
    words = scores.filter(pl.col("level") == "word", pl.col("call_id") == call_id)
    return words.sort("nats", descending=True, maintain_order=True)["text"].head(most).to_list()


def outliers(scores: pl.DataFrame, most: int) -> pl.DataFrame:
    """The calls of `call_surprise` that lie farthest from all others, farthest first."""
    found = call_surprise(scores).drop_nulls("deviation")
    return found.sort(pl.col("deviation").abs(), "call_id", descending=[True, False]).head(most)


def _deviation(values: pl.Series) -> pl.Series:
    """Robust standard deviations from the median; where most values are one, any other is infinitely far from it."""
    away = values - values.median()
    spread = away.abs().median()
    if isinstance(spread, int | float) and spread:
        return away / (_NORMAL * spread)
    return pl.select(pl.when(away == 0).then(0.0).otherwise(away.sign() * float("inf"))).to_series()


def _farthest(deviations: list[pl.Series]) -> pl.Series:
    table = pl.DataFrame([series.alias(str(number)) for number, series in enumerate(deviations)])
    high, low = pl.max_horizontal(pl.all()), pl.min_horizontal(pl.all())
    return table.select(pl.when(high >= -low).then(high).otherwise(low)).to_series()


def _not_scores(path: str | os.PathLike[str], reason: str) -> StoreError:
    return StoreError(
        f"this is no file of scores: {reason}",
        where=str(path),
        next_step="Make one with `inkplex-data soma score STORE -o scores.parquet`.",
    )
