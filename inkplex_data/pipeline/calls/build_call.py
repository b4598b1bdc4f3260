"""One call, from its audio and words to the arrays and tables that a shard takes."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from inkplex_data.audio.augment_plan import AugmentPlan
from inkplex_data.clock import FRAME_SAMPLES, FRAME_US, samples_to_us, seconds_to_us
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.entry import CallEntry, ChannelSpec
from inkplex_data.corpus.sidecars.loss_mask import frame_mask
from inkplex_data.corpus.sidecars.model_check import ReadModel, model_faults
from inkplex_data.corpus.sidecars.playback import history_row
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.corpus.word_repair import WORD_DROPS, TimedWord
from inkplex_data.grid import MASK_AGENT, MASK_ALL, MASK_CALLER, MASK_HIDDEN_TEXT, MASK_TEXT, NO_INPUT
from inkplex_data.memory.tables import VERSIONS
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.augmentation import (
    cut_words,
    keeping_text,
    prepare,
    recorded,
    transforms,
)
from inkplex_data.pipeline.calls.call_streams import CallStreams
from inkplex_data.pipeline.calls.encode import encode
from inkplex_data.pipeline.calls.evidence_tables import (
    claims_table,
    evidence_table,
    note_claims,
    permissions,
)
from inkplex_data.pipeline.calls.playback_cuts import PlaybackCuts
from inkplex_data.pipeline.calls.prepare import main_speaker, prepare_call
from inkplex_data.pipeline.calls.scan_call import SCAN, Scan, ScanJob
from inkplex_data.pipeline.calls.turn_columns import turn_row
from inkplex_data.pipeline.calls.withheld_text import withhold
from inkplex_data.pipeline.recordings import ReadRecording
from inkplex_data.pipeline.result_files import load_field
from inkplex_data.pipeline.stage import Job, Stage
from inkplex_data.problems import Problem, ProblemLog, refusal
from inkplex_data.speech.codec_stream import Codec
from inkplex_data.speech.interleave import TextStream, Word, interleave
from inkplex_data.store.format import WORDS
from inkplex_data.store.shard import CallPart, empty

MOST_BYTE_PIECES: Final = 1 / 3
"""A tokenizer that knows a language spells names and signs of others by bytes, not every third piece."""


@dataclass(frozen=True)
class MemoryRef:
    """A call's task recording: where the result of its stage lies, and its digest, which stands for that result."""

    recording_id: str
    folder: Path = field(compare=False)
    sha256: str
    read: ReadModel
    """What the sidecar's `reasoning_model` must agree with."""


@dataclass(frozen=True, kw_only=True)
class CallJob(Job):
    """One call to build, with everything that the plan decided about it."""

    scanned: ScanJob
    scan: Scan
    call_ix: int
    family: str
    split: str
    prefix_id: str | None
    memory: MemoryRef | None
    notes: tuple[Problem, ...] = ()
    """What the plan has to tell about the call."""
    family_reason: str | None = None
    """Why it is of another family than the corpus says."""
    codec: Codec | None = field(default=None, compare=False)
    """The build's codec as a call sees it that is encoded in step with others."""

    @property
    def entry(self) -> CallEntry:
        """The call as the corpus has it."""
        return self.scanned.given.entry

    @property
    def key(self) -> str:
        return self.entry.call_id

    @property
    def audio_us(self) -> int:
        return self.scan.duration_us


def build_call(job: CallJob, folder: Path) -> CallPart:
    """All of one call but its wrong memory: text stream, loss mask, codes and versions. Raises CallRefused.

    Whose memory is its wrong one is settled when it is known which calls stand (`shards.py`).
    """
    recipe, frames = job.recipe, job.scan.frames
    found = SCAN.do(dataclasses.replace(job.scanned, build=job.build))
    prepared = prepare_call(job.scanned.given, job.build)
    entry = prepared.entry
    log = ProblemLog(entry.call_id, strict=recipe.strict)
    log.extend([*found.problems, *job.notes])
    words = list(found.words)
    sidecar = prepared.text.sidecar
    _check_model(sidecar, job.memory)
    playback = PlaybackCuts.of(sidecar, job.scan.samples, is_single=prepared.audio.is_single)
    main = main_speaker(recipe)
    words, unplayed = cut_words(words, AugmentPlan(cuts=playback.silenced), main)
    playback.tell(log, words=unplayed)
    streams = CallStreams(prepared.audio, job.scan, recipe, playback.silenced)
    made = streams.transforms()
    augmentation = prepare(streams, recipe, entry.call_id, job.split)
    if augmentation is not None:
        augmentation = keeping_text(augmentation, words, recipe, frames)
    plan = augmentation.plan if augmentation is not None else AugmentPlan()
    if augmentation is not None:
        made += transforms(augmentation)
    words, cut = cut_words(words, plan, main)
    text, pieces = text_stream(words, frames, recipe, log, delay_us=plan.text_delay_us)
    # What could be placed, and how dense the text is, does not depend on what is withheld from it.
    placed = text
    withheld = withhold(placed, words, plan, main)
    text = withheld.text
    if made:
        log.add("augmented", ", ".join(transform.name for transform in made))
    if cut or withheld.count:
        log.add("augmented-words", f"{cut} words ended early or are gone, {withheld.told}")
    made = [*playback.transforms(), *made]
    if job.entry.sidecar is not None:
        made = [*streams.resampling(), *made]
    sidecar = recorded(sidecar, entry.call_id, made, constructed=bool(plan.cuts or playback.silenced))
    codec = job.codec or tools.codec(recipe.codec, job.device)
    encoded = encode(streams, codec, augmentation)
    versions = empty(VERSIONS)
    if job.memory is not None and recipe.memory is not None:
        tokens, whole = (load_field(job.memory.folder, ReadRecording, name) for name in ("tokens", "whole"))
        clock = SessionClock(entry.recording_starts_at_us, 0, frames)
        permitted = permissions(sidecar, tokens.height, entry.recording_starts_at_us, log)
        versions = build_versions(
            tokens, clock, window=recipe.memory.window, whole=whole, permitted=permitted
        )
    note_claims(sidecar, words, main, log)
    agent_words = sum(word.is_by(main) for word in words)
    row = _row(job, placed, sidecar, dropped=log.count(*WORD_DROPS))
    # What was divided has channels of the ledger's file, not of the corpus's.
    row |= {} if prepared.is_divided or prepared.audio.is_single else channel_row(entry)
    row |= turn_row(encoded.activity, agent_words=agent_words, duration_us=job.scan.duration_us)
    row["text_conditions"] = _json(found.conditions)
    return CallPart(
        row=row,
        streams={
            "codes": encoded.codes,
            "text": text.ids,
            "role": text.roles,
            "mask": loss_mask(
                text, job.scan, sidecar, recipe, is_mixed=prepared.audio.is_mixed, delay_us=plan.text_delay_us
            )
            & playback.mask(frames)
            | withheld.hidden * np.uint8(MASK_HIDDEN_TEXT),
            "level": encoded.level,
        },
        words=words_table(words, pieces, text),
        versions=versions,
        problems=log.problems,
        evidence=evidence_table(sidecar),
        claims=claims_table(sidecar, words, main),
    )


def _check_model(sidecar: Sidecar | None, memory: MemoryRef | None) -> None:
    """Refuse a call whose sidecar names another reasoning model than the one that it reads. Raises CallRefused."""
    if sidecar is not None and sidecar.reasoning_model is not None and memory is not None:
        faults = model_faults(sidecar.reasoning_model, memory.read)
        if faults:
            raise refusal("sidecar-model-differs", f"reasoning_model: {'; '.join(faults)}")


def text_stream(
    words: list[TimedWord], frames: int, recipe: Recipe, log: ProblemLog, *, delay_us: int = 0
) -> tuple[TextStream, list[list[int]]]:
    """The interleaved text, and each word's piece ids. `delay_us` adds to the recipe's. Losses go to `log`."""
    options = recipe.text
    main = main_speaker(recipe)
    tokenizer = tools.tokenizer(options.tokenizer)
    pieces = tokenizer.encode_words([word.text for word in words])
    text = interleave(
        [
            Word(ids, word.start_us, word.end_us, word.speaker)
            for ids, word in zip(pieces, words, strict=True)
        ],
        frames,
        policy=options.policy,
        overflow=options.overflow,
        rounding=options.rounding,
        in_word_padding=options.in_word_padding,
        delay_us=seconds_to_us(options.delay_s) + delay_us,
        speaker_tokens=options.speaker_tokens,
        main_speaker=main,
    )
    own = [ids for ids, word in zip(pieces, words, strict=True) if word.is_by(main)]
    spelled = tokenizer.byte_pieces(piece for ids in own for piece in ids)
    if spelled > sum(map(len, own)) * MOST_BYTE_PIECES:
        log.add(
            "text-byte-pieces",
            f"{spelled:,} of {sum(map(len, own)):,} pieces of the agent's words are single bytes, by {tokenizer.identity.name}",
        )
    for drop in text.drops:
        if drop.reason == "other-speaker":
            continue  # the caller's words are no loss: only the agent speaks in the text stream
        word = words[drop.word]
        log.add(
            f"text-{drop.reason}",
            f"{drop.pieces} of {len(pieces[drop.word])} pieces of {word.text!r} at {word.start_us / 1e6:.3f} s were not placed",
            item=f"word {drop.word}",
            at_us=word.start_us,
        )
    if recipe.words.source != "none" and not text.words_placed:
        log.add("text-all-pad", f"none of {len(words)} words could be placed")
    return text, pieces


def loss_mask(
    text: TextStream,
    scan: Scan,
    sidecar: Sidecar | None,
    recipe: Recipe,
    *,
    is_mixed: bool = False,
    delay_us: int = 0,
) -> np.ndarray:
    """uint8 [F]: which modalities of each frame are present and certain. A missing one is not silence.

    In a mixture what is uncertain about the caller's voice is uncertain about the agent's stream. `delay_us`: by how
    much the text is ahead of the audio besides the recipe's delay. Text says what is heard, so it ends with the
    agent's own audio.
    """
    mask = np.full(scan.frames, MASK_ALL, np.uint8)
    if sidecar is not None:
        mask &= frame_mask(
            sidecar,
            scan.frames,
            uncertainty_limit_us=seconds_to_us(recipe.words.uncertainty_limit_s),
            text_ahead_us=seconds_to_us(recipe.text.delay_s) + delay_us,
        )
        if is_mixed:
            mask[mask & MASK_CALLER == 0] &= np.uint8(MASK_ALL ^ MASK_AGENT)
    for bit, samples in ((MASK_AGENT, scan.agent_samples), (MASK_CALLER, scan.caller_samples)):
        if samples < scan.samples:
            # The frame in which a shorter file ends is only partly there.
            mask[samples // FRAME_SAMPLES :] &= np.uint8(MASK_ALL ^ bit)
    # Text says what is heard: it ends with the agent's own audio, and what is lost inside that is not heard either.
    ahead_us = seconds_to_us(recipe.text.delay_s) + delay_us
    if scan.agent_samples < scan.samples and not is_mixed:  # of a mixture, the other voices are heard on
        last_us = max(samples_to_us(scan.agent_samples) - max(ahead_us, 0), 0)
        mask[last_us // FRAME_US :] &= np.uint8(MASK_ALL ^ MASK_TEXT)
    for hole in scan.agent_holes:
        start_us, end_us = (max(samples_to_us(at) - ahead_us, 0) for at in hole)
        mask[start_us // FRAME_US : -(-end_us // FRAME_US)] &= np.uint8(MASK_ALL ^ MASK_TEXT)
    for bit, holes in ((MASK_AGENT, scan.agent_holes), (MASK_CALLER, scan.caller_holes)):
        for start, end in holes:
            mask[start // FRAME_SAMPLES : -(-end // FRAME_SAMPLES)] &= np.uint8(MASK_ALL ^ bit)
    if recipe.words.source == "none" or scan.is_text_masked:
        mask &= np.uint8(MASK_ALL ^ MASK_TEXT)
    mask[text.ids == NO_INPUT] &= np.uint8(MASK_ALL ^ MASK_TEXT)
    if scan.is_masked:
        mask &= np.uint8(MASK_CALLER)
    return mask


def words_table(words: list[TimedWord], pieces: list[list[int]], text: TextStream) -> pl.DataFrame:
    """The words of one call as `format.WORDS` has them, without call_ix."""
    columns: dict[str, Any] = {
        "word_ix": list(range(len(words))),
        "text": [word.text for word in words],
        "start_us": [word.start_us for word in words],
        "end_us": [word.end_us for word in words],
        "speaker": [word.speaker for word in words],
        "frame": text.word_frames,
        "pieces": pieces,
        "placed": text.word_placed,
        "confidence": [word.confidence for word in words],
        "method": [word.method for word in words],
        "uncertainty_us": [word.uncertainty_us for word in words],
        "provenance": [word.provenance for word in words],
    }
    return pl.DataFrame(columns, schema={name: dtype for name, dtype in WORDS.items() if name != "call_ix"})


def _row(job: CallJob, text: TextStream, sidecar: Sidecar | None, *, dropped: int) -> dict[str, Any]:
    """The call's row; `dropped` words of its transcript came to nothing before there was a text stream."""
    entry, scan = job.entry, job.scan
    unplaced = [drop for drop in text.drops if drop.reason != "other-speaker"]
    return {
        "call_id": entry.call_id,
        "call_ix": job.call_ix,
        "samples": scan.samples,
        "recording_id": job.memory.recording_id if job.memory else None,
        "recording_starts_at_us": entry.recording_starts_at_us if job.memory else None,
        "prefix_id": job.prefix_id,
        "split": job.split,
        "family": job.family,
        "voice": entry.voice,
        "role": entry.role,
        "duration_us": scan.duration_us,
        "words_dropped": dropped + len({drop.word for drop in unplaced if text.word_placed[drop.word] == 0}),
        "pieces_dropped": sum(drop.pieces for drop in unplaced),
        "pad_fraction": None if job.recipe.words.source == "none" else text.pad_fraction,
        "response_start_frame": None if sidecar is None else response_frame(sidecar, scan.frames),
        "audio_sha256": scan.audio_sha256,
        "codec": tools.codec(job.recipe.codec, job.device).identity.id,
        "source": entry.source,
        "clip_start_us": entry.clip.start_us if entry.clip else None,
        "clip_end_us": entry.clip.end_us if entry.clip else None,
        "history": history_row(sidecar),
        "sidecar": _json(sidecar.model_dump(mode="json", by_alias=True, exclude_none=True))
        if sidecar
        else None,
        "input_sha256": scan.input_sha256,
        "inputs": scan.inputs,
        "family_reason": job.family_reason,
        **(told_columns(sidecar) if sidecar is not None else {}),
    }


def told_columns(sidecar: Sidecar) -> dict[str, Any]:
    """What a sidecar says of a call as columns of the calls table: who made its sound, and what is to be taught."""
    row: dict[str, Any] = {}
    if sidecar.audio is not None:
        row = {"agent_origin": sidecar.audio.agent.origin, "caller_origin": sidecar.audio.caller.origin}
    if sidecar.targets is not None:
        targets = sidecar.targets.items
        row["decisions"] = [target.decision for target in targets]
        row["target_statuses"] = [target.status for target in targets]
        row["target_writers"] = [target.writer for target in targets]
    return row


def response_frame(sidecar: Sidecar, frames: int) -> int | None:
    """The frame in which the response begins; None where the sidecar names none inside the call."""
    start_s = sidecar.targets.response_start_s if sidecar.targets is not None else None
    frame = -1 if start_s is None else seconds_to_us(start_s) // FRAME_US
    return frame if 0 <= frame < frames else None


def channel_row(entry: CallEntry) -> dict[str, int]:
    """Where both sides lie in the one file that `source` names; empty where it is not one file."""
    if not isinstance(entry.audio, Path):
        return {}
    channels = entry.channels or ChannelSpec(0, 1)
    return {"agent_channel": channels.agent, "caller_channel": channels.caller}


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


CALL: Final = Stage(
    name="encode",
    version=12,
    result=CallPart,
    run=build_call,
    recipe=(
        "audio.bandwidth",
        "augment",
        "codec",
        "device",
        "memory.window",
        "text",
        "words.uncertainty_limit_s",
    ),
    after=(SCAN,),
    needs_device=True,
)
