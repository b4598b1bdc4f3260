"""A build that is stopped by a signal ends in order, and says how it goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inkplex_data.cli.interrupts import going_on
from inkplex_data.errors import Interrupted
from tests.pipeline.conftest import write_call


@pytest.mark.parametrize(
    ("number", "extra", "said"),
    [
        (signal.SIGTERM, [], "Run the same command again; it goes on from here."),
        (signal.SIGHUP, ["--restart"], "Run the same command again without --restart"),
    ],
)
def test_a_signal_counts_as_ctrl_c(
    number: signal.Signals, extra: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    for seed in range(8):
        write_call(tmp_path / "corpus", f"call-{seed}", seed, 1.0)
    command = [
        sys.executable, "-m", "inkplex_data.cli.app", "build", str(tmp_path / "corpus"), "-o", str(tmp_path / "store"),
        "--codec", "untrained:0", "--workers", "1", *extra,
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 - else ignored under `nohup`
    )
    while not (tmp_path / "store" / ".build" / "encode").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    _, complaint = process.communicate()
    assert process.returncode == 130
    assert "error: interrupted" in complaint and said in complaint
    assert "Traceback" not in complaint


def test_only_an_interruption_is_one() -> None:
    with pytest.raises(Interrupted, match="interrupted") as stopped, going_on("Go on."):
        raise KeyboardInterrupt
    assert stopped.value.exit_code == 130 and "Go on." in str(stopped.value)
    with pytest.raises(ZeroDivisionError), going_on("Go on."):
        1 / 0  # noqa: B018
