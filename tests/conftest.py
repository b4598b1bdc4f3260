"""Shared fixtures: where the golden values and the real data lie, and quiet, offline libraries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.quick_codec import register

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

register()

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
REAL_DATA = ROOT.parent / "shared" / "data"
NO_REAL_DATA = "the folder of real recordings is not there"


@pytest.fixture(scope="session")
def golden() -> Path:
    """Values made by code that is not ours; tests/golden/README.md says how."""
    return GOLDEN


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Real calls, transcripts, odd audio and traces; a test that needs them is skipped where absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(NO_REAL_DATA)
    return REAL_DATA


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for what a clone alone cannot check."""
    waiting = [
        report for report in terminalreporter.stats.get("skipped", ()) if NO_REAL_DATA in str(report.longrepr)
    ]
    if waiting:
        terminalreporter.write_line(
            f"{len(waiting)} tests wait for real recordings, which are not part of the repository: {REAL_DATA}"
        )
