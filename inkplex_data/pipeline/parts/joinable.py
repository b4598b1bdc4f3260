"""Which stores can be joined: finished ones, of one recipe and the same tools, and of parts of a corpus all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.recordings.states_identity import differing_fields
from inkplex_data.errors import ConfigError, StoreError, UsageError
from inkplex_data.pipeline.ledger import is_locked
from inkplex_data.pipeline.target import differing_keys, is_same_tool, named
from inkplex_data.plural import shown
from inkplex_data.store.reader import Store, open_store

_IDENTITIES: Final = ("codec", "tokenizer", "whisper", "model")


def finished_store(path: Path) -> Store:
    """A store with a snapshot that nobody writes now. Raises UsageError, and StoreError while a build is at work on it."""
    if is_locked(path):
        raise StoreError(
            "a build is writing it",
            where=str(path),
            next_step="Wait for it, then run the same command again.",
        )
    store = open_store(path)
    if not store.complete:
        store.close()
        step = "Run its build again, which goes on from there; then join the stores."
        raise UsageError("its build has not finished", where=str(path), next_step=step)
    return store


def in_order(stores: Sequence[Store]) -> list[Store]:
    """The parts of one corpus by number; other stores as they are given. Raises UsageError."""
    parts = [store.description.get("part") for store in stores]
    if not any(parts):
        return list(stores)
    first = next(part for part in parts if part)
    named: dict[int, Store] = {}
    for store, part in zip(stores, parts, strict=True):
        if part is None or (part["of"], part["listing_sha256"]) != (first["of"], first["listing_sha256"]):
            raise UsageError(
                "is no part of the corpus that the other stores are parts of, as it was listed for them",
                where=store.root,
                next_step="Build it again from the same corpus, or leave it out.",
            )
        if part["number"] in named:
            raise UsageError(
                f"is part {part['number']} again", where=store.root, next_step="Name each part once."
            )
        named[part["number"]] = store
    lacking = [str(number) for number in range(1, first["of"] + 1) if number not in named]
    if lacking:
        raise UsageError(
            f"of {first['of']} parts these are not named: {shown(lacking)}",
            next_step="Build them with --part, and name all parts.",
        )
    return [named[number] for number in sorted(named)]


def refuse_different(stores: Sequence[Store]) -> None:
    """Raise ConfigError for stores that are not of one recipe and made by the same tools, naming what differs."""
    known: dict[str, tuple[Store, Any]] = {}
    for store in stores:
        faults: list[str] = []
        for part in ("configuration", *_IDENTITIES):
            own = store.description.get(part)
            if own is None:  # a store in which nothing could be built has no identities
                continue
            first, other = known.setdefault(part, (store, own))
            faults += [f"{what} in {first.root} and here" for what in _differing(part, other, own)]
        if faults:
            raise ConfigError(
                "the stores are not of one recipe and the same tools",
                where=store.root,
                faults=faults,
                next_step="Join stores that were built with the same recipe and models.",
            )


def _differing(part: str, other: Any, own: Any) -> list[str]:
    if part == "configuration":
        keys = differing_keys(other, own)
        return [f"{key}: {old!r} and {new!r}" for key, old, new in keys if key != "name"]
    if part == "model":
        return [f"model: {what}" for what in differing_fields(other, own)]
    return [] if is_same_tool(part, other, own) else [f"{part}: {named(other)} and {named(own)}"]
