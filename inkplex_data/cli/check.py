"""`validate`, `verify`, `audit`: is a file what it claims to be, are the bytes intact, is every frame causal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from inkplex_data.cli.say import say
from inkplex_data.plural import counted

if TYPE_CHECKING:
    from inkplex_data.faults import Fault
    from inkplex_data.store.reader import Store

PANEL = "Check"


def register(app: typer.Typer) -> None:
    app.command("validate", rich_help_panel=PANEL)(validate)
    app.command("verify", rich_help_panel=PANEL)(verify)
    app.command("audit", rich_help_panel=PANEL)(audit)
    app.command("plan", rich_help_panel=PANEL)(plan)


def validate(
    paths: list[Path] = typer.Argument(
        ...,
        metavar="PATH...",
        help="Manifests, alignments, transcripts, sidecars, recordings, splits files, corpus folders or stores.",
    ),
    kind: str | None = typer.Option(None, help="What the file is, if its name and content do not show it."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object per fault."),
) -> None:
    """Check files against their schemas and rules. Each fault is reported with file, line or JSON pointer, value and rule.

    Exits with 1 if there are faults; notes are none.
    """
    from inkplex_data.corpus.validate import detect_kind, validate_path
    from inkplex_data.problems import CODES

    count = 0
    for path in paths:
        kind_of = kind or detect_kind(path)
        found = validate_path(path, kind_of)
        faults = [fault for fault in found if fault.code not in CODES or CODES[fault.code].severity != "info"]
        count += len(faults)
        _show(found, json_output=json_output)
        if not json_output:
            notes = f", {counted(len(found) - len(faults), 'note')}" if len(found) > len(faults) else ""
            told_faults = counted(len(faults), "fault") if faults else "no faults"
            say(f"{path}: {kind_of}, {told_faults}{notes}", err=bool(faults))
    raise typer.Exit(1 if count else 0)


def _show(faults: Sequence[Fault], *, json_output: bool) -> None:
    """Print every fault as JSON, or some of each kind for people."""
    from inkplex_data.problems.told import told

    if json_output:
        for fault in faults:
            say(json.dumps(fault.as_json()))
        return
    lines = [(fault.code or "without a code", str(fault)) for fault in faults]
    for line in told(lines, everything="--json lists all"):
        say(line)


STATES_SAMPLE = typer.Option(
    0,
    "--states-sample",
    min=0,
    metavar="N",
    help="Compute the states of N tokens again with the model that the recipe names.",
)


def verify(
    store: str = typer.Argument(..., metavar="STORE", help="Folder or fsspec URL of a store."),
    states_sample: int = STATES_SAMPLE,
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object per fault."),
) -> None:
    """Read every byte of a store and check sizes, digests, checksums, counts, and that its parts belong together.

    Exits with 1 if anything is wrong. That every frame is causal is what `audit` proves.
    """
    from inkplex_data.audit.states_sample import StatesSample, audit_states_sample
    from inkplex_data.cli.bars import progress_bar
    from inkplex_data.store.reader import open_store
    from inkplex_data.store.verify import verify_store

    with progress_bar("verify", in_bytes=True) as advance:
        faults = verify_store(store, progress=lambda key, done, total: advance(done, total))
    sample = StatesSample()
    # States of a store whose bytes changed are not worth a model.
    if states_sample and not faults:
        with open_store(store) as opened:
            sample = audit_states_sample(opened, states_sample)
        faults = sample.faults
    _show(faults, json_output=json_output)
    if not json_output:
        if sample.tokens:
            say(sample.text())
        say(f"{store}: " + (counted(len(faults), "fault") if faults else "all digests and checksums match"))
    raise typer.Exit(1 if faults else 0)


def plan(
    corpus: Path = typer.Argument(
        ..., metavar="CORPUS", help="Manifest, Moshi inventory or folder; or one recording."
    ),
    states: bool = typer.Option(False, "--states", help="Say what their states will take."),
    width: int = typer.Option(4_096, min=1, help="Width of a row; Inkling Small's by default."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Count the tokens of a corpus's recordings, and what their states will take before anything is captured.

    States are stored once a recording, however many calls name it. What recordings have in common at their beginnings is
    counted, as is what eight-bit rows would take.
    """
    from inkplex_data.corpus.assemble import RECORDING_SUFFIX
    from inkplex_data.corpus.read_corpus import read_corpus
    from inkplex_data.corpus.recordings.recording import read_recording
    from inkplex_data.memory.states_size import states_size

    if corpus.name.endswith((RECORDING_SUFFIX, "recording.jsonl")):
        paths = [corpus]
    else:
        entries = read_corpus(corpus).entries
        paths = list(dict.fromkeys(one.recording for one in entries if one.recording is not None))
    size = states_size(read_recording(path, allow_outside=True) for path in paths)
    told = size.as_dict(width)
    if json_output:
        say(json.dumps(told))
        return
    say(f"{corpus}: {counted(size.recordings, 'recording')}, {counted(size.tokens, 'token')}")
    if states:
        say(f"  states: {told['bytes'] / 1e9:,.3f} GB, {told['bytes_a_token']:,} bytes a token")
        say(f"  of them begins as another request does: {told['shared_bytes'] / 1e9:,.3f} GB")
        say(f"  in eight-bit rows with a scale each: {told['float8_bytes'] / 1e9:,.3f} GB")


def audit(
    store: str = typer.Argument(..., metavar="STORE", help="Folder or fsspec URL of a store."),
    calls: list[str] | None = typer.Argument(
        None, metavar="[CALL]...", help="Only these calls, and what they rest on."
    ),
    snapshot: int | None = typer.Option(None, help="Number of the snapshot; the newest by default."),
    against: Path | None = typer.Option(
        None,
        metavar="CORPUS",
        help="Build the corpus once more, without states, and compare every table and stream.",
    ),
    states_sample: int = STATES_SAMPLE,
    workers: int = typer.Option(1, min=1, help="Local processes."),
    log: Path | None = typer.Option(
        None,
        help="File to note results in as they come; with the same file an audit that was stopped goes on.",
    ),
    json_output: bool = typer.Option(False, "--json", help="Print a JSON object per violation, then totals."),
) -> None:
    """Prove that no frame of any call sees what had not yet arrived, and that each sees every live token exactly once.

    Visibility is derived again from tokens, clocks and permitted updates, step by step; frames, words, pieces, states,
    prefixes, sidecars, wrong memory and twins are checked too. Names the first violation in each call, and every claim
    that its evidence does not carry; exits with 1 if there is one.
    """
    from inkplex_data.audit.states_sample import audit_states_sample
    from inkplex_data.audit.store_audit import audit_store
    from inkplex_data.cli.bars import progress_bar
    from inkplex_data.cli.interrupts import going_on
    from inkplex_data.pipeline.execute import make_executor
    from inkplex_data.store.reader import open_store

    rerun = (
        f"Run the same command again; it goes on from {log}." if log else "Run it again, with --log to go on."
    )
    chosen = calls or None
    with open_store(store, snapshot) as opened, going_on(rerun):
        runner = make_executor(workers=workers) if workers > 1 else None
        try:
            with progress_bar("audit") as advance:
                found = audit_store(
                    opened,
                    calls=chosen,
                    runner=runner,
                    log=log,
                    progress=lambda item, done, total: advance(done, total),
                )
        finally:
            if runner is not None:
                runner.close(cancel=True)
        if states_sample:
            sample = audit_states_sample(opened, states_sample, calls=chosen)
            found.sampled = sample.tokens
            found.violations += sample.faults
        if against is not None:
            found.violations += _against(opened, against, chosen, workers)
    totals = {name: value for name, value in found.as_json().items() if name != "violations"}
    _show(found.violations, json_output=json_output)
    say(json.dumps(totals) if json_output else f"{store}: {found.text()}")
    raise typer.Exit(0 if found.clean else 1)


def _against(store: Store, corpus: Path, calls: Sequence[str] | None, workers: int) -> list[Fault]:
    """What differs from a build of `corpus`, which is made in a temporary folder."""
    from tempfile import TemporaryDirectory

    from inkplex_data.pipeline.standing.against import against_faults, rebuild

    with (
        TemporaryDirectory(prefix="inkplex-against-") as folder,
        rebuild(store, corpus, Path(folder) / "store", workers=workers) as anew,
    ):
        return list(against_faults(store, anew, calls))
