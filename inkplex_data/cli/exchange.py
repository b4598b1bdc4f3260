"""`export` and `import`: calls and trained models for other tools and trainers, and theirs for ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from inkplex_data.cli.output import output
from inkplex_data.cli.say import say

if TYPE_CHECKING:
    from inkplex_data.corpus.entry import Corpus
    from inkplex_data.export.calls import ExportSummary
    from inkplex_data.store.reader import Store

PANEL = "Exchange"
Form = Literal["disk", "parquet"]

export_app = typer.Typer(
    no_args_is_help=True, help="Write calls, and trained models, in layouts that others read."
)
import_app = typer.Typer(no_args_is_help=True, help="Read what other tools have written.")


def register(app: typer.Typer) -> None:
    app.add_typer(export_app, name="export", rich_help_panel=PANEL)
    app.add_typer(import_app, name="import", rich_help_panel=PANEL)


SOURCE = typer.Argument(
    ..., metavar="STORE|CORPUS", help="A store, or a corpus: a manifest, a Moshi inventory or a folder."
)
AGENT = typer.Option(None, help="Label or channel number of the agent in a corpus's transcripts.")


@export_app.command("moshi-finetune")
def moshi_finetune(
    source: str = SOURCE,
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder to write into; empty or new."
    ),
    agent: str | None = AGENT,
) -> None:
    """Write stereo files, word JSON and JSONL inventories as the Moshi fine-tuning code reads them.

    A corpus keeps its samples, its rate and its words. A store has no waveforms: only its words are written,
    and inventories that name the audio.
    """
    from inkplex_data.export.moshi import export_corpus, export_store

    _export(
        source,
        lambda store: export_store(store, out),
        lambda corpus: export_corpus(corpus, out, agent=agent),
    )


@export_app.command("hf")
def hf(
    source: str = SOURCE,
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder to write into; empty or new."
    ),
    form: Form = typer.Option("disk", help="disk (for load_from_disk) or parquet (features included)."),
    agent: str | None = AGENT,
) -> None:
    """Write a Hugging Face dataset, one row per call: audio and words of a corpus, or codes, text and words of a store."""
    _without_bars()
    from inkplex_data.export.hf import export_hf_corpus, export_hf_store

    _export(
        source,
        lambda store: export_hf_store(store, out, form=form),
        lambda corpus: export_hf_corpus(corpus, out, form=form, agent=agent),
    )


RUN = typer.Argument(..., metavar="RUN", help="Folder of a training run, or one of its checkpoints.")


@export_app.command("adapter")
def adapter(
    run: Path = RUN,
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder to write into; empty or new."
    ),
) -> None:
    """Write a run's LoRA adapter as the public moshi package loads it beside the base model.

    lora.safetensors and config.json go to moshi.server as --lora-weight and --config-path. The base model is not read.
    """
    from inkplex_data.trainer.run.take_out import export_adapter

    for path in export_adapter(run, out):
        say(path)


@export_app.command("model")
def model(
    run: Path = RUN,
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder to write into; empty or new."
    ),
    weights: str | None = typer.Option(
        None,
        "--model",
        metavar="PATH",
        help="The weights that the run began with, if they are not where its recipe says.",
    ),
) -> None:
    """Write a run's whole speech model under the released names, adapters merged, with its config.json.

    The folder works as --model of train, and as weights and configuration of the public moshi package.
    """
    from inkplex_data.trainer.run.take_out import export_model

    for path in export_model(run, out, weights=weights):
        say(path)


@import_app.command("hf")
def import_hf_command(
    source: str = typer.Argument(
        ..., metavar="DATASET", help="A save_to_disk folder, a folder of Parquet files, or a hub id."
    ),
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder of the corpus; empty or new."
    ),
    audio: str | None = typer.Option(None, help="Column of the two-channel audio, if there are several."),
    words: str = typer.Option("words", help="Column of the words."),
) -> None:
    """Turn a Hugging Face dataset of calls into a corpus: unchanged audio files, word JSON and a manifest."""
    _without_bars()
    from inkplex_data.export.hf_import import import_hf

    _end(import_hf(source, out, audio=audio, words=words))


@import_app.command("words")
def import_words(
    transcripts: list[Path] = typer.Argument(
        ..., metavar="TRANSCRIPT...", help="Transcripts in any supported format."
    ),
    out: Path = typer.Option(
        ..., "-o", "--out", parser=output, metavar="DIR", help="Folder for the Moshi JSON files."
    ),
    agent: str | None = typer.Option(None, help="Label or channel number of the agent."),
) -> None:
    """Convert transcripts to Moshi JSON files of the same names. Exits with 3 if some could not be read.

    Formats are recognised by content: Amazon Transcribe and Call Analytics, Azure, Google, Deepgram, OpenAI, whisper-timestamped,
    WhisperX, Harper Valley, CTM, TextGrid. Captions (SRT, VTT) and plain text have no word times; `align` finds them.
    RTTM files have speakers only; give them to `diarize --rttm`.
    """
    from inkplex_data.export.word_files import convert_words

    summary = convert_words(transcripts, out, agent=agent)
    _end(summary)


def _without_bars() -> None:
    """Keep progress bars to terminals: the library draws them everywhere unless told otherwise before it is loaded."""
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")


def _export(
    source: str, of_store: Callable[[Store], ExportSummary], of_corpus: Callable[[Corpus], ExportSummary]
) -> None:
    if "://" in source or (Path(source) / "store.json").is_file():
        from inkplex_data.store.reader import open_store

        with open_store(source) as store:
            _end(of_store(store))
    from inkplex_data.corpus.read_corpus import read_corpus

    _end(of_corpus(read_corpus(Path(source))))


def _end(summary: ExportSummary) -> None:
    say(summary.text())
    raise typer.Exit(summary.exit_code)
