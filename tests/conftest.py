"""Shared fixtures: where the golden values and the real data lie, and quiet, offline libraries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of the code: nothing here is judged by time. In CI the examples are the same
# each time, so that a run fails for what was changed and for nothing else.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("patient")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def golden() -> Path:
    """Values made by code that is not ours; a test that needs them is skipped where they are absent."""
    folder = SHARED / "golden"
    if not folder.is_dir():
        pytest.skip(f"golden values are not at {folder}")
    return folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Real calls, transcripts, odd audio and traces; a test that needs them is skipped where absent."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"real data is not at {folder}")
    return folder
