"""The loader: samples of one or several stores in a reproducible order, one call per device forward."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from inkplex_data.errors import UsageError
from inkplex_data.loader.batch import Batch, Targets
from inkplex_data.loader.buffers import BufferPool
from inkplex_data.loader.damaged_sample import naming
from inkplex_data.loader.order import Order
from inkplex_data.loader.parallel import ParallelReader
from inkplex_data.loader.prefetch import Prefetcher
from inkplex_data.loader.read_sample import Prepared, SampleReader
from inkplex_data.loader.report import LoaderReport, Meter
from inkplex_data.loader.sample_order import Mixture, SampleGroup, sample_groups, share
from inkplex_data.loader.samples import Memory, Sample, SampleIndex
from inkplex_data.loader.saved_position import parse_state, pin, reopen, state_digest
from inkplex_data.loader.transfer import DeviceCopier
from inkplex_data.store.forks import check_fork
from inkplex_data.store.reader import Store

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class _Task:
    """A sample to read, `index` of its epoch."""

    index: int
    sample: Sample
    prepared: Prepared | None = None


class Loader:
    """Iterates over this rank's batches of the rest of an epoch; the next iteration is the next epoch.

    Its position is a count of samples, which all ranks share: `state_dict` and `load_state_dict` carry it to
    other numbers of ranks and workers. A batch counts as soon as it is handed out. One iteration at a time.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        order: Order,
        *,
        own: Collection[Store] = (),
        memory: Memory,
        place: tuple[int, int],
        group: int | None,
        workers: int,
        prefetch_bytes: int,
        device: str | torch.device | None,
        plan_limit: int,
    ) -> None:
        """See `make_loader`. `own`: stores that nobody else reads, so that closing the loader closes them.
        `place` is (rank, world size)."""
        import torch

        self._order, self._memory = order, memory
        self._own = list(own)
        self._rank, self._world_size = place
        self._group = group or self._world_size
        self._workers, self._prefetch_bytes = workers, prefetch_bytes
        self._plan_limit = plan_limit
        self.device = torch.device(device or "cpu")
        on_gpu = self.device.type == "cuda"
        if on_gpu and self.device.index is None:  # the current device is another one on other threads
            self.device = torch.device("cuda", torch.cuda.current_device())
        self._copier = None if self.device.type == "cpu" else DeviceCopier(self.device)
        self._pool = BufferPool(prefetch_bytes if workers else 0, self.device if on_gpu else None)
        self._parallel = ParallelReader(workers, prefetch_bytes)
        self._meter = Meter()
        self._epoch = self._consumed = 0
        self._left_out: set[tuple[int, str]] = set()
        self._iteration = 0
        self._pipelines: list[Prefetcher[Any, Batch]] = []
        self._open(stores)

    @property
    def samples(self) -> int:
        """Samples of an epoch, over all ranks."""
        return self._mixture.total

    @property
    def epoch(self) -> int:
        """The epoch that the next sample belongs to."""
        return self._epoch + (self._consumed >= self.samples)

    @property
    def samples_consumed(self) -> int:
        """Samples of that epoch which all ranks together have taken."""
        return self._consumed % self.samples

    def __len__(self) -> int:
        """Batches of this rank until the end of the epoch."""
        full, rest = divmod(self.samples - self.samples_consumed, self._group)
        whole = share(self._group, self._rank, self._world_size)
        return full * whole + share(rest, self._rank, self._world_size)

    def __iter__(self) -> Iterator[Batch]:
        for group in self.groups():
            yield from group

    def groups(self) -> Iterator[Group]:
        """The rest of the epoch in groups of `group` samples, each with this rank's batches, perhaps none.

        Raises UsageError if a group is left before all its batches are taken, or the loader was moved
        or started again in the meantime; DamagedSampleError in the place of a sample with damaged bytes.
        """
        self._stop()
        iteration, epoch = self._iteration, self.epoch
        self._epoch, self._consumed = epoch, self.samples_consumed
        source = self._pipeline(epoch, self._consumed)
        try:
            for samples in self._sample_groups(self._consumed):
                group = Group(
                    self,
                    samples,
                    self._own_of(samples, epoch),
                    epoch=epoch,
                    iteration=iteration,
                    source=source,
                )
                if not group.own:
                    self._consumed = samples.stop
                yield group
                self._check_current(iteration)
                if len(group):
                    raise UsageError(f"{len(group)} batches of a group were not taken before the next group")
            self._epoch, self._consumed = epoch + 1, 0
        finally:
            if iteration == self._iteration:
                self._stop()

    def targets(self, index: int, *, epoch: int | None = None) -> Targets:
        """Only what the objective looks at of sample `index` of an epoch, this one by default; read at once.

        Raises IndexError outside the epoch.
        """
        sample = self._sample(self.epoch if epoch is None else epoch, index)
        with naming(sample):
            return self._readers[sample.store].targets(sample)

    def leave_out(self, calls: Iterable[tuple[int, str]]) -> None:
        """Give no more samples of these calls, by store and id; all others keep their places.

        Every rank must be told. It holds for groups that are yet to begin. Raises UsageError for a call that there is not.
        """
        calls = set(calls)
        lacking = sorted(call for store, call in calls if call not in self.stores[store])
        if lacking:
            raise UsageError(
                f"calls to be left out are not in the store: {', '.join(lacking[:5])}",
                where=", ".join(store.root for store in self.stores),
                next_step="Name calls by their id; `inkplex-data inspect STORE` lists them.",
            )
        self._left_out |= calls

    def go_back(self, group: Group) -> None:
        """Begin again with the first sample of a group that this loader has given out."""
        self._stop()
        self._epoch, self._consumed = group._epoch, group.first

    def state_dict(self) -> dict[str, Any]:
        """The position, as JSON values: `epoch`, `samples_consumed`, `store_digest`, what pins the stores,
        and what the order depends on. The same on every rank once all have taken as many batches."""
        pins = [pin(store) for store in self.stores]
        return {
            "epoch": self.epoch,
            "samples_consumed": self.samples_consumed,
            "store_digest": state_digest(pins),
            "stores": pins,
            "order": self._order.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a saved position, on any number of ranks and workers.

        Stores that have grown since are read at the snapshot that the state pinned. Raises CheckpointError
        for something that is not a state, for a loader of another order, and for stores whose pinned shards are gone or
        differ, naming each difference.
        """
        epoch, consumed, pins = parse_state(state, self._order.state(), stores=len(self.stores))
        stores = [reopen(store, pinned) for store, pinned in zip(self.stores, pins, strict=True)]
        self._own += [new for new, old in zip(stores, self.stores, strict=True) if new is not old]
        self._stop()
        if any(new is not old for new, old in zip(stores, self.stores, strict=True)):
            self._open(stores)
        self._epoch, self._consumed = epoch, min(consumed, self.samples)

    def report(self, *, reset: bool = False) -> LoaderReport:
        """Speed and waiting since the loader was made or reset."""
        report = self._meter.report()
        if reset:
            self._meter = Meter()
        return report

    def close(self) -> None:
        """Stop reading ahead, give up the memory for it, and close the stores that the loader opened itself.

        A store that it was given may have other readers, whose files must stay open.
        """
        self._stop()
        self._parallel.close()
        self._pool.clear()
        for store in self._own:
            store.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, stores: Sequence[Store]) -> None:
        order = self._order
        self.stores = list(stores)
        self._indexes = [
            SampleIndex(
                store,
                number,
                order.split,
                order.cutter,
                memory=self._memory,
                call_ids=None if order.call_ids is None else order.call_ids.get(number),
                only=order.only,
                prefix=order.prefix,
                ranked=order.ranked,
            )
            for number, store in enumerate(self.stores)
        ]
        self._readers = [
            SampleReader(store, self._memory, self._pool, self._parallel, self._plan_limit)
            for store in self.stores
        ]
        self._mixture = Mixture([len(index) for index in self._indexes], order.mix)

    def _sample_groups(self, start: int) -> Iterator[SampleGroup]:
        return sample_groups(
            start, self.samples, rank=self._rank, world_size=self._world_size, size=self._group
        )

    def _own_of(self, samples: SampleGroup, epoch: int) -> Sequence[int]:
        """Places of this rank's samples in a group, without those of calls that are left out."""
        if not self._left_out:
            return samples.own

        def kept(index: int) -> bool:
            sample = self._sample(epoch, index)
            return (sample.store, str(sample.row["call_id"])) not in self._left_out

        return [index for index in samples.own if kept(index)]

    def _sample(self, epoch: int, index: int) -> Sample:
        draw = self._mixture.draw(epoch, index)
        order = self._order
        return self._indexes[draw.source].sample(draw.lap, draw.index, seed=order.seed, shuffle=order.shuffle)

    def _pipeline(self, epoch: int, start: int) -> Iterator[Batch]:
        """Batches of this rank from `start` on, read ahead where there are workers."""
        copier = self._copier
        tasks = (
            _Task(index, self._sample(epoch, index))
            for samples in self._sample_groups(start)
            for index in self._own_of(samples, epoch)
        )

        def prepare(task: _Task) -> _Task:
            with naming(task.sample):
                return replace(task, prepared=self._readers[task.sample.store].prepare(task.sample))

        def read(task: _Task) -> Batch:
            assert task.prepared is not None
            with naming(task.sample):
                return self._readers[task.sample.store].read(task.prepared, epoch=epoch, index=task.index)

        if not self._workers:
            batches_now = (read(prepare(task)) for task in tasks)
            return batches_now if copier is None else map(copier.copy, batches_now)
        batches = Prefetcher(
            tasks,
            read,
            prepare=prepare,
            size=lambda task: task.sample.bytes_,
            workers=self._workers,
            limit_bytes=self._prefetch_bytes,
        )
        self._pipelines = [batches]
        if copier is not None:
            # A budget that one batch fills: it is copied while the batch before is in use.
            ahead = Prefetcher(
                batches,
                copier.copy,
                size=lambda batch: batch.bytes_,
                workers=1,
                limit_bytes=1,
                name="loader-copy",
            )
            self._pipelines.append(ahead)
        return self._pipelines[-1]

    def _take(self, source: Iterator[Batch], iteration: int) -> Batch:
        self._check_current(iteration)
        asked = time.perf_counter()
        depth = self._pipelines[-1].depth if self._pipelines else 0
        batch = next(source)
        if self._copier is not None:
            self._copier.hand_out(batch)
        self._meter.handed_out(asked, depth, batch.bytes_)
        return batch

    def _check_current(self, iteration: int) -> None:
        check_fork(self.stores[0].root)  # whose threads read ahead
        if iteration != self._iteration:
            raise UsageError(
                "this iteration of the loader is over: it was closed, moved or started again in the meantime",
                next_step="Iterate again; it continues from the loader's position.",
            )

    def _stop(self) -> None:
        """End the running iteration, if there is one."""
        self._iteration += 1
        pipelines, self._pipelines = self._pipelines, []
        for pipeline in pipelines:
            pipeline.close()


class Group:
    """Samples [first, stop) of an epoch, which all ranks take together. Iterates over this rank's batches."""

    def __init__(
        self,
        loader: Loader,
        samples: SampleGroup,
        own: Sequence[int],
        *,
        epoch: int,
        iteration: int,
        source: Iterator[Batch],
    ) -> None:
        self._loader, self._samples, self._epoch = loader, samples, epoch
        self.own = own
        """Places in the epoch of this rank's samples."""
        self._iteration, self._source = iteration, source
        self._taken = 0

    @property
    def first(self) -> int:
        return self._samples.first

    @property
    def stop(self) -> int:
        return self._samples.stop

    def __len__(self) -> int:
        """Batches of this rank that are left; a rank may have none of a short last group."""
        return len(self.own) - self._taken

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if not len(self):
            raise StopIteration
        batch = self._loader._take(self._source, self._iteration)
        self._taken += 1
        done = self._taken == len(self.own)
        self._loader._consumed = self.stop if done else self.own[self._taken] - self._loader._rank
        return batch

    def targets(self) -> Iterator[Targets]:
        """What the objective looks at of each of this rank's samples, before any is taken: so an update's
        denominators can be summed over the ranks before its first forward."""
        for index in self.own:
            yield self._loader.targets(index, epoch=self._epoch)
