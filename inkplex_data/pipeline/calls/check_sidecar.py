"""A call's sidecar against the call: is it about this audio, and what does it say of its own words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from inkplex_data.audio.call_audio import CallFiles, open_files
from inkplex_data.audio.call_scan import SIDES, AudioScan, slack_samples
from inkplex_data.clock import FRAME_US, samples_to_us, seconds_to_us
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.sidecars.against_audio import AudioFile, audio_differences
from inkplex_data.corpus.sidecars.loss_mask import mismatched, uncertain_words
from inkplex_data.corpus.sidecars.named_files import differing_files, named_files
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar, Words
from inkplex_data.corpus.swap import SUFFIX
from inkplex_data.pipeline.calls.prepare import PreparedCall
from inkplex_data.problems import ProblemLog

SIDECAR_KEYS: Final = ("words.uncertainty_limit_s",)


def check_sidecar(
    given: CallEntry,
    prepared: PreparedCall,
    scan: AudioScan,
    *,
    inputs: str,
    recipe: Recipe,
    log: ProblemLog,
) -> None:
    """Compare and report. `given`: the call as the corpus has it; `inputs`: the digests of its files.

    What a sidecar says of files is about those of the whole call; what is prepared of a part describes the part.

    Raises CallRefused: sidecar-audio-differs for a sidecar of other audio, sidecar-file-differs where a file that it
    names has not the digest that it gives.
    """
    sidecar = prepared.text.sidecar
    if sidecar is None or given.sidecar is None:
        return
    whole = prepared.text if given.clip is None else CallText.of(given)
    if whole.sidecar is not None and whole.sidecar.audio is not None:
        files = CallFiles(prepared.audio.agent.source, prepared.audio.caller.source)
        # Two streams that were made of one file have its length and rate; how exact its length is, it says itself.
        own = files if prepared.entry.audio == given.audio else open_files(given.audio)
        differing = audio_differences(
            whole.sidecar.audio, list(_files(own, scan if given.clip is None else None, inputs))
        )
        if differing:
            log.add("sidecar-audio-differs", "; ".join(differing), item=given.sidecar.name)
    if whole.unswapped_sidecar is not None:
        _compare_files(whole.unswapped_sidecar, given, inputs, log)
    _note_identity(sidecar, given, log)
    if sidecar.words is not None:
        _note_words(sidecar.words, samples_to_us(scan.samples), recipe, log)


def _files(files: CallFiles, scan: AudioScan | None, inputs: str) -> Iterator[AudioFile]:
    """`scan`: what decoding them gave; None where only a part was decoded."""
    digests = json.loads(inputs)["audio"]
    sources = {"agent": files.agent, "caller": files.caller}
    for index, side in enumerate(SIDES):
        source = sources[side]
        yield AudioFile(
            source.path.name,
            digests[index] if isinstance(digests, list) else digests,
            scan.rates_hz[side] if scan is not None else source.sample_rate_hz,
            scan.native_samples[side] if scan is not None else source.count_samples(),
            slack_samples(source),
        )
        if files.is_one_file:
            break


def _compare_files(whole: Sidecar, given: CallEntry, inputs: str, log: ProblemLog) -> None:
    known = json.loads(inputs).get("named", [])
    found = iter([known] if isinstance(known, str) else known)
    digests = [next(found) if path is not None else None for path in given.named]
    differing, missing = differing_files(named_files(whole), digests)
    if differing:
        log.add("sidecar-file-differs", ", ".join(differing))
    if missing:
        log.add("sidecar-file-missing", ", ".join(missing))


def _note_identity(sidecar: Sidecar, given: CallEntry, log: ProblemLog) -> None:
    own = given.call_id.removesuffix(SUFFIX) if given.swapped else given.call_id
    names = {own, Path(own).name, *(path.stem for path in given.audio_paths)}
    if sidecar.identity.clip_id not in names:
        log.add("sidecar-other-clip", f"is of clip {sidecar.identity.clip_id!r}")


def _note_words(words: Words, duration_us: int, recipe: Recipe, log: ProblemLog) -> None:
    spoken = " ".join(word.text for word in words.items if word.speaker == words.main_speaker)
    if words.items and words.transcript is not None and _letters(spoken) != _letters(words.transcript):
        log.add("words-transcript-differs", f"{len(words.items)} words, {len(words.transcript)} characters")
    if words.mismatch == "known":
        spans = mismatched(words, -(-duration_us // FRAME_US) * FRAME_US)
        log.add("words-mismatch", "in " + ", ".join(f"{start} to {end} µs" for start, end in spans[:8]))
    elif words.mismatch == "unknown" and (words.items or words.transcript):
        log.add("words-mismatch-unknown", f"of {len(words.items)} words")
    uncertain = uncertain_words(words, seconds_to_us(recipe.words.uncertainty_limit_s))
    if uncertain:
        log.add("words-uncertain", f"{len(uncertain)} of {len(words.items)} words")


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
