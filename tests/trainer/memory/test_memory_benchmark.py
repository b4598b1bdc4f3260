"""The memory benchmark's claim, at its full size: a fifth or less of dense attention's peak memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_chunked_attention_needs_a_fifth_of_dense_memory() -> None:
    script = ROOT / "benchmarks" / "memory_attention.py"
    forms = json.loads(subprocess.check_output([sys.executable, str(script), "--json"], text=True))["forms"]
    assert forms["chunked"]["peak_mib"] <= forms["dense"]["peak_mib"] / 5
    assert forms["chunked"]["peak_mib"] < forms["fused"]["peak_mib"]
    assert forms["chunked"]["output"] == pytest.approx(forms["dense"]["output"], rel=1e-5)
    assert forms["chunked"]["gradient"] == pytest.approx(forms["dense"]["gradient"], rel=1e-4)
