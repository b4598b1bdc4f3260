"""The golden sessions, read once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest


@pytest.fixture(scope="session")
def golden_sessions(golden: Path) -> list[dict[str, Any]]:
    """120 sessions with what brute force makes of them; `table` holds the tokens as a Polars frame."""
    cases = json.loads((golden / "versions.json").read_text())
    for case in cases:
        case["table"] = pl.DataFrame(case["tokens"]).with_columns(pl.col("bytes").str.decode("hex"))
    return cases
