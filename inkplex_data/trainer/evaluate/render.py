"""Generated calls as files: stereo WAV, agent left and caller right, and a JSON of what was said when."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inkplex_data.atomic import json_bytes, together
from inkplex_data.audio.files.write_audio import write_wav_into
from inkplex_data.clock import FRAME_US, SAMPLE_RATE_HZ, seconds_to_us, us_to_seconds
from inkplex_data.corpus.assemble import SIDECAR_SUFFIX
from inkplex_data.corpus.fields import Interval
from inkplex_data.corpus.sidecars.history_models import History, HistorySegment, PlaybackAck
from inkplex_data.corpus.sidecars.sidecar_models import Audio, Channel, Identity, Sidecar
from inkplex_data.grid import AUDIO_CARD
from inkplex_data.speech.codec import codec_of
from inkplex_data.speech.prefix import SILENCE_CODES, codec_is_released, silence_chunks
from inkplex_data.trainer.evaluate.replay import Replayed, ReplayOptions
from inkplex_data.trainer.evaluate.said_words import SpokenWord, spoken_words

if TYPE_CHECKING:
    from inkplex_data.speech.codec_stream import Codec
    from inkplex_data.store.reader import Store

SCHEMA = "inkplex/generation@1"
AGENT_LABEL = "SPEAKER_MAIN"


def store_codec(store: Store, spec: str | None = None, *, device: str = "cpu") -> Codec:
    """The codec that made a store's codes. `spec` says where its weights are now; the store's id by default.

    Raises ConfigError for weights that are not the store's.
    """
    return codec_of(store.description["codec"], spec, device=device, where=store.root)


def silence_codes(codec: Codec, frames: int) -> NDArray[np.uint16]:
    """Codes [frames, 8] of silence, as a prefix has them: fixed with the released weights, else encoded."""
    if not codec.identity.untrained and codec_is_released(codec.encode):
        return np.tile(np.array(SILENCE_CODES, np.uint16), (frames, 1))
    return codec.encode(silence_chunks(frames))


def words_of(replayed: Replayed, pieces: list[str]) -> list[SpokenWord]:
    """All words of a replay's text stream, forced ones included; frames count from the call's start."""
    return spoken_words(replayed.text.tolist(), pieces, first_frame=replayed.plan.first)


def generation_json(
    call_id: str,
    memory: str,
    replayed: Replayed,
    pieces: list[str],
    *,
    options: ReplayOptions,
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    """What a generation's JSON holds. `alignments` is in the layout of Moshi fine-tuning, relative to the WAV;
    `words` are on the call's clock, in seconds. A word lasts from its first piece's frame to the end of
    its last one's. `provenance` is what made it."""
    plan, words = replayed.plan, words_of(replayed, pieces)
    said = [word for word in words if word.start >= plan.free]
    begins_us = plan.first * FRAME_US
    return {
        "schema": SCHEMA,
        "call_id": call_id,
        "memory": memory,
        "text": " ".join(word.text for word in said),
        "words": [
            {
                "text": word.text,
                "start_s": us_to_seconds(word.start_us),
                "end_s": us_to_seconds(word.end_us),
                "generated": word.start >= plan.free,
            }
            for word in words
        ],
        "alignments": [
            [
                word.text,
                [us_to_seconds(word.start_us - begins_us), us_to_seconds(word.end_us - begins_us)],
                AGENT_LABEL,
            ]
            for word in words
        ],
        "starts_s": us_to_seconds(begins_us),
        "free_from_s": us_to_seconds(plan.free * FRAME_US),
        "ends_s": us_to_seconds(plan.stop * FRAME_US),
        "text_ids": replayed.text[plan.free - plan.first :].tolist(),
        "options": asdict(options),
        **provenance,
    }


def receipt(name: str, document: Mapping[str, Any], samples: int) -> Sidecar:
    """What became of the agent's speech in a generation of `samples` at 24 kHz, in the schema of a call's sidecar: the
    opening is a teacher's, the rest was generated and rendered into a file, which is no evidence that anybody heard it
    (seeds/000, "Playback and feedback"). Times count from the file's first sample.
    """
    begins_s, free_s, ends_s = (document[key] for key in ("starts_s", "free_from_s", "ends_s"))
    free_us, ends_us = (seconds_to_us(at) - seconds_to_us(begins_s) for at in (free_s, ends_s))
    forced = " ".join(word["text"] for word in document["words"] if not word["generated"])
    segments = [
        HistorySegment(id="opening", text=forced, source="teacher", generated=_spans(0, free_us)),
        HistorySegment(
            id="generation",
            text=document["text"],
            source="agent_output",
            generated=_spans(free_us, ends_us),
            queued=[],
            played=None,
            cancelled=[],
            playback_ack=PlaybackAck(observation="local_render", at_s=us_to_seconds(ends_us)),
        ),
    ]
    return Sidecar(
        schema_="inkplex/sidecar@1",
        identity=Identity(clip_id=f"{document['call_id']}~{name}", source_id=document["call_id"]),
        audio=Audio(
            path=f"{name}.wav",
            sample_rate_hz=SAMPLE_RATE_HZ,
            samples=samples,
            agent=Channel(index=0, origin="actual_model_output"),
            caller=Channel(index=1),
        ),
        history=History(begins="cut" if begins_s else "conversation", segments=segments[not free_us :]),
    )


def _spans(start_us: int, end_us: int) -> list[Interval]:
    return [Interval(start_s=us_to_seconds(start_us), end_s=us_to_seconds(end_us))]


def decode_stereo(codec: Codec, replayed: Replayed) -> NDArray[np.float32]:
    """float32 [2, samples] at 24 kHz, agent then caller. Ids that are no codes are decoded as 0."""
    sides = (replayed.agent, replayed.caller)
    return np.stack([codec.decode(np.where((side < 0) | (side >= AUDIO_CARD), 0, side)) for side in sides])


def write_generation(
    folder: Path, name: str, document: Mapping[str, Any], audio: NDArray[np.float32] | None
) -> list[Path]:
    """`NAME.json` and, with audio, `NAME.wav` and its receipt `NAME.sidecar.json` in `folder`, together; returns their
    paths. With audio the folder can be read as a corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    sound, said, told = (folder / f"{name}{suffix}" for suffix in (".wav", ".json", SIDECAR_SUFFIX))
    with together(last=said) as new:
        if audio is not None:
            write_wav_into(new(sound), np.clip(audio, -1, 1), SAMPLE_RATE_HZ, where=str(sound))
            sidecar = receipt(name, document, audio.shape[1])
            new(told).write(json_bytes(sidecar.model_dump(mode="json", by_alias=True), indent=1))
        new(said).write(json_bytes(document, indent=1))
    return [said] if audio is None else [sound, told, said]


def folder_name(call_id: str) -> str:
    """A folder name for a call: its id where that is plain, else its plain part and a digest of all of it."""
    if re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", call_id):
        return call_id
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", call_id).strip("-")[:60] or "call"
    return f"{plain}-{hashlib.sha256(call_id.encode()).hexdigest()[:12]}"
