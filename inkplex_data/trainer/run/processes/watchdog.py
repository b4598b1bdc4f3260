"""Who hangs: every rank says what it does, and one that waits for others for long names those that do not come.

Ranks tell each other through a store of their own, from a thread that goes on while the process waits. A rank whose
thread falls silent too, because it was killed or stopped, is named as one that does not answer.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

_LONGEST_BEAT_S = 5.0
_ANSWER = timedelta(seconds=10)
"""How long the store of rank 0 may take to answer."""

log = logging.getLogger(__name__)


class Watchdog:
    """One rank's view of the others. `doing` and `waiting` are called by the thread that trains."""

    def __init__(self, rank: int, world_size: int, patience_s: float) -> None:
        """Every rank calls it, within a process group. patience_s: how long a wait may take before anybody is named."""
        self._rank, self._world_size, self._patience_s = rank, world_size, patience_s
        host = os.environ.get("MASTER_ADDR", "localhost")
        said: list[Any] = [None]
        if rank == 0:
            self._store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=_ANSWER)
            said = [self._store.port]
        dist.broadcast_object_list(said, src=0)
        if rank:
            self._store = dist.TCPStore(host, said[0], is_master=False, timeout=_ANSWER)
        self._now = ("begins", False, time.monotonic())
        self._beats = 0
        self._seen: dict[int, tuple[int, float]] = {}
        self._others: dict[int, dict[str, Any]] = {}
        self._silent_since: float | None = None
        self._named_at = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def doing(self, what: str) -> None:
        """This rank works on something of its own."""
        self._now = (what, False, time.monotonic())

    def waiting(self, what: str) -> None:
        """This rank waits for all others, to do `what` together."""
        self._now = (what, True, time.monotonic())

    def suspects(self) -> str:
        """Who does not come, and what they were at; empty where nobody is known to be missing."""
        now, stale_s = time.monotonic(), 3 * self._beat_s()
        if self._silent_since is not None and self._rank:
            return f"rank 0 does not answer for {now - self._silent_since:.0f} s"
        named = []
        for rank, other in sorted(self._others.items()):
            silent_s = now - self._seen[rank][1]
            who = f"rank {rank} on {other['host']}"
            if silent_s > stale_s:
                named.append(f"{who} does not answer for {silent_s:.0f} s; it last said: {other['what']}")
            elif not other["waits"]:
                named.append(f"{who} is at this for {other['for_s']:.0f} s: {other['what']}")
        return "; ".join(named)

    def close(self) -> None:
        self._end.set()
        self._thread.join(timeout=1)

    def _beat_s(self) -> float:
        return min(self._patience_s / 4, _LONGEST_BEAT_S)

    def _watch(self) -> None:
        while not self._end.wait(self._beat_s()):
            what, waits, since = self._now
            try:
                self._tell(what, waits, time.monotonic() - since)
                self._silent_since = None
            except (RuntimeError, ValueError):  # The store has gone, or does not answer: rank 0 has it.
                self._silent_since = self._silent_since or time.monotonic()
            waited_s = time.monotonic() - max(since, self._named_at)
            if waits and waited_s > self._patience_s and self._speaks():
                self._named_at = time.monotonic()
                log.warning(
                    "rank %d waits for %.0f s (%s): %s",
                    self._rank,
                    time.monotonic() - since,
                    what,
                    self.suspects() or "nobody is known to be missing",
                )

    def _tell(self, what: str, waits: bool, for_s: float) -> None:
        self._beats += 1
        mine = {
            "beat": self._beats,
            "host": socket.gethostname(),
            "what": what,
            "waits": waits,
            "for_s": for_s,
        }
        self._store.set(f"rank/{self._rank}", json.dumps(mine))
        for rank in range(self._world_size):
            key = f"rank/{rank}"
            if rank != self._rank and self._store.check([key]):
                other = json.loads(self._store.get(key))
                if self._seen.get(rank, (0, 0.0))[0] != other["beat"]:
                    self._seen[rank] = (other["beat"], time.monotonic())
                self._others[rank] = other

    def _speaks(self) -> bool:
        """Whether this rank is the first of those that wait, so that one of them speaks."""
        return self._silent_since is not None or not any(
            other["waits"] for rank, other in self._others.items() if rank < self._rank
        )
