"""The files of the corpus: audio, words, sidecars, recordings, and the two inventories."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile
from numpy.typing import NDArray

from corpus_maker.call import STEP, Turn
from corpus_maker.scene import TRANSCRIPT_LAG_US, Scene
from corpus_maker.studio import DESK_HZ, TELEPHONE_HZ
from corpus_maker.work import (
    PREFILL_BLOCK_US,
    PREFILL_TOKENS,
    PREFILL_US,
    TOKENIZER,
    TOKENS_PER_S,
    Segment,
    Work,
)
from inkplex_data.clock import FRAME_US, SAMPLE_RATE_HZ

MODEL: Final = "scripted"
EVIDENCE: Final = ("tool_call", "tool_result")


def write_corpus(scenes: list[Scene], folder: Path, *, method: str) -> None:
    """Write all scenes under `folder`. `method` says where the word times come from."""
    for name in ("calls", "recordings"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    works = {scene.work.name: scene.work for scene in scenes}
    digests = {name: _write_recording(work, folder / recording_path(name)) for name, work in works.items()}
    manifest, inventory = [], []
    for scene in scenes:
        audio = folder / "calls" / f"{scene.id}.flac"
        samples = scene.call.render(scene.duration_us)
        soundfile.write(
            audio, samples, SAMPLE_RATE_HZ, format="FLAC", subtype="PCM_16", compression_level=1.0
        )
        _write_json(audio.with_suffix(".json"), alignment_file(scene, method))
        sidecar = sidecar_of(scene, samples, _sha256(audio), digests[scene.work.name], method)
        _write_json(audio.with_suffix(".sidecar.json"), sidecar)
        manifest.append(manifest_entry(scene, len(samples)))
        inventory.append({"path": f"calls/{scene.id}.flac", "duration": len(samples) / SAMPLE_RATE_HZ})
    _write_lines(folder / "manifest.jsonl", manifest)
    _write_lines(folder / "moshi.jsonl", inventory)


def recording_path(name: str) -> str:
    """Where a recording lies, relative to the corpus."""
    return f"recordings/{name}.recording.jsonl"


def manifest_entry(scene: Scene, samples: int) -> dict[str, Any]:
    """A line of `manifest.jsonl`."""
    return {
        "id": scene.id,
        "path": f"calls/{scene.id}.flac",
        "words": f"calls/{scene.id}.json",
        "sidecar": f"calls/{scene.id}.sidecar.json",
        "recording": recording_path(scene.work.name),
        "recording_starts_at": _s(scene.starts_us),
        "family": scene.family,
        "split": scene.split,
        "role": scene.role,
        "voice": scene.voice,
        "duration": samples / SAMPLE_RATE_HZ,
    }


def alignment_file(scene: Scene, method: str) -> dict[str, Any]:
    """Word JSON in the layout of Moshi fine-tuning. The caller's words carry another label than the agent's."""
    alignments = [[text, [_s(start), _s(end)], label] for text, start, end, label in scene.call.alignments()]
    conditions = {} if scene.text_conditions is None else {"text_conditions": scene.text_conditions}
    return {"alignments": alignments, "method": method, **conditions}


def sidecar_of(
    scene: Scene, samples: NDArray[np.int16], audio_sha256: str, recording_sha256: str, method: str
) -> dict[str, Any]:
    """The sidecar: groups of seeds/000, "Minimal dataset and private stream contract"; times on the call's clock."""
    agent = [turn for turn in scene.call.turns if turn.side == "agent"]
    segments = scene.work.segments()
    return {
        "schema": "inkplex/sidecar@1",
        "identity": {
            "clip_id": scene.id,
            "source_id": scene.work.name,
            "conversation_id": scene.id,
            "family": scene.family,
            "split": scene.split,
            "references": [{"path": f"../{recording_path(scene.work.name)}", "sha256": recording_sha256}],
        },
        "audio": {
            "path": f"{scene.id}.flac",
            "sha256": audio_sha256,
            "sample_rate_hz": SAMPLE_RATE_HZ,
            "samples": len(samples),
            "agent": {"index": 0, "origin": "synthetic", "voice": scene.call.agent_voice},
            "caller": {"index": 1, "origin": "synthetic", "voice": scene.call.caller_voice},
            "transforms": [
                {"name": "line", "settings": {"agent_hz": DESK_HZ, "caller_hz": TELEPHONE_HZ}},
                {"name": "quantise", "settings": {"step": STEP}},
            ],
        },
        "words": {
            "transcript": " ".join(turn.said for turn in agent),
            "items": [
                {"text": text, "start_s": _s(start), "end_s": _s(end), "speaker": label}
                for text, start, end, label in scene.call.alignments()
            ],
            "method": method,
            "provenance": "the script that was synthesised",
            "mismatch": "none",
        },
        "prompt": {"role": scene.role, "voice": scene.voice},
        "reasoning_model": {"model": MODEL, "tokenizer": TOKENIZER},
        "private_updates": {
            "mapping": {
                "kind": "constructed",
                "recording_starts_at_s": _s(scene.starts_us),
                "note": "session and call follow one scripted clock",
            },
            "updates": [
                {
                    "id": segment.id,
                    "rows": list(scene.work.row_of(segment)),
                    **_times(scene, segment),
                    "source_events": [segment.id] if segment.kind in EVIDENCE else [],
                }
                for segment in segments
            ],
        },
        "evidence": {
            "items": [
                {
                    "id": segment.id,
                    "kind": segment.kind,
                    **_times(scene, segment),
                    "reference": f"{recording_path(scene.work.name)}#{segment.id}",
                    "status": _status(scene, segment),
                    "attribution": "reconstruction",
                    **(
                        {"superseded_by": scene.superseded[segment.id]}
                        if segment.id in scene.superseded
                        else {}
                    ),
                }
                for segment in segments
                if segment.kind in EVIDENCE
            ],
            "claims": [
                {
                    "text": turn.said,
                    "start_s": _s(turn.start_us),
                    "end_s": _s(turn.end_us),
                    "supported_by": list(turn.supported_by),
                }
                for turn in agent
                if turn.supported_by
            ],
        },
        "targets": {
            "items": [
                {
                    "text": turn.said,
                    "start_s": _s(turn.start_us),
                    "end_s": _s(turn.end_us),
                    "decision": "speak",
                    "status": "interrupted" if turn.interrupted else "complete",
                    "writer": "script",
                }
                for turn in agent
            ],
            "response_start_s": None if scene.response is None else _s(scene.response.start_us),
        },
        "history": {
            "begins": "conversation",
            "segments": [_history(turn, number) for number, turn in enumerate(agent, 1)],
        },
        "masks": {
            "excluded": [
                *(_excluded("caller", start, end, "missing") for start, end in scene.missing_caller),
                *(_excluded("text", *_cut_word(turn), "cut_word") for turn in agent if turn.interrupted),
            ],
        },
    }


def _status(scene: Scene, segment: Segment) -> str:
    return (
        "failed"
        if segment.id in scene.failed
        else "superseded"
        if segment.id in scene.superseded
        else "succeeded"
    )


def _times(scene: Scene, segment: Segment) -> dict[str, float]:
    return {
        "available_at_s": _s(segment.available_us - scene.starts_us),
        "ready_at_s": _s(segment.arrival_us - scene.starts_us),
    }


def _history(turn: Turn, number: int) -> dict[str, Any]:
    """What became of a turn. No playback device confirmed anything, so what was played stays unknown."""
    cancelled = [_span(turn.end_us, turn.planned_end_us)] if turn.interrupted else []
    return {
        "id": f"agent-{number}",
        "text": turn.text,
        "source": "teacher",
        "generated": [_span(turn.start_us, turn.planned_end_us)],
        "queued": None,
        "played": None,
        "cancelled": cancelled,
    }


def _cut_word(turn: Turn) -> tuple[int, int]:
    """Whole frames of the word that was broken off: its text is certain, what was heard of it is not."""
    word = turn.words[-1]
    return word.start_us // FRAME_US * FRAME_US, -(-word.end_us // FRAME_US) * FRAME_US


def _excluded(modality: str, start_us: int, end_us: int, reason: str) -> dict[str, Any]:
    return {"modality": modality, **_span(start_us, end_us), "reason": reason}


def _span(start_us: int, end_us: int) -> dict[str, float]:
    return {"start_s": _s(start_us), "end_s": _s(end_us)}


def _write_recording(work: Work, path: Path) -> str:
    """Header and one line per model request; returns the sha256 of the file."""
    header: dict[str, Any] = {
        "schema": "inkplex/recording@1",
        "recording": work.name,
        "model": MODEL,
        "tokenizer": TOKENIZER,
        "times": "constructed",
        "schedule": {
            "tokens_per_s": TOKENS_PER_S,
            "prefill_s": _s(PREFILL_US),
            "prefill_block_tokens": PREFILL_TOKENS,
            "prefill_block_s": _s(PREFILL_BLOCK_US),
            "transcript_lag_s": _s(TRANSCRIPT_LAG_US),
        },
        "provenance": {"made_by": "examples/make_corpus.py", "licence": "Apache-2.0"},
    }
    if work.branch_of is not None:
        header["branch_of"] = {"recording": work.branch_of[0], "at": _s(work.branch_of[1])}
    lines = [header]
    for request in work.requests:
        cached = None if request.cached is None else {"call": request.cached[0], "tokens": request.cached[1]}
        tokens = [token.to_json() for token in request.tokens]
        lines.append({"call": request.index, "cached": cached, "tokens": tokens})
    _write_lines(path, lines)
    return _sha256(path)


def _write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(_readable(value) + "\n", encoding="utf-8")


def _readable(value: Any, depth: int = 0) -> str:
    """JSON with one line for everything that fits in one."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or len(line) + depth <= 110 or not value:
        return line
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        inner = [f"{pad}{json.dumps(key)}: {_readable(item, depth + 1)}" for key, item in value.items()]
    else:
        inner = [pad + _readable(item, depth + 1) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + "\n" + ",\n".join(inner) + "\n" + " " * depth + closing


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _s(us: int) -> float:
    return us / 1_000_000
