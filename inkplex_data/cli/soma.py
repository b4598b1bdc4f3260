"""`soma …`: the continual learner that scores texts, chats and dreams."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

if TYPE_CHECKING:
    from inkplex_data.soma.app.running_figures import Figures
    from inkplex_data.soma.learner.learner import Learner

PANEL = "Train"

soma_app = typer.Typer(
    no_args_is_help=True,
    help="A small model that learns text as it reads it, on a CPU, and tells what surprises it.",
)

_MODEL = typer.Argument(..., metavar="MODEL.pt", help="A model that `soma train` saved.")
_SOURCES = typer.Argument(
    ...,
    metavar="STORE|FILE…",
    help="A store (its task traces and calls), files of text (also .gz and .zst), or - for standard input.",
)
_LIMIT = typer.Option(200, min=1, help="Most tokens that soma says at a time.")
_TEMPERATURE = typer.Option(0.8, min=0, help="0 says the likeliest token each time.")
_SEED = typer.Option(0, min=0, help="Seed of what is drawn.")
_SAVE = typer.Option(True, help="Save the model with what it has heard and said.")


def register(app: typer.Typer) -> None:
    app.add_typer(soma_app, name="soma", rich_help_panel=PANEL)


@soma_app.command()
def train(
    sources: list[str] = _SOURCES,
    model: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="MODEL.pt", help="The model to go on with, or to make."
    ),
    bands: int | None = typer.Option(
        None, help="Bands of a new model, which are its width too; 16 by default."
    ),
    depth: int | None = typer.Option(None, help="Depth of a new model; 4 by default."),
    seed: int | None = typer.Option(None, min=0, help="Seed of a new model; 0 by default."),
    decimation: float | None = typer.Option(
        None,
        min=0,
        help="Gain on the stride between observations; 0 learns from every token. Kept in the model.",
    ),
    dream_every: int = typer.Option(0, min=0, help="Batches from one dream to the next; 0 for none."),
    dream_tokens: int = typer.Option(64, min=1, help="Most tokens of a dream."),
    save_every: float = typer.Option(60.0, min=0, help="Seconds from one save to the next."),
    json_events: bool = typer.Option(False, "--json", help="Print events and the summary as JSON lines."),
) -> None:
    """Read a corpus once and learn it.

    After an interruption the same command goes on where the last save was, and each byte is learned once.
    """
    from inkplex_data.errors import Interrupted
    from inkplex_data.soma.app.corpora import open_corpus
    from inkplex_data.soma.app.made_learner import made_learner
    from inkplex_data.soma.app.train_run import TrainOptions, stop_between_batches, train_pass
    from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer

    def tell(event: str, body: dict[str, Any]) -> None:
        if json_events:
            say(json.dumps({"event": event, **body}))
        elif event == "figures":
            say(f"{body['read_bytes']:>13,} bytes  {_told(body)}", err=True)
        elif event == "dream":
            say(f"dream: {body['text']}", err=True)

    shape = {"bands": bands, "depth": depth, "seed": seed}
    with open_corpus(sources) as corpus, stop_between_batches() as is_stopped:
        learner = made_learner(model, shape, decimation=decimation)
        options = TrainOptions(save_every, dream_every=dream_every, dream_tokens=dream_tokens)
        summary = train_pass(
            learner, model, corpus, SomaTokenizer.load(), options, tell=tell, is_stopped=is_stopped
        )
    if json_events:
        say(json.dumps({"event": "summary", "is_done": summary.is_done, **summary.figures.to_json()}))
    else:
        say(f"{model}: learned {_amount(summary.figures)}; {_told(summary.figures.to_json())}")
    if not summary.is_done:
        raise Interrupted(
            "stopped, and saved", next_step="Run the same command again; it goes on where it was."
        )


@soma_app.command(name="eval")
def evaluate(
    model: Path = _MODEL,
    sources: list[str] = _SOURCES,
    json_output: bool = typer.Option(False, "--json", help="Print the result as one JSON object."),
) -> None:
    """Score every token of a corpus without learning from it, and print bits per byte."""
    from inkplex_data.soma.app.corpora import open_corpus
    from inkplex_data.soma.app.evaluation import evaluate_corpus
    from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer

    learner = _loaded(model)
    with open_corpus(sources) as corpus:
        found = evaluate_corpus(learner, corpus, SomaTokenizer.load())
    if json_output:
        say(json.dumps(found.to_json()))
    else:
        say(found.text())


@soma_app.command()
def score(
    store: str = typer.Argument(..., metavar="STORE", help="Folder or fsspec URL of a store."),
    model: Path = typer.Option(
        ..., "-m", "--model", metavar="MODEL.pt", help="A model that `soma train` saved."
    ),
    out: Path = typer.Option(
        Path("scores.parquet"),
        "-o",
        "--out",
        parser=output,
        metavar="FILE.parquet",
        help="The table to write.",
    ),
    show: int = typer.Option(10, min=0, help="How many outliers to print."),
) -> None:
    """Score each call, turn and word of a store, and each task trace, in bits per byte, and name the outliers."""
    from inkplex_data.atomic import replacing
    from inkplex_data.pipeline.progress import reporter_for
    from inkplex_data.soma.score_store import score_store
    from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer
    from inkplex_data.store.reader import open_store
    from inkplex_data.text_scores import costly_words, outliers

    learner = _loaded(model)
    reporter = reporter_for()
    with open_store(store) as opened:
        reporter.stage("score", len(opened) + opened.owners("recordings").height)
        scores = score_store(learner, opened, SomaTokenizer.load(), advance=lambda: reporter.advance("score"))
    reporter.finish()
    with replacing(out) as file:
        scores.write_parquet(file)
    for row in outliers(scores, show).iter_rows(named=True):
        words = " ".join(costly_words(scores, row["call_id"]))
        say(f"{row['deviation']:+8.1f}  {row['bits_per_byte']:5.2f} bits/byte  {row['call_id']}  {words}")
    say(out)


@soma_app.command()
def chat(
    model: Path = _MODEL,
    limit: int = _LIMIT,
    temperature: float = _TEMPERATURE,
    seed: int = _SEED,
    save: bool = _SAVE,
) -> None:
    """Chat: each line of standard input is a turn, which soma learns and answers. Ctrl-C stops an answer; end with Ctrl-D."""
    from inkplex_data.soma.app.talk import hear, reply
    from inkplex_data.soma.learner.soma_checkpoint import save_learner
    from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer

    learner, tokenizer = _loaded(model), SomaTokenizer.load()
    for turn, line in enumerate(sys.stdin):
        if line.strip():
            hear(learner, tokenizer, line)
            _print(reply(learner, tokenizer, limit, seed=seed + turn, temperature=temperature))
    if save:
        save_learner(learner, model)


@soma_app.command()
def dream(
    model: Path = _MODEL,
    limit: int = _LIMIT,
    temperature: float = _TEMPERATURE,
    seed: int = _SEED,
    save: bool = _SAVE,
) -> None:
    """Let soma speak of its own accord. Ctrl-C stops it."""
    from inkplex_data.soma.app.talk import dream as dreamed
    from inkplex_data.soma.learner.soma_checkpoint import save_learner
    from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer

    learner = _loaded(model)
    _print(dreamed(learner, SomaTokenizer.load(), limit, seed=seed, temperature=temperature))
    if save:
        save_learner(learner, model)


@soma_app.command()
def models(
    where: Path = typer.Argument(
        Path(), metavar="FOLDER|MODEL.pt", help="A folder of models, or one of them."
    ),
    name: str | None = typer.Option(None, help="Write this name into the model's profile."),
    tagline: str | None = typer.Option(None, help="And this line below it."),
    art: str | None = typer.Option(None, help="And this picture of letters."),
    about: str | None = typer.Option(None, help="And these notes."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object per model."),
) -> None:
    """List the models of a folder, or show one; with options, edit its profile, which no save overwrites."""
    from inkplex_data.soma.app.model_shelf import described, edit_profile, list_models

    edits = {"name": name, "tagline": tagline, "art": art, "about": about}
    given = {key: value for key, value in edits.items() if value is not None}
    if given:
        edit_profile(where, given)
    found = list_models(where) if where.is_dir() else [described(where)]
    for model in found:
        say(json.dumps(model.to_json(), ensure_ascii=False) if json_output else model.text())
    if not found:
        say("no model here; `inkplex-data soma train STORE -o MODEL.pt` makes one")


@soma_app.command()
def serve(
    folder: Path = typer.Argument(Path(), metavar="FOLDER", help="Folder of models; new ones go there."),
    port: int = typer.Option(0, min=0, max=65_535, help="Port on this machine; any free one by default."),
) -> None:
    """Serve a page for training, chat, dreams and profiles, to this machine alone. Ctrl-C ends it."""
    from inkplex_data.soma.app.web_server import open_server

    with open_server(folder, port) as server:
        say(server.address)
        say("Open this address in a browser; whoever knows it may use the page. Ctrl-C ends it.", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended", err=True)


def _loaded(path: Path) -> Learner:
    from inkplex_data.libraries import require

    require("torch", extra="soma", needed_for="soma")
    from inkplex_data.soma.learner.soma_checkpoint import load_learner

    return load_learner(path)


def _print(pieces: Iterator[str]) -> None:
    try:
        for piece in pieces:
            say(piece, nl=False)
    except KeyboardInterrupt:
        pieces.close()  # type: ignore[attr-defined]
    say()


def _amount(figures: Figures) -> str:
    return f"{figures.source_bytes:,} bytes in {figures.tokens:,} tokens"


def _told(figures: dict[str, Any]) -> str:
    """Figures in one line."""

    def told(name: str, form: str) -> str:
        value = figures[name]
        return "–" if value is None else format(value, form)

    return (
        f"{told('bits_per_byte', '.3f')} bits/byte  top-1 {told('top1', '.1%')}  top-5 {told('top5', '.1%')}  "
        f"{told('bytes_per_s', ',.0f')} bytes/s  stride {figures['stride']}  "
        f"compression {told('compression', '.0%')}  rate {told('learning_rate', '.2g')}"
    )
