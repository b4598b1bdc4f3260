"""The numbers that a person looks at first in a store, computed from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from inkplex_data.clock import US_PER_S
from inkplex_data.corpus.word_repair import WORD_DROPS
from inkplex_data.grid import SPLITS
from inkplex_data.problems import CODES
from inkplex_data.store.call_groups import GROUPINGS, call_groups

US_PER_HOUR = 3_600 * US_PER_S


@dataclass(frozen=True)
class StoreSummary:
    """`splits` has split, calls, families, hours; `groups` has by, group, calls, families, hours for what is known of the
    calls' origins and targets (`call_groups`); `problems` has code, severity, calls, count, meaning, remedy.

    `bytes_by_part` maps calls, recordings, prefixes to bytes on disk; empty where they were not counted.
    `words_dropped_by_rule` maps the codes by which words of the transcripts were lost to their number in stored calls.
    `facts` are the identities of codec, tokenizer and model; `warnings` are what the owner must know.
    """

    title: str
    calls: int
    hours: float
    families: int
    recordings: int
    tokens: int
    prefixes: int
    frames: int
    pad_fraction: float | None
    words: int
    words_dropped: int
    words_dropped_by_rule: Mapping[str, int]
    pieces_dropped: int
    refused: int
    splits: pl.DataFrame
    groups: pl.DataFrame
    problems: pl.DataFrame
    bytes_by_part: Mapping[str, int]
    facts: Mapping[str, str]
    warnings: tuple[str, ...]


def summarise(
    title: str,
    *,
    calls: pl.DataFrame,
    problems: pl.DataFrame,
    recordings: pl.DataFrame,
    prefixes: pl.DataFrame,
    description: Mapping[str, Any] | None = None,
    bytes_by_part: Mapping[str, int] | None = None,
    complete: bool = True,
) -> StoreSummary:
    """Summarise tables of the forms `format.CALLS`, `PROBLEMS`, `RECORDINGS` and `PREFIXES`."""
    stored = set(calls["call_id"])
    errors = problems.filter(pl.col("severity") == "error")["call_id"].unique()
    frames = int(calls["frames"].sum())
    pad = calls.filter(pl.col("pad_fraction").is_not_null())
    weight = int(pad["frames"].sum())
    return StoreSummary(
        title=title,
        calls=calls.height,
        hours=int(calls["duration_us"].sum()) / US_PER_HOUR,
        families=calls["family"].n_unique(),
        recordings=recordings.height,
        tokens=int(recordings["tokens"].sum()),
        prefixes=prefixes.height,
        frames=frames,
        pad_fraction=float((pad["pad_fraction"].cast(pl.Float64) * pad["frames"]).sum()) / weight
        if weight
        else None,
        words=int(calls["words"].sum()),
        words_dropped=int(calls["words_dropped"].sum()),
        words_dropped_by_rule=_words_dropped_by_rule(problems.filter(pl.col("call_id").is_in(stored))),
        pieces_dropped=int(calls["pieces_dropped"].sum()),
        refused=sum(call_id not in stored for call_id in errors),
        splits=_splits(calls),
        groups=_groups(calls),
        problems=_problems(problems),
        bytes_by_part=dict(bytes_by_part or {}),
        facts=_facts(description or {}),
        warnings=_warnings(description or {}, complete=complete),
    )


def _words_dropped_by_rule(problems: pl.DataFrame) -> dict[str, int]:
    counts = problems.filter(pl.col("code").is_in(WORD_DROPS)).group_by("code").len().sort("code")
    return dict(counts.iter_rows())


def _splits(calls: pl.DataFrame) -> pl.DataFrame:
    order = pl.Enum([*SPLITS, *sorted(set(calls["split"].drop_nulls()) - set(SPLITS))])
    return (
        calls.group_by("split")
        .agg(
            calls=pl.len(),
            families=pl.col("family").n_unique(),
            hours=pl.col("duration_us").sum() / US_PER_HOUR,
            with_memory=pl.col("recording_id").is_not_null().sum(),
        )
        .sort(pl.col("split").cast(order))
    )


def _groups(calls: pl.DataFrame) -> pl.DataFrame:
    """One row for each group of each grouping."""
    counted = [
        call_groups(calls, by)
        .join(calls.select("call_id", "family", "duration_us"), on="call_id")
        .group_by(pl.lit(by).alias("by"), "group", maintain_order=True)
        .agg(
            calls=pl.len(),
            families=pl.col("family").n_unique(),
            hours=pl.col("duration_us").sum() / US_PER_HOUR,
        )
        for by in GROUPINGS
    ]
    return pl.concat(counted)


def _problems(problems: pl.DataFrame) -> pl.DataFrame:
    """One row per code, errors first, then by the number of calls affected."""
    rank = {"error": 0, "repair": 1, "info": 2}
    known = pl.DataFrame(
        {
            "code": list(CODES),
            "meaning": [code.meaning for code in CODES.values()],
            "remedy": [code.remedy for code in CODES.values()],
        },
        schema={"code": pl.String, "meaning": pl.String, "remedy": pl.String},
    )
    return (
        problems.group_by("code", "severity")
        .agg(
            calls=pl.col("call_id").filter(pl.col("call_id") != "").n_unique(),
            count=pl.len(),
            example=pl.col("message").first(),
        )
        .join(known, on="code", how="left", maintain_order="left")
        .sort(
            pl.col("severity").replace_strict(rank, default=3, return_dtype=pl.Int32),
            pl.col("calls") * -1,
            "code",
        )
    )


def _facts(description: Mapping[str, Any]) -> dict[str, str]:
    facts = {}
    for part in ("codec", "tokenizer", "model"):
        identity = description.get(part)
        if isinstance(identity, Mapping):
            name = identity.get("id") or identity.get("name") or "?"
            digest = str(identity.get("sha256") or "")[:12]
            facts[part] = f"{name} ({digest})" if digest else str(name)
    recipe = (description.get("configuration") or {}).get("name")
    if recipe:
        facts["recipe"] = str(recipe)
    return facts


def _warnings(description: Mapping[str, Any], *, complete: bool) -> tuple[str, ...]:
    warnings = []
    if not complete:
        warnings.append("no build has finished yet, so calls may be missing; run the build again to continue")
    for part in ("codec", "model"):
        identity = description.get(part)
        if isinstance(identity, Mapping) and identity.get("untrained"):
            warnings.append(
                f"the {part} is untrained ({identity.get('id', '?')}): use this store for tests, not for training"
            )
    model = description.get("model")
    if isinstance(model, Mapping) and model.get("unidentified"):
        warnings.append("the states do not say which model computed them, from which input")
    return tuple(warnings)
