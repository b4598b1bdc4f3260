"""Proof that no claim is made before its evidence had arrived, or after something else had taken its place.

Another route than `corpus.sidecars.claims`: what a shard's evidence and claims tables hold is compared with the JSON of
the sidecar, which words make a claim is asked of the stored words, and each of those words is put to each item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from inkplex_data.audit.sidecar_evidence import read_stored_sidecar
from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.sidecars.claims import claim_faults
from inkplex_data.corpus.sidecars.sidecar_models import OLDER_STATUS
from inkplex_data.errors import CausalityError
from inkplex_data.faults import Fault
from inkplex_data.store.call import Call
from inkplex_data.store.documents import parse_value

_ITEM = {
    "id": "evidence_id", "kind": "kind", "reference": "reference", "status": "status", "attribution": "attribution",
    "available_at_s": "available_us", "ready_at_s": "ready_us", "superseded_by": "superseded_by",
}  # fmt: skip
_CLAIM = {"text": "text", "start_s": "start_us", "end_s": "end_us", "supported_by": "supported_by"}
_DEFAULTS = {"status": "unknown", "supported_by": []}


def audit_claims(call: Call, main_speaker: str | None) -> list[Fault]:
    """Every claim of a call that its evidence does not carry, by code; `main_speaker` None is everybody.

    Raises CausalityError where the stored tables differ from the call's sidecar or words.
    """
    if call.row["claims"] is None:  # of a shard that was written before there were such tables
        return [] if call.sidecar is None else list(claim_faults(call.sidecar))
    text = call.row["sidecar"] or "{}"
    if call.row["sidecar"] is not None:
        read_stored_sidecar(text, call.call_id)
    said = parse_value(text, where=call.call_id).get("evidence") or {}
    evidence, claims = call.evidence, call.claims
    _compare("evidence", evidence, said.get("items", []), _ITEM)
    _compare("claim", claims, said.get("claims", []), _CLAIM)
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


def _compare(what: str, stored: pl.DataFrame, said: list[dict[str, Any]], columns: dict[str, str]) -> None:
    """Raise CausalityError unless the rows say in `columns` what the sidecar's objects do, in their order."""
    if stored.height != len(said):
        raise CausalityError(f"it has {stored.height} rows of {what}, and its sidecar {len(said)}")
    for index, (row, given) in enumerate(zip(stored.iter_rows(named=True), said, strict=True)):
        for name, column in columns.items():
            wanted: Any = given.get(name, _DEFAULTS.get(name))
            if name == "status":
                wanted = OLDER_STATUS.get(wanted, wanted)
            elif name.endswith("_s") and wanted is not None:
                wanted = seconds_to_us(wanted)
            if row[column] != wanted:
                stands = f"{column} {row[column]!r}, its sidecar says {wanted!r}"
                raise CausalityError(f"its {what} {index} is stored with {stands}")


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
    starts = sorted(words.select("start_us", "text").rows())
    if not starts and claim["start_us"] is not None:
        starts = [(claim["start_us"], claim["text"])]
    for evidence_id in claim["supported_by"]:
        arrives_us, ends_us = (items[evidence_id][column] for column in ("arrival_us", "superseded_us"))
        unknown = ends_us is None and items[evidence_id]["status"] == "superseded"
        early = [one for one in starts if one[0] < arrives_us]
        late = [one for one in starts if unknown or (ends_us is not None and one[0] >= ends_us)]
        since = "nobody says since when" if unknown else f"since {ends_us} µs"
        for code, bad, what in (
            ("claim-before-evidence", early, f"before {evidence_id!r} arrives at {arrives_us} µs"),
            ("claim-superseded", late, f"when {evidence_id!r} is superseded, {since}"),
        ):
            if bad:
                yield Fault(f"{name}: {bad[0][1]!r:.40} starts at {bad[0][0]} µs, {what}", code=code)
