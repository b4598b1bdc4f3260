"""Shared fixtures: where the golden values and the real data lie, and quiet, offline libraries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
