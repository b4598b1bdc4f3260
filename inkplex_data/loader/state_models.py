"""Whose the states of a store's recordings are, and whether several stores' are of one model."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from inkplex_data.corpus.recordings.states_identity import StatesIdentity, differing_fields
from inkplex_data.errors import ConfigError
from inkplex_data.speech.codec_identity import differing_arithmetic
from inkplex_data.store.documents import parse_value
from inkplex_data.store.reader import Store

log = logging.getLogger(__name__)

Model = dict[str, Any]
"""What `StatesIdentity.described` gives."""


def state_models(store: Store, recordings: Iterable[str] | None = None) -> list[Model]:
    """The models whose states a store's recordings hold, each once, in order of recordings; of some recordings only where
    they are named. States of stores of before, of which nothing is said, are none."""
    rows = store.recordings().filter(pl.col("states_identity").is_not_null())
    if recordings is not None:
        rows = rows.filter(pl.col("recording_id").is_in(list(recordings)))
    found: list[Model] = []
    for text in rows.sort("recording_ix").select("states_identity").collect()["states_identity"]:
        model = StatesIdentity.model_validate(parse_value(text, where=store.root)).described()
        if model not in found:
            found.append(model)
    return found


def refuse_mixed(stores: Sequence[Store], *, memory: bool = True) -> None:
    """Raise ConfigError where stores that are read together have other codecs or tokenizers, or, with `memory`, states of
    several models; warn where codecs of the same weights ran otherwise, on a CPU and on a GPU for example."""
    for store in stores[1:]:
        faults = [
            f"{part}: {theirs.get('id', theirs.get('name'))} here, {ours.get('id', ours.get('name'))} in {stores[0].root}"
            for part in ("codec", "tokenizer")
            for ours, theirs in [(stores[0].description.get(part, {}), store.description.get(part, {}))]
            if ours.get("sha256") != theirs.get("sha256")
        ]
        arithmetic = differing_arithmetic(
            stores[0].description.get("codec") or {}, store.description.get("codec") or {}
        )
        if arithmetic and not faults:
            log.warning(
                "%s: its codes were not made as those of %s: %s -> Build both alike where every code matters.",
                store.root,
                stores[0].root,
                "; ".join(arithmetic),
            )
        if faults:
            raise ConfigError(
                "its codes or its text are not of the kind that the first store has",
                where=store.root,
                faults=faults,
                next_step="Read stores of one codec and one tokenizer together.",
            )
    first: tuple[str, Model] | None = None
    for store in stores if memory else ():
        for model in state_models(store):
            first = first or (store.root, model)
            if others := differing_fields(first[1], model):
                raise ConfigError(
                    "the states are of two reasoning models",
                    where=store.root,
                    faults=[f"{fault} (the first is of {first[0]})" for fault in others],
                    next_step="Read stores of one reasoning model together, or read no memory.",
                )
