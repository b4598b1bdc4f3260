"""Batches that go to a device: the same order and content, one copy each, while the loader reads on."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from inkplex_data.loader import make_loader
from inkplex_data.store.reader import Store

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("device", ["meta", CUDA])
def test_batches_arrive_on_the_device(store: Store, device: str, workers: int) -> None:
    options = {"seed": 2, "window_frames": 40}
    expected = list(make_loader(store, "train", workers=0, **options))  # type: ignore[arg-type]
    one = make_loader(store, "train", workers=workers, device=device, prefetch_bytes=1, **options)  # type: ignore[arg-type]
    for _ in range(2):
        found = list(one)
        assert [batch.index for batch in found] == [batch.index for batch in expected]
        for batch, host in zip(found, expected, strict=True) if one.epoch == 1 else ():
            assert (batch.call_id, batch.window, batch.frames) == (host.call_id, host.window, host.frames)
            for (name, value), (other, wanted) in zip(batch.tensors(), host.tensors(), strict=True):
                assert name == other
                assert value.device.type == device
                assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
                if device == "cuda" and value.numel():
                    assert value.cpu().view(torch.uint8).equal(wanted.view(torch.uint8))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_host_memory_is_page_locked(store: Store) -> None:
    one = make_loader(store, "train", seed=0, workers=1, device="cuda")
    list(one)
    assert one._pool.tensor(100).is_pinned()


def test_the_loader_imports_without_torch() -> None:
    code = "import sys, inkplex_data.loader; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
