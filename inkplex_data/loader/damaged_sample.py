"""Damage of the bytes of one sample, which says whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from inkplex_data.errors import StoreCorruptError
from inkplex_data.loader.samples import Sample


class DamagedSampleError(StoreCorruptError):
    """Bytes of one sample are damaged: frames `window` of call `call_id` of store number `store`."""

    def __init__(self, error: StoreCorruptError, sample: Sample) -> None:
        super().__init__(error.what, where=error.where, next_step=error.next_step)
        self.call_id, self.store = str(sample.row["call_id"]), sample.store
        self.window = (sample.first, sample.stop)


@contextmanager
def naming(sample: Sample) -> Iterator[None]:
    """Damage within the block is damage of this sample."""
    try:
        yield
    except StoreCorruptError as error:
        raise DamagedSampleError(error, sample) from error
