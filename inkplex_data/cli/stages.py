"""`interleave`, `encode`, `capture`, `versions`: single stages of a build, to inspect or to use elsewhere."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import typer

from inkplex_data.cli.key_value import key_values
from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

PANEL = "Single stages"
Dtype = Literal["auto", "float32", "bfloat16"]
SETTING = typer.Option(None, "--set", metavar="KEY=VALUE", help="A recipe key, e.g. --set text.delay_s=0.2.")


def register(app: typer.Typer) -> None:
    for verb in (interleave, encode, capture, versions):
        app.command(verb.__name__, rich_help_panel=PANEL)(verb)


def interleave(
    words: Path = typer.Argument(..., metavar="WORDS", help="A transcript in any supported format."),
    frames: int | None = typer.Option(None, min=1, help="Number of 80 ms frames; or give --audio."),
    audio: Path | None = typer.Option(None, metavar="FILE", help="The call's audio, for its length."),
    agent: str | None = typer.Option(None, help="Label or channel number of the agent."),
    tokenizer: str | None = typer.Option(None, help="SentencePiece model for the text stream."),
    setting: list[str] | None = SETTING,
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object with all frames."),
) -> None:
    """Print a transcript's text stream: each frame that is not PAD, and what could not be placed."""
    from inkplex_data.clock import FRAME_US, us_to_seconds
    from inkplex_data.corpus.transcripts import SpeakerRule, load_words
    from inkplex_data.errors import UsageError
    from inkplex_data.grid import EPAD, PAD
    from inkplex_data.pipeline.calls.build_call import text_stream
    from inkplex_data.pipeline.tools import tokenizer as load_tokenizer
    from inkplex_data.problems import ProblemLog

    recipe = _recipe(setting, {"words.agent": agent, "text.tokenizer": tokenizer})
    if (frames is None) == (audio is None):
        raise UsageError("give either --frames or --audio")
    count = _frames_of(audio) if frames is None and audio is not None else frames
    assert count is not None
    log = ProblemLog(words.name)
    rule = SpeakerRule(agent=recipe.words.agent, main=recipe.text.main_speaker)
    timed, _ = load_words(words, duration_us=count * FRAME_US, log=log, rule=rule)
    text, _ = text_stream(timed, count, recipe, log)
    pieces = load_tokenizer(recipe.text.tokenizer)
    if json_output:
        document = {
            "ids": text.ids.tolist(),
            "roles": text.roles.tolist(),
            "words_placed": text.words_placed,
            "words_dropped": text.words_dropped,
            "pieces_placed": text.pieces_placed,
            "pieces_dropped": text.pieces_dropped,
            "problems": [vars(problem) for problem in log],
        }
        say(json.dumps(document))
        return
    say(f"{'frame':>6} {'time_s':>8} {'id':>6} piece")
    for frame, token in enumerate(text.ids.tolist()):
        if token != PAD:
            shown = "EPAD" if token == EPAD else pieces.piece(token) if token > 0 else "no input"
            say(f"{frame:>6} {us_to_seconds(frame * FRAME_US):>8.2f} {token:>6} {shown}")
    say(
        f"{text.words_placed} words and {text.pieces_placed} pieces in {count} frames; "
        f"{text.words_dropped} words and {text.pieces_dropped} pieces not placed"
    )
    for problem in log:
        say(f"  [{problem.code}] {problem.item}: {problem.message}")


def encode(
    audio: Path = typer.Argument(..., metavar="AUDIO", help="A file with one voice, or agent and caller."),
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="CODES.npy|.npz", help="The file to write."
    ),
    codec: str | None = typer.Option(
        None, help="Hub id, local folder, Moshi-format .safetensors, or untrained:SEED."
    ),
) -> None:
    """Encode a file as a build does: codes uint16 [8, F] for one channel, [16, F] for agent and caller.

    An .npz holds `codes`, `samples` (at 24 kHz) and `codec`, the codec's identity as JSON.
    """
    import numpy as np

    from inkplex_data.atomic import replacing
    from inkplex_data.audio.call_audio import CallAudio, ChannelRef, open_files
    from inkplex_data.clock import resampled_samples
    from inkplex_data.errors import UsageError
    from inkplex_data.pipeline.tools import codec as load_codec
    from inkplex_data.problems import ProblemLog

    if out.suffix not in {".npy", ".npz"}:
        raise UsageError(f"-o takes a .npy or .npz file (got {out.name!r})")
    files = open_files(audio)
    mimi = load_codec(_recipe(None, {"codec.id": codec}).codec, "cpu")
    if files.agent.channels == 1:
        voice = ChannelRef(files.agent)
        samples = resampled_samples(files.agent.count_samples(), files.agent.sample_rate_hz)
        found = mimi.encode(CallAudio(voice, voice).stream("agent"))
    else:
        call = files.channels()
        samples = call.scan(ProblemLog(audio.name)).samples
        found = mimi.encode_pair(call.streams(samples=samples))
    codes = np.ascontiguousarray(found.T)
    # Not straight into the file: NumPy says nothing of why a write failed.
    data = BytesIO()
    if out.suffix == ".npy":
        np.save(data, codes)
    else:
        np.savez(data, codes=codes, samples=samples, codec=json.dumps(mimi.identity.as_dict()))
    with replacing(out, size_bytes=len(data.getbuffer())) as file:
        file.write(data.getbuffer())
    say(f"{out}: {codes.dtype} {list(codes.shape)}, {samples:,} samples at 24 kHz, {mimi.identity.id}")


def capture(
    recording: Path = typer.Argument(..., metavar="RECORDING", help="A recording.jsonl."),
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder for the recording and its states."
    ),
    model: str | None = typer.Option(None, help="Checkpoint folder, hub id, or small:SEED."),
    chunk_tokens: int | None = typer.Option(None, min=1, help="Tokens per prefill chunk."),
    dtype: Dtype | None = typer.Option(None, help="Arithmetic of the model."),
    device: str | None = typer.Option(
        None,
        help="cpu, cuda …, balanced over all GPUs, a device map as JSON, or auto, which takes GPUs as needed.",
    ),
) -> None:
    """Compute hidden rows 28, 34 and 42 of a recording: a safetensors file per request, and a recording that names them.

    Under `torchrun` the processes share the model, each with a part of every block.
    """
    from time import monotonic

    from inkplex_data.cli.bars import progress_bar
    from inkplex_data.config.recipe import CaptureConfig
    from inkplex_data.memory.capture.inkling import load_inkling
    from inkplex_data.memory.capture.recordings_with_states import capture_recording

    given = {"model": model, "chunk_tokens": chunk_tokens, "dtype": dtype, "device": device}
    config = CaptureConfig.model_validate({name: value for name, value in given.items() if value is not None})
    inkling = load_inkling(config.model, dtype=config.dtype, device=config.device)
    began_s = monotonic()
    with progress_bar("tokens", rate="tokens/s") as advance:
        result = capture_recording(
            recording, out, inkling, chunk_tokens=config.chunk_tokens, progress=advance
        )
    if inkling.rank == 0:
        say(f"{result.text()}, {result.tokens / (monotonic() - began_s):,.0f} tokens/s")


def versions(
    store: str = typer.Argument(..., metavar="STORE", help="Folder or fsspec URL of a store."),
    call: str = typer.Argument(..., metavar="CALL", help="Id of a call."),
    prefix: bool = typer.Option(False, "--prefix", help="Show the composed call, with its prefix in front."),
    wrong: bool = typer.Option(False, "--wrong", help="Show the memory of its partner, built for this call."),
    limit: int | None = typer.Option(None, min=1, help="Largest number of versions in one chunk."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Show a call's memory: its versions by bucket, and the chunks in which a reader computes them."""
    from inkplex_data.grid import PLAN_LIMIT
    from inkplex_data.report.memory_lane import memory_view
    from inkplex_data.store.reader import open_store

    with open_store(store) as opened:
        chosen = opened.call(call).wrong_memory() if wrong else opened.call(call)
        view = memory_view(chosen.with_prefix() if prefix else chosen, limit=limit or PLAN_LIMIT)
    say(json.dumps(view.as_json()) if json_output else view.text())


def _recipe(setting: list[str] | None, given: dict[str, Any]) -> Any:
    from inkplex_data.config.recipe import load_recipe

    overrides = key_values("--set", setting)
    overrides.update({key: value for key, value in given.items() if value is not None})
    return load_recipe(None, overrides)


def _frames_of(audio: Path) -> int:
    from inkplex_data.audio.files.audio_source import open_audio
    from inkplex_data.clock import frames_of_samples, resampled_samples

    source = open_audio(audio)
    return frames_of_samples(resampled_samples(source.count_samples(), source.sample_rate_hz))
