"""All that decides which samples a loader gives, and in which order, as values that a saved position can be compared by."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inkplex_data.loader.prefix_choice import OWN
from inkplex_data.loader.windows import Cutter
from inkplex_data.store.call_groups import CallFilter


@dataclass(frozen=True)
class Order:
    """All that decides which samples there are and in which order, beside the stores."""

    seed: int
    split: str
    shuffle: bool
    cutter: Cutter
    mix: Sequence[float] | None
    call_ids: Mapping[int, Collection[str]] | None
    only: CallFilter | None = None
    prefix: str = OWN
    ranked: tuple[str, ...] | None = None
    """Calls in the order in which they come; None for the stored one."""

    def state(self) -> dict[str, Any]:
        """The same as JSON values, for comparison."""
        calls: str | None = None
        if self.call_ids is not None:
            stores = ["\0".join(sorted(set(calls))) for _, calls in sorted(self.call_ids.items())]
            calls = hashlib.sha256("\0\0".join(stores).encode()).hexdigest()
        return {
            "seed": self.seed,
            "split": self.split,
            "shuffle": self.shuffle,
            **vars(self.cutter),
            "mix": None if self.mix is None else [float(weight) for weight in self.mix],
            "calls": calls,
            # Without a word about it where nothing is chosen, as in states that were saved before one could.
            **(
                {"only": {name: sorted(_many(value)) for name, value in self.only.items()}}
                if self.only
                else {}
            ),
            # Said only where it is not the usual one, so that older positions stay valid.
            **({} if self.prefix == OWN else {"prefix": self.prefix}),
            **({} if self.ranked is None else {"ranked": _digest(self.ranked)}),
        }


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(names).encode()).hexdigest()


def _many(value: str | Collection[str]) -> Collection[str]:
    return [value] if isinstance(value, str) else value
