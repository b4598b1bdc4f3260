"""`channels`: which side of each call is the agent, on what evidence, and how much each side bleeds into the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from inkplex_data.cli.say import say

if TYPE_CHECKING:
    from inkplex_data.audio.bleed import Bleed
    from inkplex_data.corpus.entry import CallEntry
    from inkplex_data.speech.agent.find import Hear, Rule

PANEL = "Raw audio"


def register(app: typer.Typer) -> None:
    app.command("channels", rich_help_panel=PANEL)(channels)


def channels(
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="A manifest, a Moshi inventory or a folder."),
    agent: str = typer.Option(
        "auto", help="The agent's channel if the corpus names none: left, right or auto (guess)."
    ),
    confidence: float = typer.Option(
        0.8, min=0.5, max=0.999, help="Lowest confidence at which a guess is used."
    ),
    agent_label: str | None = typer.Option(
        None, metavar="LABEL", help="The agent's label in transcripts that do not say."
    ),
    whisper: str | None = typer.Option(
        None, metavar="MODEL", help="Also transcribe a minute of undecided calls, e.g. packaged:tiny.en."
    ),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object per call."),
) -> None:
    """Show which side of each call is the agent, on what evidence, and how much each voice bleeds into the other channel.

    Nothing is written. Exits with 3 if a call is undecided or cannot be used. `build --agent auto` decides in
    the same way; with `--words whisper` it also transcribes undecided calls, as --whisper does here.
    """
    from inkplex_data.corpus.read_corpus import read_corpus
    from inkplex_data.speech.agent.find import agent_rule

    rule = agent_rule(agent)
    found = read_corpus(corpus)
    rows = [{"call_id": one.call_id, "code": one.code, "message": one.message} for one in found.refused]
    failed = len(rows)
    for row in rows:
        _show(row, json_output=json_output)
    hear = _hearing(whisper) if whisper is not None else None
    for entry in found.entries:
        row = _row(entry, rule, confidence, agent_label, hear)
        failed += "code" in row
        _show(row, json_output=json_output)
    raise typer.Exit(3 if failed else 0)


def _hearing(model: str) -> Hear:
    from inkplex_data.speech.align.transcribe import NO_RETIMING, SpeechAligner

    return SpeechAligner(model, retime=NO_RETIMING).text


def _row(
    entry: CallEntry, agent: Rule, confidence: float, label: str | None, hear: Hear | None
) -> dict[str, Any]:
    from inkplex_data.audio.call_audio import open_files
    from inkplex_data.corpus.call_text import CallText
    from inkplex_data.errors import CallRefused
    from inkplex_data.problems import ProblemLog
    from inkplex_data.speech.agent.find import decide

    row: dict[str, Any] = {"call_id": entry.call_id}
    try:
        files, text = open_files(entry.audio), CallText.of(entry, agent=label)
        found = decide(entry, agent, files=files, text=text, threshold=confidence, hear=hear)
        row["by"] = found.by
        audio = files.channels(found.entry.channels)
        row["channels"] = {
            side: [ref.path.name, ref.channel_index]
            for side, ref in (("agent", audio.agent), ("caller", audio.caller))
        }
        if found.guess is not None:
            row |= found.guess.as_json()
        bleed = audio.scan(ProblemLog(entry.call_id)).bleed
    except CallRefused as error:
        return {**row, "code": error.code, "message": error.what}
    row["bleed"] = {f"{side}_voice": _bleed_json(one) for side, one in bleed.items()}
    return row


def _bleed_json(bleed: Bleed | None) -> dict[str, Any] | None:
    if bleed is None:
        return None
    return {
        "level_db": round(bleed.level_db, 1),
        "delay_ms": round(bleed.delay_ms, 1),
        "audible": bleed.audible,
    }


def _show(row: dict[str, Any], *, json_output: bool) -> None:
    if json_output:
        say(json.dumps(row))
        return
    if "code" in row:
        say(f"{row['call_id']}: [{row['code']}] {row['message']}")
        return
    (own_file, own), (_, other) = row["channels"]["agent"], row["channels"]["caller"]
    names = {(0, 1): "left", (1, 0): "right"}
    where = f"in {own_file}" if own == other else names.get((own, other), f"channel {own}")
    sure = f" {row['confidence']:.3f}" if "confidence" in row else ""
    say(f"{row['call_id']}: agent {where} ({row['by']}{sure})")
    for reason in row.get("evidence", ()):
        say(f"  {reason}")
    for name, one in row["bleed"].items():
        if one is not None:
            quiet = "" if one["audible"] else ", too weak to matter"
            say(
                f"  {name.removesuffix('_voice')}'s voice on the other channel: {one['level_db']} dB after {one['delay_ms']} ms{quiet}"
            )
