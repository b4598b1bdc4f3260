"""Ctrl-C says how the work goes on, and it does."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.outputs.verbs import VERBS, Inputs, leftovers, run, run_folder

BY_NAME = {verb.name: verb for verb in VERBS}
SAID = {"train": ("stopped by SIGINT", "--resume; it goes on from")}
"""What finishes a step of its own first names the signal; what is broken off says that it was interrupted."""
USUAL = ("error: interrupted", "Run the same command again")
SHARED = {"train": partial(run_folder, at_end=True)}


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
    assert all(part in said for part in SAID.get(name, USUAL)), said
    assert run(*verb.arguments(inputs, out)) == verb.code
    content = SHARED.get(name, verb.content)
    assert content(out) == content(good)
    assert not leftovers(out)
