from __future__ import annotations

from pathlib import Path

import pytest
import soundfile

from inkplex_data.clock import SAMPLE_RATE_HZ
from tests.conftest import ROOT


@pytest.mark.slow
def test_a_model_trains_on_the_examples_and_says_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    from demo_voice import run_demo, train_losses

    files = run_demo(tmp_path, passes=2, seconds=2.0, workers=1)
    losses = train_losses(tmp_path / "run")
    assert losses[-1] < losses[0]
    (sound,) = [path for path in files if path.suffix == ".wav"]
    samples, rate_hz = soundfile.read(sound)
    assert rate_hz == SAMPLE_RATE_HZ and samples.ndim == 2 and abs(samples).max() > 0
