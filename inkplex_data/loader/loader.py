"""The loader: samples of one or several stores in a reproducible order, one call per device forward."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from inkplex_data.errors import UsageError
from inkplex_data.loader.batch import Batch, Targets
from inkplex_data.loader.buffers import BufferPool
from inkplex_data.loader.parallel import ParallelReader
from inkplex_data.loader.prefetch import Prefetcher
from inkplex_data.loader.prefix_choice import OWN
from inkplex_data.loader.read_sample import Prepared, SampleReader
from inkplex_data.loader.report import LoaderReport, Meter
from inkplex_data.loader.sample_order import Mixture, SampleGroup, sample_groups, share
from inkplex_data.loader.samples import Memory, Sample, SampleIndex
from inkplex_data.loader.saved_position import parse_state, pin, reopen, state_digest
from inkplex_data.loader.transfer import DeviceCopier
from inkplex_data.loader.windows import Cutter
from inkplex_data.store.call_groups import CallFilter
from inkplex_data.store.forks import check_fork
from inkplex_data.store.reader import Store

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Order:
    """All that decides which samples there are and in which order, beside the stores."""

    seed: int
    split: str
    shuffle: bool
    cutter: Cutter
    mix: Sequence[float] | None
    call_ids: Collection[str] | None
    only: CallFilter | None = None
    prefix: str = OWN
    ranked: tuple[str, ...] | None = None
    """Calls in the order in which they come; None for the stored one."""

    def state(self) -> dict[str, Any]:
        """The same as JSON values, for comparison."""
        calls = None
        if self.call_ids is not None:
            calls = _digest(sorted(set(self.call_ids)))
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
        or started again in the meantime; StoreCorruptError in the place of a sample with damaged bytes.
        """
        self._stop()
        iteration, epoch = self._iteration, self.epoch
        self._epoch, self._consumed = epoch, self.samples_consumed
        source = self._pipeline(epoch, self._consumed)
        try:
            for samples in self._sample_groups(self._consumed):
                group = Group(self, samples, epoch, iteration, source)
                if not samples.own:
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
        return self._readers[sample.store].targets(sample)

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
                call_ids=order.call_ids,
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
            for index in samples.own
        )

        def prepare(task: _Task) -> _Task:
            return replace(task, prepared=self._readers[task.sample.store].prepare(task.sample))

        def read(task: _Task) -> Batch:
            assert task.prepared is not None
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
        self, loader: Loader, samples: SampleGroup, epoch: int, iteration: int, source: Iterator[Batch]
    ) -> None:
        self._loader, self._samples, self._epoch = loader, samples, epoch
        self._iteration, self._source = iteration, source
        self._taken = 0

    @property
    def first(self) -> int:
        return self._samples.first

    @property
    def stop(self) -> int:
        return self._samples.stop

    @property
    def own(self) -> range:
        """Places in the epoch of this rank's samples."""
        return self._samples.own

    def __len__(self) -> int:
        """Batches of this rank that are left; a rank may have none of a short last group."""
        return len(self._samples.own) - self._taken

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if not len(self):
            raise StopIteration
        batch = self._loader._take(self._source, self._iteration)
        self._taken += 1
        self._loader._consumed = self._samples.consumed(self._taken, self._loader._world_size)
        return batch

    def targets(self) -> Iterator[Targets]:
        """What the objective looks at of each of this rank's samples, before any is taken: so an update's
        denominators can be summed over the ranks before its first forward."""
        for index in self.own:
            yield self._loader.targets(index, epoch=self._epoch)
