"""`split`, `crop` and `schema`: families in splits, parts of calls, and what each kind of file looks like."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

PANEL = "Corpus"

schema_app = typer.Typer(no_args_is_help=True, help="Print or write the JSON Schema of each kind of file.")


def register(app: typer.Typer) -> None:
    app.command("split", rich_help_panel=PANEL)(split)
    app.command("crop", rich_help_panel=PANEL)(crop)
    app.add_typer(schema_app, name="schema", rich_help_panel=PANEL)


def split(
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="A manifest, a Moshi inventory or a folder."),
    out: Path | None = typer.Option(
        None, "-o", "--out", parser=output, help="Splits file to write; printed by default."
    ),
    validation: float = typer.Option(0.05, help="Share of the families for validation."),
    test: float = typer.Option(0.05, help="Share of the families for test."),
    seed: int = typer.Option(0, help="Seed of the draw; the same seed and name always give the same split."),
    frozen: Path | None = typer.Option(None, help="A splits file whose families stay where they are."),
) -> None:
    """Divide a corpus into splits by family, as a build does. Related calls stay together; a frozen family never moves."""
    from collections import Counter

    from inkplex_data.atomic import replacing
    from inkplex_data.corpus.families.joined import family_links
    from inkplex_data.corpus.families.splits import assign_splits, given_splits, linked_families, read_splits
    from inkplex_data.corpus.models import SplitsFile
    from inkplex_data.corpus.read_corpus import read_corpus

    entries = read_corpus(corpus).entries
    fractions = {"validation": validation, "test": test}
    links = family_links((entry.call_id, entry.family, entry.marks) for entry in entries)
    assigned = assign_splits(
        [entry.family for entry in entries],
        read_splits(frozen).families if frozen is not None else {},
        fractions,
        seed,
        given=given_splits(entries),
        together=[*linked_families(entries), *({link.family, link.owner_family} for link in links)],
    )
    document = SplitsFile.model_validate(
        {"schema": "inkplex/splits@1", "seed": seed, "fractions": fractions, "families": assigned}
    )
    if out is None:  # in ASCII, which stays JSON on any terminal
        say(json.dumps(document.model_dump(mode="json", by_alias=True), indent=2))
    else:
        text = document.model_dump_json(by_alias=True, indent=2) + "\n"
        with replacing(out, size_bytes=len(text)) as file:
            file.write(text.encode())
    counts = Counter(assigned[entry.family] for entry in entries)
    say(", ".join(f"{name} {counts[name]}" for name in ("train", "validation", "test")) + " calls", err=True)


def crop(
    corpus: Path = typer.Argument(
        ..., metavar="CORPUS", help="A manifest, a Moshi inventory, a folder, or a call's audio file in one."
    ),
    call: str | None = typer.Argument(
        None, metavar="[CALL]", help="Id of the call, where there are several."
    ),
    start: float = typer.Option(..., "--from", min=0, metavar="SECONDS", help="Where the part begins."),
    end: float = typer.Option(..., "--to", min=0, metavar="SECONDS", help="Where it ends."),
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="FOLDER", help="Folder of the new corpus; empty or new."
    ),
) -> None:
    """Write a part of a call as a corpus of its own: audio, words, sidecar, task recording and its clock move together.

    Parts of many calls need no files: give the manifest's lines `clips`.
    """
    from inkplex_data.clock import seconds_to_us
    from inkplex_data.corpus.entry import Clip
    from inkplex_data.corpus.read_corpus import read_calls
    from inkplex_data.errors import UsageError
    from inkplex_data.export.cropped_corpus import crop_corpus

    clip = Clip(seconds_to_us(start), seconds_to_us(end))
    if clip.start_us >= clip.end_us:
        raise UsageError(f"--from must lie before --to (got {start} and {end})")
    part, problems = crop_corpus(read_calls(corpus), call, clip, out)
    for problem in problems:
        say(problem, err=True)
    say(f"{out}: {part.call_id}, {end - start:g} s")


@schema_app.command("export")
def schema_export(
    out: Path = typer.Option(Path("schemas"), "-o", "--out", parser=output, help="Folder to write into."),
) -> None:
    """Write NAME.schema.json (JSON Schema 2020-12) for each kind of file."""
    from inkplex_data.corpus.schemas import export_schemas

    for path in export_schemas(out):
        say(path)


@schema_app.command("show")
def schema_show(
    name: str = typer.Argument(..., help="manifest, alignment, sidecar, recording, splits or store"),
) -> None:
    """Print one schema."""
    from inkplex_data.corpus.schemas import schema_text, schemas
    from inkplex_data.errors import UsageError

    known = schemas()
    if name not in known:
        raise UsageError(f"there is no schema {name!r}", next_step=f"Name one of {', '.join(known)}.")
    say(schema_text(known[name]), nl=False)
