"""The shards of a build's calls: each is written as soon as its calls are done and their partners settled."""

from __future__ import annotations

from inkplex_data.pipeline.outcome import Refusals
from inkplex_data.pipeline.planning.build_plan import BuildPlan
from inkplex_data.pipeline.planning.sharding import plan_shards
from inkplex_data.pipeline.shards import CallMember, write_call_shard
from inkplex_data.pipeline.target import Target


class CallShards:
    """Which calls each planned shard still waits for: its own, and those whose memory its calls get as the wrong one.

    A partner that is refused gives way to the next in order, so a call's partner is settled once that is done.
    """

    def __init__(self, target: Target, plan: BuildPlan, refusals: Refusals, shard_bytes: int) -> None:
        self._target = target
        self._partners = plan.partners
        self._refusals = refusals
        jobs = {job.key: job for job in plan.jobs}
        cut = plan_shards([plan.sized(job) for job in plan.jobs], shard_bytes)
        self._members = {
            shard: [jobs[key] for key in keys] for shard, keys in enumerate(cut, target.fixed["calls"])
        }
        self._shard_of = {job.key: shard for shard, members in self._members.items() for job in members}
        self._waiting = {shard: {job.key for job in members} for shard, members in self._members.items()}
        self._undone = set(jobs)
        self._held_up: dict[str, set[int]] = {}
        """Shards that wait for a partner of another shard, by the partner."""
        self.published: list[str] = []

    def finished(self, call_id: str) -> None:
        """One call was built or refused."""
        self._undone.discard(call_id)
        if call_id in self._refusals:
            self._partners.refuse(call_id)
        shard = self._shard_of[call_id]
        self._waiting[shard].discard(call_id)
        for ready in sorted({shard, *self._held_up.pop(call_id, ())}):
            if not self._waiting[ready]:
                self._settle(ready)

    def close(self) -> None:
        """After the last call: what an interrupted build of a larger corpus left goes."""
        self._target.drop_beyond("calls", max(self._members, default=self._target.fixed["calls"] - 1))

    def _settle(self, shard: int) -> None:
        """Write the shard, or wait for the first partner that is not done."""
        built = [job for job in self._members[shard] if job.key not in self._refusals]
        partners = {job.key: self._partners.of(job.key) for job in built}
        undone = next((partner for partner in partners.values() if partner in self._undone), None)
        if undone is not None:
            self._held_up.setdefault(undone, set()).add(shard)
            return
        write_call_shard(self._target, shard, [CallMember.of(job, partners[job.key]) for job in built])
        self.published += [job.key for job in built]
