"""`channels`: which side of each call is the agent, by what, and what is heard of one side on the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from inkplex_data.audio.bleed import Bleed
    from inkplex_data.corpus.entry import CallEntry
    from inkplex_data.speech.agent.find import Hear, Rule

PANEL = "Raw recordings"


def register(app: typer.Typer) -> None:
    app.command("channels", rich_help_panel=PANEL)(channels)


def channels(
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="A manifest, a Moshi inventory or a folder."),
    agent: str = typer.Option(
        "auto", help="left, right or auto (guess): the agent's channel where the corpus names none."
    ),
    confidence: float = typer.Option(
        0.8, min=0.5, max=0.999, help="Confidence from which a guess is acted on."
    ),
    agent_label: str | None = typer.Option(
        None, metavar="LABEL", help="The agent's label in transcripts, where they do not say."
    ),
    whisper: str | None = typer.Option(
        None, metavar="MODEL", help="Also hear the first minute of undecided calls, e.g. packaged:tiny.en."
    ),
    json_output: bool = typer.Option(False, "--json", help="One JSON object a call."),
) -> None:
    """Tell which side of each call is the agent, by what, and how much of each voice bleeds into the other channel.

    Nothing is written. Exits with 3 where a call could not be decided or cannot be used. `build --agent auto`
    decides in the same way; with `--words whisper` it also hears the calls, as --whisper does here.
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
    from inkplex_data.audio.call_audio import resolve_channels
    from inkplex_data.corpus.call_text import CallText
    from inkplex_data.errors import CallRefused
    from inkplex_data.problems import ProblemLog
    from inkplex_data.speech.agent.find import decide

    row: dict[str, Any] = {"call_id": entry.call_id}
    try:
        found = decide(entry, agent, text=CallText.of(entry, agent=label), threshold=confidence, hear=hear)
        row["by"] = found.by
        audio = resolve_channels(found.entry.audio, found.entry.channels)
        row["channels"] = {
            role: [audio.role(role).path.name, audio.role(role).channel_index] for role in ("agent", "caller")
        }
        if found.guess is not None:
            row |= found.guess.as_json()
        bleed = audio.scan(ProblemLog(entry.call_id)).bleed
    except CallRefused as error:
        return {**row, "code": error.code, "message": error.what}
    row["bleed"] = {f"{role}_voice": _bleed_json(one) for role, one in bleed.items()}
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
        typer.echo(json.dumps(row, ensure_ascii=False))
        return
    if "code" in row:
        typer.echo(f"{row['call_id']}: [{row['code']}] {row['message']}")
        return
    (own_file, own), (_, other) = row["channels"]["agent"], row["channels"]["caller"]
    names = {(0, 1): "left", (1, 0): "right"}
    where = f"in {own_file}" if own == other else names.get((own, other), f"channel {own}")
    sure = f" {row['confidence']:.3f}" if "confidence" in row else ""
    typer.echo(f"{row['call_id']}: agent {where}, by {row['by']}{sure}")
    for reason in row.get("evidence", ()):
        typer.echo(f"  {reason}")
    for name, one in row["bleed"].items():
        if one is not None:
            quiet = "" if one["audible"] else ", too weak to matter"
            typer.echo(
                f"  the {name.replace('_', ' ')} on the other channel: {one['level_db']} dB after {one['delay_ms']} ms{quiet}"
            )
