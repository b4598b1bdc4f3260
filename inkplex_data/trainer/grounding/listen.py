"""Writes what was generated as WAV files, and hears it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.atomic import replacing
from inkplex_data.audio.files.write_audio import write_wav_into
from inkplex_data.clock import FRAME_SAMPLES, SAMPLE_RATE_HZ
from inkplex_data.grid import CODEBOOKS, PAD
from inkplex_data.speech.check.scorer import WhisperScorer
from inkplex_data.speech.prefix import SILENCE_FRAMES
from inkplex_data.trainer.evaluate.generate import Generator
from inkplex_data.trainer.evaluate.render import decode_stereo, folder_name
from inkplex_data.trainer.grounding.ground import Run
from inkplex_data.trainer.grounding.heard import heard, summarise_heard


class Listener:
    """Keeps every generated run as `CALL.SYSTEM.BRANCH.wav` in a folder, agent left and caller right, and hears the agent.

    Runs that say the same in every frame share a file: branches that a system does not read are heard once.
    """

    def __init__(self, generator: Generator, folder: Path, model: str) -> None:
        self.generator, self.folder = generator, folder
        self.rows: list[dict[str, object]] = []
        self.files: list[dict[str, str]] = []
        self._scorer = WhisperScorer(model)
        self._known: dict[str, tuple[str, dict[str, float | int | None]]] = {}
        self._voices: dict[str, NDArray[np.float32] | None] = {}

    def keep(self, run: Run) -> None:
        """Take a run; one that was not generated is passed over."""
        if run.replayed is None:
            return
        call, plan = run.case.call, run.replayed.plan
        where = {"call_id": call.call_id, "system": run.system, "branch": run.branch.name}
        digest = hashlib.sha256(call.call_id.encode() + run.replayed.ids.tobytes()).hexdigest()
        if digest not in self._known:
            stereo = decode_stereo(self.generator.codec, run.replayed)
            name = f"{folder_name(call.call_id)}.{folder_name(run.system)}.{folder_name(run.branch.name)}.wav"
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.folder / name) as file:
                write_wav_into(file, np.clip(stereo, -1, 1), SAMPLE_RATE_HZ, where=name)
            own = stereo[0, (plan.free - plan.first) * FRAME_SAMPLES :]
            said = [(at - run.free_us, text) for at, text in run.said]
            self._known[digest] = name, heard(own, said, self._voice(run), self._scorer)
        name, measured = self._known[digest]
        self.files.append({**where, "file": name})
        self.rows.append({**where, "origin": call.row.get("agent_origin"), **measured})

    def _voice(self, run: Run) -> NDArray[np.float32] | None:
        """The voice sample of the call's prefix: what the agent's side holds before the first silence."""
        prefix = run.case.call.with_prefix().prefix
        if not prefix.frames or not prefix.row.get("voice"):
            return None
        key = str(prefix.row["prefix_id"])
        if key not in self._voices:
            spoken = np.flatnonzero(prefix.stored["text"] != PAD)
            first_role = int(spoken[0]) if len(spoken) else prefix.frames - SILENCE_FRAMES
            voice = prefix.stored["codes"][: max(first_role - SILENCE_FRAMES, 0), :CODEBOOKS]
            self._voices[key] = self.generator.codec.decode(voice.T) if len(voice) else None
        return self._voices[key]

    def summary(self) -> pl.DataFrame:
        """`heard.HEARD_SUMMARY` of all that was kept."""
        return summarise_heard(self.rows)
