"""The recipe's `surprise`: a call whose score lies far from all others is marked or refused."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

import polars as pl

from inkplex_data.config.surprise import SurpriseConfig
from inkplex_data.problems import ProblemLog, refusal
from inkplex_data.text_scores import call_surprise, costly_words, read_scores

SURPRISE_KEYS: Final = ("surprise",)
"""The recipe keys that `check_surprise` is given."""


def check_surprise(call_id: str, settings: SurpriseConfig | None, log: ProblemLog) -> None:
    """Note in `log` what the scores say against a call, or that they know nothing of it.

    Raises CallRefused (surprise-outlier) where the recipe refuses outliers, StoreError for a file that holds no scores.
    """
    if settings is None:
        return
    path = Path(settings.scores)
    known = _told(path, path.stat().st_mtime_ns if path.exists() else 0)
    if call_id not in known:
        log.add("surprise-unknown", f"{path.name} has no score of it")
        return
    deviation, told = known[call_id]
    if abs(deviation) <= settings.limit:
        return
    if settings.on_failure == "refuse":
        raise refusal("surprise-outlier", told)
    log.add("surprise-outlier", told)


@lru_cache(maxsize=2)
def _told(path: Path, changed_ns: int) -> dict[str, tuple[float, str]]:
    """By call its deviation, and what is to be said of it."""
    scores = read_scores(path)
    words = scores.filter(pl.col("level") == "word").partition_by("call_id", as_dict=True)
    told = {}
    for row in call_surprise(scores).drop_nulls("deviation").iter_rows(named=True):
        call_id, deviation = row["call_id"], row["deviation"]
        costly = costly_words(words[call_id,], call_id) if (call_id,) in words else []
        text = f"{row['bits_per_byte']:.2f} bits per byte, {deviation:+.1f} deviations from the median"
        told[call_id] = (deviation, f"{text}; the words that cost most: {', '.join(map(repr, costly))}")
    return told
