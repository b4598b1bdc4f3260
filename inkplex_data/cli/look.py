"""`inspect`, `stats`, `report`: ways to look at a store."""

from __future__ import annotations

from pathlib import Path

import typer

PANEL = "Look"


def register(app: typer.Typer) -> None:
    app.command("inspect", rich_help_panel=PANEL)(inspect)


def inspect(
    store: str = typer.Argument(..., metavar="STORE", help="Folder or fsspec URL of a store."),
    call: str | None = typer.Argument(
        None, metavar="[CALL]", help="Id of the call to draw; without one, the store's summary."
    ),
    snapshot: int | None = typer.Option(None, help="A snapshot by number; the newest by default."),
) -> None:
    """Show a store's summary, or draw one call: both channels, words, text pieces, prefix and memory."""
    if call is None:
        show_store(store, snapshot=snapshot)
    else:
        show_call(store, call, snapshot=snapshot)


def show_store(store: str | Path, *, snapshot: int | None = None) -> None:
    raise NotImplementedError


def show_call(store: str | Path, call_id: str, *, snapshot: int | None = None) -> None:
    raise NotImplementedError
