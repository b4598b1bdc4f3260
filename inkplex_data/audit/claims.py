"""Proof that no claim is made before its evidence had arrived, or after something else had taken its place.

Another route than `corpus.sidecars.claims`: what a shard's evidence and claims tables hold is compared with the JSON of
the sidecar, which words make a claim is asked of the stored words, and each of those words is put to each item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.sidecars.claims import claim_faults
from inkplex_data.corpus.sidecars.sidecar_models import OLDER_STATUS
from inkplex_data.errors import CausalityError
from inkplex_data.faults import Fault
from inkplex_data.store.call import Call

_TIMES = {
    "available_at_s": "available_us",
    "ready_at_s": "ready_us",
    "start_s": "start_us",
    "end_s": "end_us",
}


def audit_claims(call: Call, main_speaker: str | None) -> list[Fault]:
    """Every claim of a call that its evidence does not carry, by code; `main_speaker` None is everybody.

    Raises CausalityError where the stored tables differ from the call's sidecar or words.
    """
    if call.row["claims"] is None:  # of a shard that was written before there were such tables
        return [] if call.sidecar is None else list(claim_faults(call.sidecar))
    said = json.loads(call.row["sidecar"] or "{}").get("evidence") or {}
    evidence, claims = call.evidence, call.claims
    _compare("evidence", evidence.rename({"evidence_id": "id"}), said.get("items", []))
    _compare("claim", claims, said.get("claims", []))
    arrivals_us = dict(evidence.select("evidence_id", "arrival_us").rows())
    for item in evidence.iter_rows(named=True):
        arrival_us = max(us for us in (item["available_us"], item["ready_us"]) if us is not None)
        if item["arrival_us"] != arrival_us or item["superseded_us"] != arrivals_us.get(
            item["superseded_by"]
        ):
            raise CausalityError(
                f"its evidence {item['evidence_id']!r} is stored with other times than it has"
            )
    own = call.words if main_speaker is None else call.words.filter(speaker=main_speaker)
    items = {item["evidence_id"]: item for item in evidence.iter_rows(named=True)}
    found: list[Fault] = []
    for claim in claims.iter_rows(named=True):
        words = own.filter(pl.col("word_ix").is_in(claim["words"]))
        _check_words(claim, own, words)
        found += _exceptions(claim, words, items)
    return found


def _compare(what: str, stored: pl.DataFrame, said: list[dict[str, Any]]) -> None:
    """Raise CausalityError unless the rows say what the sidecar's objects do, in their order."""
    if stored.height != len(said):
        raise CausalityError(f"it has {stored.height} rows of {what}, and its sidecar {len(said)}")
    for index, (row, given) in enumerate(zip(stored.iter_rows(named=True), said, strict=True)):
        for name, value in given.items():
            column = _TIMES.get(name, name)
            wanted = (
                seconds_to_us(value)
                if name in _TIMES
                else OLDER_STATUS.get(value, value)
                if name == "status"
                else value
            )
            if row[column] != wanted:
                raise CausalityError(
                    f"its {what} {index} is stored with {column} {row[column]!r}, its sidecar says {wanted!r}"
                )


def _check_words(claim: dict[str, Any], own: pl.DataFrame, words: pl.DataFrame) -> None:
    """Raise CausalityError unless the claim's words are those of the agent within its times, or that say its text."""
    if claim["start_us"] is not None:
        start = pl.col("start_us")
        right = own.filter((start >= claim["start_us"]) & (start < claim["end_us"]))["word_ix"].to_list()
        wrong = sorted(claim["words"]) != sorted(right)
    else:
        text, wanted = (
            "".join(re.findall(r"\w", part.casefold())) for part in (" ".join(words["text"]), claim["text"])
        )
        wrong = words.height != len(claim["words"]) or (words.height > 0 and wanted not in text)
    if wrong:
        raise CausalityError(
            f"its claim {claim['text']!r:.60} is stored with the words {claim['words']}, which do not make it"
        )


def _exceptions(
    claim: dict[str, Any], words: pl.DataFrame, items: dict[str, dict[str, Any]]
) -> Iterator[Fault]:
    name = f"claim {claim['text']!r:.60}"
    if not claim["supported_by"]:
        yield Fault(f"{name} rests on no evidence", code="claim-unsupported")
    starts = list(words.select("start_us", "text").rows())
    if not starts and claim["start_us"] is not None:
        starts = [(claim["start_us"], claim["text"])]
    for evidence_id in claim["supported_by"]:
        item = items[evidence_id]
        early = [(us, text) for us, text in starts if us < item["arrival_us"]]
        if early:
            yield _exception(
                name,
                *early[0],
                f"before {evidence_id!r} arrives at {item['arrival_us']} µs",
                "claim-before-evidence",
            )
        ends_us = item["superseded_us"]
        if ends_us is None and item["status"] == "superseded" and starts:
            yield _exception(
                name, *starts[0], f"on {evidence_id!r}, superseded nobody says when", "claim-superseded"
            )
        late = [(us, text) for us, text in starts if ends_us is not None and us >= ends_us]
        if late:
            yield _exception(
                name, *late[0], f"after {evidence_id!r} was superseded at {ends_us} µs", "claim-superseded"
            )


def _exception(name: str, start_us: int, text: str, what: str, code: str) -> Fault:
    return Fault(f"{name}: {text!r:.40} starts at {start_us} µs, {what}", code=code)
