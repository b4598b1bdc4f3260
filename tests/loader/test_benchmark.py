"""`bench loader` on a store that takes no time."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest


def test_it_measures_a_made_store(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "loader.py"
    sizes = ["--megabytes", "1", "--tokens", "100", "--width", "512", "--frames", "50", "--repeat", "1"]
    monkeypatch.setattr(sys, "argv", [str(script), *sizes, "--no-others", "--json"])
    runpy.run_path(str(script), run_name="__main__")
    figures = json.loads(capsys.readouterr().out)
    assert figures["calls"] == 3
    speeds = {name: speed["best"] for name, speed in figures["gigabytes_per_s"].items()}
    assert figures["loader_over_raw"] == speeds["loader"] / speeds["raw verified reads"]
    assert 0 < figures["megabytes"] <= 3 * 100 * 3 * 512 * 2 / 1e6
    assert figures["first_batch_s"] > 0
    if figures["peak"] is not None:
        assert figures["peak"]["growth_megabytes"] < figures["peak"]["bound_megabytes"]
