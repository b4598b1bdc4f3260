"""Which words make a claim, and whether its evidence stood when they were said.

Rule: seeds/000, "Minimal dataset and private stream contract" (claim support), and its tests of what a model may
assert: nothing before its evidence was delivered, and nothing that rests on evidence that something else has replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.sidecars.sidecar_models import Claim, EvidenceItem, Sidecar
from inkplex_data.faults import Fault

Said = tuple[int, str]
"""Start in µs on the clip's timeline, and text, of one word of the agent."""

_PARTS = re.compile(r"\w+")


def claim_words(claim: Claim, said: Sequence[Said]) -> list[int]:
    """Indices into `said` of the words that make a claim, in order.

    Those that start within its times; of a claim without times, those that say its text, wherever they do.

    >>> claim_words(Claim(text="It is ten."), [(0, "Well, it"), (1, "is"), (2, "ten."), (3, "Ten")])
    [0, 1, 2]
    """
    if claim.start_s is not None and claim.end_s is not None:
        start_us, end_us = seconds_to_us(claim.start_s), seconds_to_us(claim.end_s)
        return [index for index, (at_us, _) in enumerate(said) if start_us <= at_us < end_us]
    wanted = _parts(claim.text)
    parts = [(part, index) for index, (_, text) in enumerate(said) for part in _parts(text)]
    spelled = [part for part, _ in parts]
    found: set[int] = set()
    for at in range(len(parts) - len(wanted) + 1) if wanted else ():
        if spelled[at : at + len(wanted)] == wanted:
            found.update(index for _, index in parts[at : at + len(wanted)])
    return sorted(found)


def _parts(text: str) -> list[str]:
    return _PARTS.findall(text.casefold())


def superseded_us(item: EvidenceItem, arrival_us: dict[str, int]) -> int | None:
    """From when on nothing may rest on an item: the arrival of what took its place. None where that is not known."""
    return None if item.superseded_by is None else arrival_us[item.superseded_by]


def evidence_arrivals(sidecar: Sidecar) -> dict[str, int]:
    """Evidence id → when it has arrived, in µs on the clip's timeline."""
    items = sidecar.evidence.items if sidecar.evidence else []
    return {item.id: seconds_to_us(item.arrival_s) for item in items}


def claim_faults(sidecar: Sidecar, said: Sequence[Said] | None = None) -> Iterator[Fault]:
    """Every claim that its evidence does not carry, with code claim-before-evidence, -superseded or -unsupported.

    `said`: the agent's words, those of the sidecar by default. A claim with times and without words begins at its
    own start. Evidence carries a claim from its arrival on, and until what replaced it arrives.
    """
    if sidecar.evidence is None:
        return
    arrivals_us = evidence_arrivals(sidecar)
    items = {item.id: item for item in sidecar.evidence.items}
    for index, claim in enumerate(sidecar.evidence.claims):
        pointer = f"/evidence/claims/{index}"
        if not claim.supported_by:
            rule = f"says {claim.text!r:.60} and rests on no evidence"
            yield Fault(rule, pointer=f"{pointer}/supported_by", code="claim-unsupported")
        starts_us = claim_starts(claim, _own_words(sidecar) if said is None else said)
        if not starts_us:
            continue
        for name in claim.supported_by:
            arrives_us, ends_us = arrivals_us[name], superseded_us(items[name], arrivals_us)
            if starts_us[0] < arrives_us:
                rule = f"begins before its evidence {name!r} arrives at {arrives_us / 1e6} s"
                yield _at(rule, starts_us[0], pointer, "claim-before-evidence")
            if ends_us is not None and starts_us[-1] >= ends_us:
                rule = f"goes on after its evidence {name!r} was superseded at {ends_us / 1e6} s"
                late_us = next(start_us for start_us in starts_us if start_us >= ends_us)
                yield _at(rule, late_us, pointer, "claim-superseded")
            elif ends_us is None and items[name].status == "superseded":
                rule = f"rests on {name!r}, which was superseded nobody says when"
                yield _at(rule, starts_us[0], pointer, "claim-superseded")


def claim_starts(claim: Claim, said: Sequence[Said]) -> list[int]:
    """When the words of a claim start, in order; its own start where it has times and no words."""
    found = sorted(said[index][0] for index in claim_words(claim, said))
    return found or ([] if claim.start_s is None else [seconds_to_us(claim.start_s)])


def _own_words(sidecar: Sidecar) -> list[Said]:
    words = sidecar.words
    own = [word for word in words.items if word.speaker == words.main_speaker] if words else []
    return [(seconds_to_us(word.start_s), word.text) for word in own]


def _at(rule: str, start_us: int, pointer: str, code: str) -> Fault:
    return Fault(rule, f"{start_us / 1e6} s", f"{pointer}/start_s", code=code)
