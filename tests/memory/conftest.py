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


@pytest.fixture(scope="session")
def small_inkling() -> Any:
    """The small untrained model, on one thread as in a build."""
    import torch

    from inkplex_data.memory.capture.inkling import load_inkling

    torch.set_num_threads(1)
    return load_inkling("small:0", device="cpu")


@pytest.fixture(scope="session")
def full_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A checkpoint of `InklingForConditionalGeneration` and the model that was saved; not to be written to."""
    from tests.memory.tiny import save_full_model

    folder = tmp_path_factory.mktemp("models") / "full"
    return folder, save_full_model(folder)
