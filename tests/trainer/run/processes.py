"""Several processes of one run on this machine, as torchrun starts them; one start serves several runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

from tests.conftest import ROOT

OPTIONS: dict[str, Any] = {
    "device": "cpu",
    "workers": 0,
    "allow_untrained_codec": True,
    "tensorboard": False,
}
SCRIPT = """
import json, os, subprocess, sys, time
from dataclasses import asdict
from pathlib import Path
import torch
from inkplex_data.errors import InkplexError
from inkplex_data.trainer.run.loop import train
from inkplex_data.trainer.run.processes.ranks import meet
from inkplex_data.trainer.run.run_options import RunOptions
from inkplex_data.trainer.run.train_config import TrainRecipe
torch.set_num_threads(1)
rank = int(os.environ["RANK"])

def hang(patience_s):
    with meet("cpu", patience_s=patience_s) as ranks:
        for what in ("reads a slow disk", "sleeps"):
            ranks.wait()
            if rank == 1:
                ranks.doing(what)
                if what == "sleeps":  # Not even its threads go on.
                    subprocess.Popen(["sh", "-c", f"kill -STOP {os.getpid()}; sleep 4; kill -CONT {os.getpid()}"])
                time.sleep(4)
            ranks.wait()

for job in json.loads(sys.argv[1]):
    os.environ["MASTER_PORT"] = str(job["port"])
    try:
        if "hang" in job:
            hang(job["hang"])
            continue
        recipe, options = TrainRecipe.model_validate(job["recipe"]), RunOptions(**job["options"])
        summary = train(recipe, job["store"], Path(job["run"][rank % len(job["run"])]), options)
        print(json.dumps({"update": summary.update}), flush=True)
    except InkplexError as error:
        print(json.dumps({"kind": type(error).__name__, "error": str(error)}), flush=True)
"""


def job(recipe: Any, store: Any, *runs: Any, **options: Any) -> dict[str, Any]:
    """A run for `processes`. runs: the folder of each rank, or of all."""
    stores = [str(one) for one in store] if isinstance(store, list) else str(store)
    return {
        "recipe": recipe.model_dump(mode="json"),
        "store": stores,
        "run": [str(run) for run in runs],
        "options": {**OPTIONS, **options},
    }


def processes(world_size: int, jobs: list[dict[str, Any]]) -> tuple[list[list[dict[str, Any]]], list[str]]:
    """Make runs one after the other in the same processes: (outcomes by job and rank, what each rank complained)."""
    ended = _ended(world_size, jobs)
    for code, _, complaint in ended:
        assert code == 0, complaint
    told = [[json.loads(line) for line in out.splitlines() if line.startswith("{")] for _, out, _ in ended]
    return [list(outcomes) for outcomes in zip(*told, strict=True)], [complaint for *_, complaint in ended]


def killed(world_size: int, jobs: list[dict[str, Any]], *, before: str) -> tuple[list[int], list[str]]:
    """The same with `before` in front of the script, which kills one of them: (exit codes, what each rank said)."""
    ended = _ended(world_size, jobs, before)
    return [code for code, *_ in ended], [out + complaint for _, out, complaint in ended]


def _ended(world_size: int, jobs: list[dict[str, Any]], before: str = "") -> list[tuple[int, str, str]]:
    """Exit code, output and complaints of each rank."""
    jobs = [{**one, "port": _free_port()} for one in jobs]
    common = {"WORLD_SIZE": world_size, "MASTER_ADDR": "127.0.0.1", "PYTHONPATH": ROOT, "OMP_NUM_THREADS": 1}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", before + SCRIPT, json.dumps(jobs)],
            env={**os.environ, **{key: str(value) for key, value in common.items()}, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world_size)
    ]
    ended = []
    try:
        for process in started:
            out, complaint = process.communicate(timeout=600)
            ended.append((process.returncode, out, complaint))
    finally:
        for process in started:
            process.kill()
    return ended


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
