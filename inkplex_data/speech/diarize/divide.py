"""One channel to a stereo file, its turns and a sidecar that says how they were made."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inkplex_data.atomic import together
from inkplex_data.audio.call_audio import ChannelRef
from inkplex_data.audio.call_scan import SIDES, report_length
from inkplex_data.audio.files.write_audio import write_wav_into
from inkplex_data.audio.resample import resample
from inkplex_data.clock import us_to_seconds
from inkplex_data.problems import ProblemLog
from inkplex_data.speech.diarize.diarizer import RATE_HZ, Diarizer
from inkplex_data.speech.diarize.speaker_turns import SpeakerTurn, read_rttm, rttm_text
from inkplex_data.speech.diarize.streams import Inactive, TwoStreams, main_speaker, two_streams


@dataclass(frozen=True)
class Divided:
    """The files that `divide` wrote, and what it found."""

    audio: Path
    rttm: Path
    sidecar: Path
    turns: list[SpeakerTurn]
    streams: TwoStreams
    samples: int
    sample_rate_hz: int


def divide(
    ref: ChannelRef,
    out: Path,
    *,
    diarizer: Diarizer | None,
    rttm: Path | None = None,
    only_named: bool = False,
    call_id: str,
    main: str = "most",
    inactive: Inactive = "zero",
    seed: int = 0,
    log: ProblemLog | None = None,
) -> Divided:
    """Write `out`.wav (left agent, right caller; float, at the file's own rate), `out`.rttm, `out`.sidecar.json.

    The audio appears last and together with the others, so that no reader finds it without what is said of it.
    The turns come from `rttm` where given (those of the audio file's name, and with `only_named` no others),
    else from `diarizer`. Overlap carries no audio loss, since one stream
    then holds both voices and the other neither; nor do spans that the file lacks. The number of samples stays as it
    is. What there is to say about the file's length and holes goes to `log`.
    Raises CallRefused: what decoding raises, audio-damaged, speakers-not-found; any repair too where the log is strict.
    """
    rate_hz = ref.source.sample_rate_hz
    reader = ref.source.blocks()
    samples = np.concatenate([np.zeros(0, np.float32), *(block[ref.channel_index] for block in reader)])
    report_length(ref.source, reader, log or ProblemLog(call_id))
    if rttm is not None:
        turns, name = read_rttm(rttm, ref.path.stem, only=only_named), "rttm"
    else:
        assert diarizer is not None
        turns, name = diarizer.turns(resample(samples, rate_hz, RATE_HZ)), diarizer.name
    chosen = main_speaker(turns, main, seed=seed, key=call_id)
    streams = two_streams(samples, rate_hz, turns, chosen, inactive=inactive, seed=seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    audio = out.with_name(f"{out.name}.wav")
    labels = out.with_name(f"{out.name}.rttm")
    sidecar = out.with_name(f"{out.name}.sidecar.json")
    settings: dict[str, Any] = {
        "diarizer": name,
        "main": main,
        "main_speaker": chosen,
        "inactive": inactive,
        "seed": seed,
        "overlap_s": [[us_to_seconds(int(a)), us_to_seconds(int(b))] for a, b in streams.overlap],
    }
    masks = {
        "excluded": [
            {"start_s": start, "end_s": end, "modality": side, "reason": "uncertain"}
            for side in SIDES
            for start, end in settings["overlap_s"]
        ]
        + [
            {"start_s": start / rate_hz, "end_s": end / rate_hz, "modality": modality, "reason": "missing"}
            for modality in ("text", *SIDES)
            for start, end in reader.holes
        ]
    }
    with together(last=audio) as new:
        new(labels).write(rttm_text(turns, call_id).encode())
        about, sound = new(sidecar), new(audio)
        stereo = np.stack([streams.agent, streams.caller]).astype(np.float32)
        write_wav_into(sound, stereo, rate_hz, subtype="FLOAT", where=str(audio))
        sound.seek(0)
        sha256 = hashlib.file_digest(sound, "sha256").hexdigest()  # type: ignore[arg-type]  # BinaryIO is narrower
        document = sidecar_document(
            call_id, audio, settings, sha256=sha256, samples=len(samples), rate_hz=rate_hz
        )
        about.write(json.dumps(document | {"masks": masks}, ensure_ascii=False, indent=1).encode())
    return Divided(audio, labels, sidecar, turns, streams, len(samples), rate_hz)


def sidecar_document(
    call_id: str, audio: Path, settings: dict[str, Any], *, sha256: str, samples: int, rate_hz: int
) -> dict[str, Any]:
    """An `inkplex/sidecar@1` whose two channels are constructed."""
    return {
        "schema": "inkplex/sidecar@1",
        "identity": {"clip_id": call_id},
        "audio": {
            "path": audio.name,
            "sha256": sha256,
            "sample_rate_hz": rate_hz,
            "samples": samples,
            "agent": {"index": 0, "origin": "constructed"},
            "caller": {"index": 1, "origin": "constructed"},
            "transforms": [{"name": "diarize", "settings": settings}],
        },
    }
