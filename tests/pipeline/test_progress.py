"""What a build's log says of its pace."""

from __future__ import annotations

import io

import pytest

from inkplex_data.durations import hms
from inkplex_data.pipeline import progress
from inkplex_data.pipeline.progress import LineReporter


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds, which the test moves on."""
    time_s = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: time_s[0])
    return time_s


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3_599, "59:59"), (3_661, "1:01:01")]
)
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert hms(seconds) == text


def test_slow_stages_show_their_pace_and_what_is_left(now: list[float]) -> None:
    log = io.StringIO()
    reporter = LineReporter(log)
    reporter.stage("scan", 4)
    for _ in range(4):
        now[0] += 30
        reporter.advance("scan")
    assert log.getvalue().splitlines() == [
        "scan: 4 calls",
        "scan: 1/4 calls, 0.033 calls/s, 1:30 left",
        "scan: 2/4 calls, 0.033 calls/s, 1:00 left",
        "scan: 3/4 calls, 0.033 calls/s, 0:30 left",
        "scan: 4/4 calls, 0.033 calls/s",
    ]


def test_a_line_a_minute_at_least_and_a_tenth_at_most(now: list[float]) -> None:
    log = io.StringIO()
    reporter = LineReporter(log)
    reporter.stage("encode", 1_000)
    for _ in range(99):
        now[0] += 7
        reporter.advance("encode", audio_us=60_000_000)
    lines = log.getvalue().splitlines()
    assert len(lines) == 1 + 99 // 9
    assert lines[-1] == "encode: 99/1000 calls, 0.0024 audio hours/s, 1:45:07 left"
