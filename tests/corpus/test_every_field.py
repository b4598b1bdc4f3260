"""Every field of the sidecar is read by something: what changes in a store when that field alone is another.

A new field needs a row in `ROWS` that names what reads it, or one in `KEPT` that says what it is stored for.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, get_args

import polars as pl
import pytest

from inkplex_data.audit.sidecar_evidence import audit_sidecar
from inkplex_data.config.recipe import load_recipe
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.fields import Interval, Model
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.recordings.states_identity import STREAMS
from inkplex_data.corpus.sidecars.clip_time import TIMES
from inkplex_data.corpus.sidecars.loss_mask import frame_mask
from inkplex_data.corpus.sidecars.model_check import ReadModel, model_faults
from inkplex_data.corpus.sidecars.playback import history_row
from inkplex_data.corpus.sidecars.sidecar import heard_spans, read_sidecar
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.errors import CallRefused, CausalityError
from inkplex_data.memory.permissions import permitted_tokens
from inkplex_data.pipeline.calls.build_call import response_frame, told_columns
from inkplex_data.pipeline.calls.evidence_tables import claims_table, evidence_table
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import ScanJob, scan_call
from inkplex_data.pipeline.stage import Build
from tests.pipeline.conftest import write_call, write_manifest

SECONDS: Final = 2.5
FRAMES: Final = 32

# What reads a field: `entry` (the call's row: family, split, voice, role, channels, start on the session clock),
# `refused` (the call is not built), `noted` (a problem is listed), `words` (the words table), `mask` (the loss mask),
# `columns` (of the calls table), `audit` (the proof fails), `heard` (what counts as heard), `evidence` (the tables of
# evidence and claims), `permitted` (which tokens a frame may see), `model` (whether the recording is another's), `history`
# (the column of that name).
ROWS: Final[dict[str, tuple[str, Any]]] = {
    "schema": ("refused", "inkplex/sidecar@9"),
    "identity.clip_id": ("noted", "another"),
    "identity.source_id": ("entry", "another"),
    "identity.conversation_id": ("entry", "another"),
    "identity.family": ("entry", "another"),
    "identity.split": ("entry", "test"),
    "identity.references[].path": ("noted", "nowhere.txt"),
    "identity.references[].sha256": ("refused", "0" * 64),
    "audio.path": ("refused", "other.wav"),
    "audio.sha256": ("refused", "0" * 64),
    "audio.sample_rate_hz": ("refused", 16_000),
    "audio.samples": ("refused", 5),
    "audio.offset_s": ("words", 0.2),
    "audio.times": ("words", "clip"),
    "audio.agent.index": ("entry", 1),
    "audio.agent.origin": ("columns", "synthetic"),
    "audio.agent.voice": ("refused", "bob"),
    "audio.caller.index": ("entry", 0),
    "audio.caller.origin": ("mask", "missing"),
    "words.transcript": ("noted", "something else"),
    "words.items[].text": ("words", "Bad"),
    "words.items[].start_s": ("words", 0.25),
    "words.items[].end_s": ("words", 0.45),
    "words.items[].speaker": ("words", "SPEAKER_CALLER"),
    "words.items[].confidence": ("words", 0.5),
    "words.items[].uncertainty_s": ("mask", 0.75),
    "words.items[].mismatch": ("mask", False),
    "words.main_speaker": ("noted", "SPEAKER_CALLER"),
    "words.method": ("words", "by ear"),
    "words.provenance": ("words", "a script"),
    "words.mismatch": ("refused", "none"),
    "words.mismatches": ("mask", []),
    "prompt.role": ("entry", "You are rude."),
    "prompt.voice": ("refused", "bob"),
    "prompt.voice_prompt.path": ("noted", "nowhere.wav"),
    "prompt.voice_prompt.sha256": ("refused", "0" * 64),
    "private_updates.mapping.recording_starts_at_s": ("entry", 4.0),
    "private_updates.updates[].id": ("refused", "u9"),
    "private_updates.updates[].available_at_s": ("audit", 1.7),
    "private_updates.updates[].ready_at_s": ("audit", 1.7),
    "private_updates.updates[].rows": ("audit", [0, 9]),
    "private_updates.updates[].source_events": ("audit", ["late"]),
    "evidence.items[].id": ("refused", "e9"),
    "evidence.items[].available_at_s": ("audit", 1.7),
    "evidence.items[].ready_at_s": ("audit", 1.7),
    "evidence.items[].kind": ("evidence", "tool_error"),
    "evidence.items[].reference": ("evidence", "another"),
    "evidence.items[].status": ("evidence", "failed"),
    "evidence.items[].attribution": ("evidence", "execution"),
    "evidence.items[].superseded_by": ("evidence", None),
    "evidence.claims[].text": ("evidence", "another"),
    "evidence.claims[].start_s": ("evidence", 0.15),
    "evidence.claims[].end_s": ("evidence", 1.1),
    "evidence.claims[].supported_by": ("evidence", ["late"]),
    "targets.items[].audio.path": ("noted", "nowhere.wav"),
    "targets.items[].audio.sha256": ("refused", "0" * 64),
    "targets.items[].decision": ("columns", "quiet"),
    "targets.items[].status": ("columns", "interrupted"),
    "targets.items[].writer": ("columns", "someone"),
    "targets.response_start_s": ("columns", 1.5),
    "history.segments[].id": ("heard", "h9"),
    "history.segments[].played": ("heard", None),
    "history.segments[].playback_ack.observation": ("heard", "none"),
    "masks.valid.text": ("mask", [{"start_s": 0.6, "end_s": 2.6}]),
    "masks.valid.agent": ("mask", [{"start_s": 0.6, "end_s": 2.6}]),
    "masks.valid.caller": ("mask", [{"start_s": 0.6, "end_s": 2.6}]),
    "masks.excluded[].start_s": ("mask", 2.1),
    "masks.excluded[].end_s": ("mask", 2.3),
    "masks.excluded[].modality": ("mask", "text"),
    "masks.permitted_updates[].update": ("refused", "u9"),
    "masks.permitted_updates[].start_s": ("permitted", 0.7),
    "masks.permitted_updates[].end_s": ("permitted", 1.9),
    "prompt.past[].speaker": ("entry", "agent"),
    "prompt.past[].text": ("entry", "Hello."),
    "reasoning_model.model": ("model", "another"),
    "reasoning_model.tokenizer": ("model", "3" * 64),
    "reasoning_model.runtime_profile": ("model", "another"),
    "reasoning_model.input_sha256": ("model", "3" * 64),
    "reasoning_model.states[].sha256": ("model", "3" * 64),
    "reasoning_model.states[].dtype": ("model", "float32"),
    "reasoning_model.states[].shape": ("model", [2, 3, 9]),
    "reasoning_model.states[].streams": ("model", ["final_normalized"]),
    "history.segments[].text": ("history", "another"),
    "history.segments[].source": ("history", "teacher"),
    "history.segments[].generated": ("history", None),
    "history.segments[].queued": ("history", None),
    "history.segments[].cancelled": ("history", None),
    "history.segments[].playback_ack.device": ("history", "another"),
    "history.segments[].playback_ack.at_s": ("history", 2.0),
    "history.segments[].cut": ("history", True),
}

KEPT: Final[dict[str, str]] = {
    "audio.caller.voice": "who is heard, for dividing evaluations by speaker",
    "audio.transforms[].name": "what was done to the sound; a store's own changes are added behind",
    "audio.transforms[].seed": "to do it again",
    "audio.transforms[].settings": "to do it again",
    "prompt.voice_segment.call": "gives the prefix's voice in place of `voice_prompt`",
    "prompt.voice_segment.start_s": "gives the prefix's voice in place of `voice_prompt`",
    "prompt.voice_segment.end_s": "gives the prefix's voice in place of `voice_prompt`",
    "reasoning_model.states[].path": "where the states were; the recording names its own",
    "private_updates.mapping.kind": "whether the clock was measured or made",
    "private_updates.mapping.note": "for people",
    "targets.items[].text": "the words to teach, before they were spoken",
    "targets.items[].start_s": "where they are",
    "targets.items[].end_s": "where they are",
    "targets.items[].cut": "whether a crop left all of them",
    "history.begins": "whether the conversation began before the clip",
    "history.sha256": "what the history was before a crop",
    "masks.excluded[].reason": "why, for people",
}


def fields(model: type[Model], place: str = "") -> Iterator[str]:
    """Every field that holds a value, by its place; a stretch of time is one value."""
    for name, field in model.model_fields.items():
        own = place + (field.alias or name)
        inner = next(iter(_models(field.annotation)), None)
        if inner is None or inner is Interval:
            yield own
        else:
            yield from fields(inner, own + ("[]." if "list[" in str(field.annotation) else "."))


def _models(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One call without its own words, and the files that its sidecar names."""
    folder = tmp_path_factory.mktemp("fields")
    write_call(folder, "c", 0, SECONDS)
    (folder / "c.json").unlink()
    for name in ("c.recording.jsonl", "source.txt", "voice.txt", "target.txt"):
        (folder / name).write_text(name)
    return write_manifest(folder, [{"id": "c", "path": "c.wav"}])


def true_sidecar(folder: Path) -> dict[str, Any]:
    """All fields, none of them false. The clip begins 0.1 s into its source, whose clock all times are on."""

    def named(name: str) -> dict[str, str]:
        return {"path": name, "sha256": sha256(folder / name)}

    span = [{"start_s": 0.1, "end_s": 2.6}]
    return {
        "schema": "inkplex/sidecar@1",
        "identity": {
            "clip_id": "c",
            "source_id": "s",
            "conversation_id": "v",
            "family": "f",
            "split": "train",
            "references": [named("source.txt")],
        },
        "audio": {
            "path": "c.wav",
            "sha256": sha256(folder / "c.wav"),
            "sample_rate_hz": 24_000,
            "samples": int(SECONDS * 24_000),
            "offset_s": 0.1,
            "times": "source",
            "agent": {"index": 0, "origin": "recorded", "voice": "amy"},
            "caller": {"index": 1, "origin": "recorded", "voice": "cid"},
            "transforms": [{"name": "gain", "seed": 1, "settings": {"db": 2}}],
        },
        "words": {
            "transcript": "Good morning",
            "items": [
                {
                    "text": "Good",
                    "start_s": 0.3,
                    "end_s": 0.5,
                    "speaker": "SPEAKER_MAIN",
                    "confidence": 0.9,
                    "uncertainty_s": 0.01,
                    "mismatch": True,
                },
                {"text": "morning", "start_s": 0.9, "end_s": 1.2, "speaker": "SPEAKER_MAIN"},
                {"text": "Hello?", "start_s": 1.4, "end_s": 1.6, "speaker": "SPEAKER_CALLER"},
            ],
            "main_speaker": "SPEAKER_MAIN",
            "method": "aligned",
            "provenance": "a person",
            "mismatch": "known",
            "mismatches": [{"start_s": 1.8, "end_s": 1.9}],
        },
        "prompt": {
            "role": "You are kind.",
            "voice": "amy",
            "voice_prompt": named("voice.txt"),
            "past": [{"speaker": "caller", "text": "Hi."}],
        },
        "reasoning_model": {
            "model": "m",
            "tokenizer": "2" * 64,
            "runtime_profile": "r",
            "input_sha256": "1" * 64,
            "states": [
                {
                    "path": "x",
                    "sha256": "1" * 64,
                    "dtype": "bfloat16",
                    "shape": [2, 3, 8],
                    "streams": list(STREAMS),
                }
            ],
        },
        "private_updates": {
            "mapping": {"kind": "measured", "recording_starts_at_s": 3.0, "note": "n"},
            "updates": [
                {
                    "id": "u",
                    "available_at_s": 0.4,
                    "ready_at_s": 0.5,
                    "rows": [0, 2],
                    "source_events": ["e"],
                }
            ],
        },
        "evidence": {
            "items": [
                {
                    "id": "e",
                    "kind": "tool_result",
                    "reference": "r",
                    "status": "completed",
                    "attribution": "source",
                    "superseded_by": "late",
                    "available_at_s": 0.2,
                    "ready_at_s": 0.3,
                },
                {"id": "late", "kind": "statement", "available_at_s": 2.0},
            ],
            "claims": [{"text": "c", "start_s": 0.9, "end_s": 1.2, "supported_by": ["e"]}],
        },
        "targets": {
            "items": [
                {
                    "text": "Good morning",
                    "start_s": 0.3,
                    "end_s": 1.2,
                    "audio": named("target.txt"),
                    "decision": "speak",
                    "status": "complete",
                    "writer": "script",
                    "cut": False,
                }
            ],
            "response_start_s": 0.3,
        },
        "history": {
            "begins": "conversation",
            "sha256": "2" * 64,
            "segments": [
                {
                    "id": "h",
                    "text": "Hi",
                    "source": "agent_output",
                    "generated": span,
                    "queued": span,
                    "played": span,
                    "cancelled": [],
                    "playback_ack": {"observation": "playback_device", "device": "d", "at_s": 1.0},
                    "cut": False,
                }
            ],
        },
        "masks": {
            "valid": {"text": span, "agent": span, "caller": span},
            "excluded": [{"modality": "caller", "start_s": 2.2, "end_s": 2.5, "reason": "uncertain"}],
            "permitted_updates": [{"update": "u", "start_s": 0.6, "end_s": 2.0}],
        },
    }


def changed(document: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """A copy in which the field at `place`, of the first where there are several, is `value`."""
    document = copy.deepcopy(document)
    inner: Any = document
    *way, last = re.findall(r"\w+|\[\]", place)
    for step in way:
        inner = inner[0] if step == "[]" else inner[step]
    assert inner[last] != value
    inner[last] = value
    return document


TOKENS: Final = pl.DataFrame(
    {
        "call": [0, 0],
        "position": [0, 1],
        "kind": ["user", "user"],
        "special": [False, False],
        "bytes": [b"a", b"b"],
        "arrival_us": [3_450_000, 3_450_000],
    }
)


SAID: Final = (
    TimedWord("Good", 200_000, 400_000, "SPEAKER_MAIN", None, "given"),
    TimedWord("morning", 800_000, 1_100_000, "SPEAKER_MAIN", None, "given"),
)


READ: Final = ReadModel("m", f"t:{'2' * 64}", 2, "r", "1" * 64, 8, "bfloat16", ("1" * 64,))


def reading(manifest: Path, document: dict[str, Any], *, scan: bool) -> dict[str, Any]:
    """What a build makes of a sidecar, by who reads it. `scan`: decode the audio, too."""
    folder = manifest.parent
    (folder / "c.sidecar.json").write_text(json.dumps(document), encoding="utf-8")
    corpus = read_corpus(manifest)
    if corpus.refused:
        return {"refused": [problem.code for problem in corpus.refused]}
    (entry,) = corpus.entries
    sidecar = read_sidecar(folder / "c.sidecar.json")
    found: dict[str, Any] = {
        "entry": (asdict(entry), entry.marks),
        "mask": frame_mask(sidecar, FRAMES, uncertainty_limit_us=500_000).tolist(),
        "columns": (told_columns(sidecar), response_frame(sidecar, FRAMES)),
        "heard": heard_spans(sidecar),
        "audit": _audited(sidecar, entry),
        "model": model_faults(sidecar.reasoning_model, READ) if sidecar.reasoning_model else None,
        "history": history_row(sidecar),
        "evidence": (evidence_table(sidecar).rows(), claims_table(sidecar, SAID, "SPEAKER_MAIN").rows()),
        "permitted": _permitted(sidecar),
    }
    return found | (_scanned(folder, entry) if scan else {})


def _permitted(sidecar: Sidecar) -> object:
    permitted = permitted_tokens(sidecar, TOKENS.height, 3_000_000)
    return None if permitted is None else (permitted.spans, permitted.group.tolist())


def _audited(sidecar: Sidecar, entry: CallEntry) -> str:
    try:
        audit_sidecar(
            sidecar.model_dump_json(by_alias=True), TOKENS, entry.recording_starts_at_us, call_id="c"
        )
    except CausalityError as error:
        return str(error)
    return ""


def _scanned(folder: Path, entry: CallEntry) -> dict[str, Any]:
    job = ScanJob(build=Build(load_recipe("demo"), folder / "none", folder), given=CallInput.of(entry))
    try:
        found = scan_call(job, folder)
    except CallRefused as error:
        return {"refused": [error.code]}
    return {"words": found.words, "noted": [problem.code for problem in found.problems]}


@pytest.fixture(scope="module")
def true_reading(corpus: Path) -> dict[str, Any]:
    return reading(corpus, true_sidecar(corpus.parent), scan=True)


def test_a_true_sidecar_is_neither_refused_nor_doubted(true_reading: dict[str, Any]) -> None:
    assert "refused" not in true_reading and not true_reading["audit"] and not true_reading["model"]
    assert true_reading["noted"] == ["words-mismatch"]  # which it says itself
    assert (true_reading["words"][0].text, true_reading["words"][0].start_us) == ("Good", 200_000)


@pytest.mark.parametrize("place", ROWS)
def test_what_changes_with_a_field(corpus: Path, true_reading: dict[str, Any], place: str) -> None:
    reader, value = ROWS[place]
    document = changed(true_sidecar(corpus.parent), place, value)
    now = reading(corpus, document, scan=reader in ("refused", "noted", "words"))
    assert now.get(reader) != true_reading.get(reader), f"{place} changes nothing of {reader}"


def test_every_field_has_a_row(corpus: Path) -> None:
    known = sorted(fields(Sidecar))
    assert known == sorted([*ROWS, *KEPT])
    for place in KEPT:  # they are in the document that the rows above are changes of, and stored with it
        if not place.startswith("prompt.voice_segment."):
            changed(true_sidecar(corpus.parent), place, object())


@pytest.mark.parametrize(("name", "value"), [("call", "e"), ("start_s", 0.5), ("end_s", 2.5)])
def test_a_voice_segment_is_of_another_call_and_its_clock(corpus: Path, name: str, value: object) -> None:
    """It stands in place of a voice file, so that no document has both."""
    document = true_sidecar(corpus.parent)
    del document["prompt"]["voice_prompt"]
    document["prompt"]["voice_segment"] = {"call": "d", "start_s": 1.0, "end_s": 2.0}
    now = reading(corpus, changed(document, f"prompt.voice_segment.{name}", value), scan=False)
    assert now["entry"] != reading(corpus, document, scan=False)["entry"]
    path = corpus.parent / "segment.sidecar.json"
    path.write_text(json.dumps(document))
    prompt = read_sidecar(path).prompt
    assert prompt is not None and prompt.voice_segment is not None
    assert (prompt.voice_segment.start_s, prompt.voice_segment.end_s) == (1.0, 2.0)


def test_every_time_moves_with_the_clip() -> None:
    """A field in seconds is a time of the clip's timeline, a length, or session time."""
    lengths = {"offset_s", "uncertainty_s"}
    seconds = {place.rsplit(".", 1)[-1] for place in fields(Sidecar) if place.endswith("_s")}
    assert seconds - lengths - {"recording_starts_at_s"} == TIMES - {"event_at_s"}
