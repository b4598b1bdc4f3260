"""A reviewer's verdicts held against the automatic ones."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import UsageError
from inkplex_data.reading import read_bounded
from inkplex_data.trainer.grounding.claims.claim_verdicts import VERDICTS

SCHEMA: Final = "inkplex/grounding-verdict@1"
MAX_BYTES: Final = 64 << 20
KEY: Final = ("call_id", "system", "branch", "claim_ix")
REVIEWED: Final[dict[str, pl.DataType]] = {
    "call_id": pl.String(), "system": pl.String(), "branch": pl.String(), "claim_ix": pl.Int64(), "verdict": pl.String(),
}  # fmt: skip

AGREEMENT: Final[dict[str, pl.DataType]] = {
    "verdict": pl.String(),
    "automatic": pl.Int64(),
    "reviewer": pl.Int64(),
    "both": pl.Int64(),
}
"""How often each verdict was given by either, and by both to the same claim, among the claims that were reviewed."""


def read_verdicts(path: Path) -> pl.DataFrame:
    """`REVIEWED` of JSON lines; of a claim that is there twice the last line counts. Raises UsageError for what is none."""
    rows = {}
    for number, line in enumerate(read_bounded(path, MAX_BYTES).decode("utf-8", "replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            body = parse_json(line)
            row = tuple(body[name] for name in REVIEWED)
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(
                "it is no verdict", where=f"{path}:{number}", next_step="Save it from the review page."
            ) from error
        right = [isinstance(cell, str) for cell in (*row[:3], row[4])]
        if (
            body.get("schema") != SCHEMA
            or not all(right)
            or type(row[3]) is not int
            or row[4] not in VERDICTS
        ):
            raise UsageError(
                f"it is no verdict of schema {SCHEMA}",
                where=f"{path}:{number}",
                next_step="Save it from the review page.",
            )
        rows[row[:4]] = row
    return pl.DataFrame(list(rows.values()), schema=REVIEWED, orient="row")


def agreement(claims: pl.DataFrame, reviewed: pl.DataFrame) -> pl.DataFrame:
    """`AGREEMENT` over the claims (`run_tables.CLAIMS`) that were reviewed; verdicts of claims that are not there are left out."""
    both = claims.select(*KEY, "verdict").join(reviewed, on=KEY, suffix="_reviewer")
    rows = [
        (
            verdict,
            (both["verdict"] == verdict).sum(),
            (both["verdict_reviewer"] == verdict).sum(),
            ((both["verdict"] == verdict) & (both["verdict_reviewer"] == verdict)).sum(),
        )
        for verdict in VERDICTS
    ]
    return pl.DataFrame(rows, schema=AGREEMENT, orient="row")


def agreement_text(table: pl.DataFrame, reviewed: int) -> str:
    """A sentence for a terminal. `reviewed`: how many verdicts the file holds."""
    claims, alike = int(table["automatic"].sum()), int(table["both"].sum())
    lost = f"; {reviewed - claims} are of claims that are not here" if reviewed > claims else ""
    share = f" ({alike / claims:.0%})" if claims else ""
    return f"reviewed: {claims} claims, {alike} with the automatic verdict{share}{lost}"
