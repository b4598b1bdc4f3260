"""What a call's sidecar says of evidence, claims and permissions, as tables of a shard and as problems."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.sidecars.claims import (
    Said,
    claim_faults,
    claim_words,
    evidence_arrivals,
    superseded_us,
)
from inkplex_data.corpus.sidecars.sidecar_models import Claim, Sidecar, Target
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.memory.permissions import Permitted, permitted_tokens
from inkplex_data.plural import counted
from inkplex_data.problems import ProblemLog, refusal
from inkplex_data.store.format import CLAIMS, EVIDENCE


def evidence_table(sidecar: Sidecar | None) -> pl.DataFrame:
    """The items of a sidecar as `format.EVIDENCE` has them, without call_ix."""
    items = sidecar.evidence.items if sidecar and sidecar.evidence else []
    arrivals_us = evidence_arrivals(sidecar) if sidecar else {}
    rows = [
        {
            "evidence_id": item.id,
            "kind": item.kind,
            "reference": item.reference,
            "status": item.status,
            "attribution": item.attribution,
            "available_us": seconds_to_us(item.available_at_s),
            "ready_us": None if item.ready_at_s is None else seconds_to_us(item.ready_at_s),
            "arrival_us": arrivals_us[item.id],
            "superseded_by": item.superseded_by,
            "superseded_us": superseded_us(item, arrivals_us),
        }
        for item in items
    ]
    return pl.DataFrame(rows, schema={name: dtype for name, dtype in EVIDENCE.items() if name != "call_ix"})


def claims_table(sidecar: Sidecar | None, words: Sequence[TimedWord], main: str | None) -> pl.DataFrame:
    """The claims of a sidecar as `format.CLAIMS` has them, without call_ix. `words`: all of the call, in stored order."""
    own = _own(words, main)
    targets = sidecar.targets.items if sidecar and sidecar.targets else []
    said, rows = [one for _, one in own], []
    for index, claim in enumerate(sidecar.evidence.claims if sidecar and sidecar.evidence else ()):
        made_of = claim_words(claim, said)
        starts_us = [said[at][0] for at in made_of]
        rows.append(
            {
                "claim_ix": index,
                "text": claim.text,
                "start_us": None if claim.start_s is None else seconds_to_us(claim.start_s),
                "end_us": None if claim.end_s is None else seconds_to_us(claim.end_s),
                "supported_by": claim.supported_by,
                "words": [own[at][0] for at in made_of],
                "targets": [at for at, one in enumerate(targets) if _lies_in(claim, starts_us, one)],
            }
        )
    return pl.DataFrame(rows, schema={name: dtype for name, dtype in CLAIMS.items() if name != "call_ix"})


def note_claims(
    sidecar: Sidecar | None, words: Sequence[TimedWord], main: str | None, log: ProblemLog
) -> None:
    """Problems of claims that their evidence does not carry."""
    if sidecar is None:
        return
    for fault in claim_faults(sidecar, [said for _, said in _own(words, main)]):
        got = f" (got {fault.value})" if fault.value else ""
        log.add(fault.code, f"a claim {fault.rule}{got}", item=fault.pointer)


def permissions(sidecar: Sidecar | None, tokens: int, starts_at_us: int, log: ProblemLog) -> Permitted | None:
    """As `permitted_tokens`; tokens that no frame may see are noted.

    Raises CallRefused for an update of rows that a recording of so many tokens does not have.
    """
    for update in sidecar.private_updates.updates if sidecar and sidecar.private_updates else ():
        if update.rows[1] > tokens:
            first, stop = update.rows
            what = f"update {update.id!r} names rows {first} to {stop} of a recording of {counted(tokens, 'token')}"
            raise refusal("update-rows", what)
    permitted = permitted_tokens(sidecar, tokens, starts_at_us)
    if permitted is not None and permitted.never:
        log.add(
            "tokens-not-permitted",
            f"{permitted.never:,} of {counted(tokens, 'token')} are permitted to no frame",
        )
    return permitted


def _own(words: Sequence[TimedWord], main: str | None) -> list[tuple[int, Said]]:
    """(word_ix, what is said) of the agent's words."""
    return [(at, (word.start_us, word.text)) for at, word in enumerate(words) if word.is_by(main)]


def _lies_in(claim: Claim, starts_us: Sequence[int], target: Target) -> bool:
    """Whether a claim whose words start then is made in a target's time; of one without time, in its text."""
    if target.start_s is None or target.end_s is None:
        return claim.text in (target.text or "")
    if claim.start_s is not None and claim.end_s is not None:
        return max(claim.start_s, target.start_s) < min(claim.end_s, target.end_s)
    return any(seconds_to_us(target.start_s) <= us < seconds_to_us(target.end_s) for us in starts_us)
