"""Ctrl-C says how the work goes on, and it does."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.outputs.verbs import VERBS, Inputs, leftovers, run

BY_NAME = {verb.name: verb for verb in VERBS}
SAID = {"train": "--resume; it goes on from"}


def stop_when(pattern: str, folder: Path) -> threading.Thread:
    """Send this process Ctrl-C as soon as a file of that pattern lies below `folder`."""

    def watch() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(folder.glob(pattern)):
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.002)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("name", "pattern"), [("train", "out/checkpoints/*"), ("export moshi-finetune", "**/*.wav")]
)
def test_a_verb_that_is_stopped_goes_on(
    name: str, pattern: str, inputs: Inputs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    was = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    verb = BY_NAME[name]
    for folder in ("whole", "stopped"):
        (tmp_path / folder).mkdir()
    good, out = tmp_path / "whole" / "out", tmp_path / "stopped" / "out"
    assert run(*verb.arguments(inputs, good)) == verb.code
    capsys.readouterr()
    watch = stop_when(pattern, tmp_path / "stopped")
    try:
        code = run(*verb.arguments(inputs, out))
    finally:
        watch.join()
        signal.signal(signal.SIGINT, was)
    said = capsys.readouterr().err
    assert code == 130 and "Traceback" not in said, said
    # What finishes a step of its own first names the signal; what is broken off says that it was interrupted.
    assert "stopped by SIGINT" in said or "error: interrupted" in said
    assert SAID.get(name, "Run the same command again") in said
    assert run(*verb.arguments(inputs, out)) == verb.code
    assert verb.content(out) == verb.content(good)
    assert not leftovers(out)
