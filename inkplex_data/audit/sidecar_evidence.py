"""Audit of one call's sidecar: nothing of it may be read before it was available.

Rule: seeds/000, "Minimal dataset and private stream contract". A prediction frame may read only what had
become available and was delivered; the memory shows a token from its arrival on, so an update's tokens
must not arrive before the update did.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from pydantic import ValidationError

from inkplex_data.audit.causality import DatedTokens, Permission, audit_evidence
from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.corpus.sidecars.sidecar import availability_faults
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.errors import CausalityError
from inkplex_data.faults import FaultError

SAMPLED = ("thinking", "tool_call", "reply")
"""Kinds that the model produces token by token, so that the beginning is there before the whole is."""


def audit_sidecar(
    text: str, tokens: pl.DataFrame | None, recording_starts_at_us: int | None, *, call_id: str
) -> None:
    """Prove a stored sidecar against the tokens of the call's recording, both None without one.

    An update whose tokens were given to the model (a tool's result, what the caller said) is complete when
    it is available: none of its tokens arrives before that. One that the model sampled grows token by
    token: its last token does not. An update does not arrive before the evidence that it comes from.

    Raises CausalityError naming the call, the item and both times.
    """
    sidecar = read_stored_sidecar(text, call_id)
    for fault in availability_faults(sidecar):
        raise CausalityError(f"sidecar {fault}", where=call_id)
    _check_sources(sidecar, call_id)
    if tokens is None or recording_starts_at_us is None or sidecar.private_updates is None:
        return
    mapping = sidecar.private_updates.mapping
    if mapping is not None and seconds_to_us(mapping.recording_starts_at_s) != recording_starts_at_us:
        raise CausalityError(
            f"its recording starts at {mapping.recording_starts_at_s} s according to its sidecar, and at "
            f"{recording_starts_at_us} µs according to the calls table",
            where=call_id,
        )
    audit_evidence(tokens, _updates(sidecar, tokens, recording_starts_at_us), call_id=call_id)


def permissions_of(sidecar: Sidecar | None, recording_starts_at_us: int) -> list[Permission] | None:
    """What a sidecar permits frames to read, update by update; None where it has no list of permissions."""
    if sidecar is None or sidecar.masks is None or sidecar.masks.permitted_updates is None:
        return None
    intervals: dict[str, list[tuple[int, int | None]]] = {}
    for permitted in sidecar.masks.permitted_updates:
        end_us = None if permitted.end_s is None else recording_starts_at_us + seconds_to_us(permitted.end_s)
        begin_us = recording_starts_at_us + seconds_to_us(permitted.start_s)
        intervals.setdefault(permitted.update, []).append((begin_us, end_us))
    updates = sidecar.private_updates.updates if sidecar.private_updates else []
    return [
        Permission(update.rows[0], update.rows[1], tuple(intervals.get(update.id, ()))) for update in updates
    ]


def read_stored_sidecar(text: str, call_id: str) -> Sidecar:
    """The sidecar that the calls table keeps of a call. Raises CausalityError."""
    try:
        return Sidecar.model_validate(parse_json(text))
    except (FaultError, ValidationError) as error:
        raise CausalityError(f"its stored sidecar cannot be read: {error}", where=call_id) from error


def _updates(sidecar: Sidecar, tokens: pl.DataFrame, starts_at_us: int) -> Iterator[DatedTokens]:
    assert sidecar.private_updates is not None
    for update in sidecar.private_updates.updates:
        first, end = update.rows
        sampled = tokens["kind"][first:end].cast(pl.String).is_in(SAMPLED).any()
        begin = max(first, end - 1) if sampled and end <= len(tokens) else first
        available_us = starts_at_us + seconds_to_us(update.arrival_s)
        yield DatedTokens(f"sidecar update {update.id!r}", begin, end, available_us)


def _check_sources(sidecar: Sidecar, call_id: str) -> None:
    known = {item.id: item.arrival_s for item in sidecar.evidence.items} if sidecar.evidence else {}
    for update in sidecar.private_updates.updates if sidecar.private_updates else ():
        for name in update.source_events:
            if name in known and seconds_to_us(update.arrival_s) < seconds_to_us(known[name]):
                raise CausalityError(
                    f"sidecar update {update.id!r} arrives at {update.arrival_s} s, before its evidence "
                    f"{name!r} at {known[name]} s",
                    where=call_id,
                )
