"""What an audit looked at, and what it found wrong: of one unit of work, and of all together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from inkplex_data.audit.causality import Audited
from inkplex_data.faults import Fault
from inkplex_data.plural import counted


@dataclass
class StoreAudit:
    """What an audit looked at, and what it found wrong."""

    calls: int = 0
    without_memory: int = 0
    recordings: int = 0
    steps: int = 0
    tokens: int = 0
    states: int = 0
    """Row triples of hidden states."""
    sampled: int = 0
    """Of these, computed once more."""
    versions: int = 0
    comparisons: int = 0
    """Live tokens summed over the steps: each was compared once."""
    sidecars: int = 0
    claims: int = 0
    partners: int = 0
    twins: int = 0
    pairs: int = 0
    frames: int = 0
    words: int = 0
    prefixes: int = 0
    violations: list[Fault] = field(default_factory=list)
    """The first of each call, or of the recording where no call is to blame; and all claims that their evidence does
    not carry, by code."""
    exceptions: list[Fault] = field(default_factory=list)
    """These claims, until all is known."""
    between: list[tuple[Fault, str]] = field(default_factory=list)
    """What two calls see differently, and the other of them: it says nothing where one is to blame anyway."""

    @property
    def clean(self) -> bool:
        return not self.violations

    def add(self, audited: Audited) -> None:
        self.steps += audited.steps
        self.versions += audited.versions
        self.comparisons += audited.comparisons

    def join(self, other: StoreAudit) -> None:
        """Add what another part of the audit found."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def settle(self) -> None:
        """Keep one violation of each call or recording, in the order of their names."""
        first: dict[str, Fault] = {}
        for fault in self.violations:
            first.setdefault(fault.where, fault)
        for fault, other in self.between:
            if fault.where not in first and other not in first:
                first[fault.where] = fault
        found = [*first.values(), *self.exceptions]
        self.violations = sorted(found, key=lambda violation: violation.where)
        self.between, self.exceptions = [], []

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {name: value for name, value in asdict(self).items() if name not in ("between", "exceptions")}

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> StoreAudit:
        """What `dataclasses.asdict` gave."""
        faults = {name: [Fault(**one) for one in found[name]] for name in ("violations", "exceptions")}
        between = [(Fault(**one), other) for one, other in found["between"]]
        return cls(**{**found, **faults, "between": between})

    def text(self) -> str:
        """The totals as a person reads them."""
        bad = len({violation.where for violation in self.violations})
        found = "no violation" if self.clean else f"violations in {bad:,} of the calls and recordings"
        return (
            f"{counted(self.calls, 'call')} ({self.without_memory:,} without memory) over "
            f"{counted(self.recordings, 'recording')}: {counted(self.frames, 'frame')}, {counted(self.words, 'word')}, "
            f"prefixes: {self.prefixes:,}, {counted(self.steps, 'step')}, {counted(self.tokens, 'token')}, "
            f"states of {counted(self.states, 'token')} ({self.sampled:,} computed again), "
            f"{counted(self.versions, 'version')}, {counted(self.comparisons, 'comparison')}; "
            f"{counted(self.sidecars, 'sidecar')}, {counted(self.claims, 'claim')}, {counted(self.partners, 'partner')} for wrong memory, "
            f"{counted(self.twins, 'twin')}, pairs of calls: {self.pairs:,}; {found}"
        )
