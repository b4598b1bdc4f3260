"""`align`, `diarize`, `check-speech`: from raw audio to words and streams, and whether the two agree."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from inkplex_data.cli.output import output
from inkplex_data.cli.say import say
from inkplex_data.plural import counted

PANEL = "Raw audio"


def register(app: typer.Typer) -> None:
    app.command("align", rich_help_panel=PANEL)(align)
    app.command("diarize", rich_help_panel=PANEL)(diarize)
    app.command("check-speech", rich_help_panel=PANEL)(check_speech)


def align(
    corpus: Path = typer.Argument(
        ..., metavar="CORPUS", help="A manifest, a Moshi inventory, a folder, or one audio file."
    ),
    out: Path | None = typer.Option(
        None,
        "-o",
        "--out",
        parser=output,
        metavar="DIR",
        help="Folder for the word files; beside the audio by default.",
    ),
    model: str = typer.Option(
        "packaged:tiny.en", help="Whisper: packaged:tiny.en, a size such as medium, a file, folder or hub id."
    ),
    aligner: str = typer.Option(
        "pocketsphinx", help="What times the words: pocketsphinx, a folder or hub id of a CTC model, or none."
    ),
    language: str = typer.Option("en", help="Language of the words."),
    agent: str = typer.Option(
        "left", help="The agent's channel if the corpus names none: left, right or auto (guess)."
    ),
    agent_label: str | None = typer.Option(
        None, metavar="LABEL", help="The agent's name in captions and plain text that name speakers."
    ),
    text: Path | None = typer.Option(
        None, metavar="FILE", help="Captions or plain text, if there is only one call."
    ),
    redo: bool = typer.Option(False, "--redo", help="Also align calls that already have word times."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object per call."),
) -> None:
    """Find the words of each call's agent and their times, and write them as Moshi JSON.

    Only detected speech is transcribed. Existing text without word times is timed word by word: captions and
    utterances within their own times, plain text (.txt) over the whole call, each speaker on their own channel.
    Calls that have word times keep them. Failures are listed in align.failures.jsonl.
    """
    from dataclasses import asdict

    from inkplex_data.corpus.read_corpus import read_calls
    from inkplex_data.errors import UsageError
    from inkplex_data.speech.agent.find import agent_rule
    from inkplex_data.speech.align.align_corpus import align_entries
    from inkplex_data.speech.align.transcribe import SpeechAligner

    side = agent_rule(agent)
    found = read_calls(corpus)
    entries, refused = found.entries, found.refused
    if not entries and not refused:
        raise UsageError("no calls to align", where=str(corpus))
    if text is not None and len(entries) != 1:
        raise UsageError("--text goes with one call only", where=str(corpus))
    if text is not None and not text.is_file():
        raise UsageError("there is no such file", where=str(text))
    for problem in refused:
        row = {
            "call_id": problem.call_id,
            "state": "failed",
            "code": problem.code,
            "message": problem.message,
        }
        say(json.dumps(row) if json_output else str(problem))
    failed, count = len(refused), len(refused)
    worker = SpeechAligner(model, retime=aligner, language=language)
    for done in align_entries(
        entries,
        worker,
        root=found.root,
        out=out,
        redo=redo,
        agent=agent_label,
        side=side,
        text=text,
        refused=refused,
    ):
        count += 1
        failed += done.state == "failed"
        if json_output:
            say(json.dumps({**asdict(done), "path": str(done.path)}))
            continue
        what = {
            "aligned": f"{counted(done.words, 'word')}, {done.method}",
            "kept": "kept",
            "failed": f"[{done.code}] {done.message}",
        }
        say(f"{done.call_id}: {what[done.state]} · {done.path}")
        for told in done.problems:
            if told.severity != "error" and told.code != "word-filtered":
                say(f"  [{told.code}] {told.item}: {told.message}")
        if filtered := sum(told.code == "word-filtered" for told in done.problems):
            say(f"  [word-filtered] {filtered} of the transcriber's phrases and words left out")
    raise typer.Exit(1 if failed == count else 3 if failed else 0)


def diarize(
    audio: list[Path] = typer.Argument(
        ..., metavar="AUDIO…", help="One-channel audio files, or folders of them."
    ),
    out: Path = typer.Option(
        ...,
        "-o",
        "--out",
        parser=output,
        metavar="DIR",
        help="Folder for NAME.wav, NAME.rttm and NAME.sidecar.json.",
    ),
    model: str = typer.Option("offline", help="offline, or a folder or hub id of a pyannote.audio pipeline."),
    rttm: Path | None = typer.Option(
        None,
        help="Speaker turns that are already known: a file, or a folder of NAME.rttm files. With several audio files, each takes the turns under its own name.",
    ),
    main: str = typer.Option(
        "most", help="Who becomes the agent: most, first, random, or a speaker's label."
    ),
    speakers: int | None = typer.Option(None, min=1, help="Number of speakers, if known."),
    room_tone: bool = typer.Option(
        False, "--room-tone", help="Fill the silent stream with room tone instead of zeros."
    ),
    seed: int = typer.Option(0, min=0, help="Seed of --main random and of room tone."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object per file."),
) -> None:
    """Divide one-channel audio into agent (left) and caller (right), keeping the number of samples."""
    from inkplex_data.atomic import only_writer
    from inkplex_data.audio.call_audio import open_channel
    from inkplex_data.errors import CallRefused, UsageError
    from inkplex_data.speech.diarize.diarizer import load_diarizer
    from inkplex_data.speech.diarize.divide import divide
    from inkplex_data.speech.diarize.speaker_turns import speakers as speaking

    files = _audio_files(audio, out)
    if rttm is not None and not rttm.exists():
        raise UsageError("there is no such file or folder", where=f"--rttm {rttm}")
    diarizer = None if rttm is not None else load_diarizer(model, speakers=speakers)
    failed = 0
    with only_writer(out, command="diarize"):
        for name, path in files.items():
            try:
                made = divide(
                    open_channel(path),
                    out / name,
                    diarizer=diarizer,
                    rttm=rttm / f"{name}.rttm" if rttm is not None and rttm.is_dir() else rttm,
                    only_named=len(files) > 1 and rttm is not None and rttm.is_file(),
                    call_id=name,
                    main=main,
                    inactive="room" if room_tone else "zero",
                    seed=seed,
                )
            except CallRefused as error:
                failed += 1
                row = {"audio": str(path), "code": error.code, "message": str(error)}
                say(json.dumps(row) if json_output else f"{path.name}: [{error.code}] {error.what}")
                continue
            shares = {name: round(time_us / 1e6, 3) for name, time_us in speaking(made.turns).items()}
            overlap_s = round(float((made.streams.overlap[:, 1] - made.streams.overlap[:, 0]).sum()) / 1e6, 3)
            if json_output:
                told_json = {
                    "audio": str(path),
                    "out": str(made.audio),
                    "samples": made.samples,
                    "main": made.streams.main,
                    "speakers_s": shares,
                    "overlap_s": overlap_s,
                }
                say(json.dumps(told_json))
            else:
                told = ", ".join(f"{name} {time_s:g} s" for name, time_s in shares.items())
                say(f"{made.audio}: {told}; agent {made.streams.main}, overlap {overlap_s:g} s")
    raise typer.Exit(1 if failed == len(files) else 3 if failed else 0)


def _audio_files(given: list[Path], out: Path) -> dict[str, Path]:
    """Each file under the name of its results in `out`: its stem, or its path inside a given folder.

    Raises UsageError if two files share a name, or if a result would replace its own source.
    """
    from inkplex_data.corpus.folder import AUDIO_SUFFIXES
    from inkplex_data.errors import UsageError

    named: dict[str, Path] = {}
    for start in given:
        files = [start]
        if start.is_dir():
            files = sorted(path for path in start.rglob("*") if path.suffix.lower() in AUDIO_SUFFIXES)
            if not files:
                raise UsageError("the folder holds no audio file", where=str(start))
        for path in files:
            name = str(path.relative_to(start).with_suffix("")) if start.is_dir() else path.stem
            if name in named:
                raise UsageError(
                    f"{named[name]} and {path} would both be written as {out / name}.wav",
                    next_step="Divide one of them into another folder.",
                )
            if (out / f"{name}.wav").resolve() == path.resolve():
                raise UsageError(
                    "the streams would replace the audio", where=str(path), next_step="Name another --out."
                )
            named[name] = path
    return named


def check_speech(
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="A manifest, a Moshi inventory or a folder."),
    model: str = typer.Option(
        "packaged:tiny.en", help="Whisper: packaged:tiny.en, a size such as medium, a file, folder or hub id."
    ),
    max_wer: float = typer.Option(0.75, min=0.0, help="Word error rate above which a call is not trusted."),
    margin: float = typer.Option(
        2.0,
        min=0.0,
        help="Nats by which another fact must be likelier than the text's; at least 3 for names.",
    ),
    agent_label: str | None = typer.Option(
        None, metavar="LABEL", help="The agent's label or channel number in transcripts."
    ),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object per call."),
) -> None:
    """Compare the agent's audio with its text: word error rate, and facts that the audio does not say.

    Lists, call by call, the names, numbers, amounts, dates and negations of the text that are not in the audio, with
    their times. Exits with 1 if there are any, or if a call is above --max-wer or cannot be read. The recipe key
    check_speech makes a build do the same and mask or refuse such calls.
    """
    from inkplex_data.errors import UsageError
    from inkplex_data.speech.check.agreement import check_corpus

    checked = bad = 0
    for found in check_corpus(corpus, model=model, max_wer=max_wer, margin_nats=margin, agent=agent_label):
        checked += 1
        bad += not found.passed
        if json_output:
            say(json.dumps(found.as_json()))
            continue
        rate = "not checked" if found.unreadable else f"word error rate {found.wer:.1%}"
        if not found.unreadable:
            rate += f", {counted(len(found.problems), 'problem')}"
        say(f"{found.call_id}: {rate}")
        for problem in found.problems:
            say(f"  [{problem.code}] " + (f"{problem.item}: " if problem.item else "") + problem.message)
    if not checked:
        raise UsageError("it holds no calls", where=str(corpus))
    if not json_output:
        say(f"{counted(checked, 'call')} checked, {bad} with problems")
    raise typer.Exit(1 if bad else 0)
