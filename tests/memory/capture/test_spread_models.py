"""Models that no single place holds: on several devices, on the disk, in parts in several processes, or quantised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from inkplex_data.errors import ConfigError
from inkplex_data.memory.capture.capture_plan import ChunkRule
from inkplex_data.memory.capture.capture_states import capture_rows
from inkplex_data.memory.capture.inkling import Inkling, load_inkling
from inkplex_data.memory.capture.inkling_source import find_checkpoint
from inkplex_data.memory.capture.inkling_weights import device_map
from tests.conftest import ROOT
from tests.memory.asked import FORKED, Asked
from tests.memory.capture.test_capture_states import hooked
from tests.memory.tiny import save_full_model, save_text_model

ON_DISK = {
    "embed_tokens": "cpu",
    "norm": "cpu",
    **{f"layers.{block}": "disk" if block % 8 == 1 else "cpu" for block in range(42)},
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of several files."""
    folder = tmp_path_factory.mktemp("models") / "sharded"
    save_text_model(folder, initializer_range=0.05).save_pretrained(folder, max_shard_size="200KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder


def captured(model: Inkling, chunk_tokens: int = 512) -> torch.Tensor:
    return torch.cat([rows.clone() for _, _, rows in capture_rows(asked(), model, chunk_tokens=chunk_tokens)])


def asked() -> list[Asked]:
    return [Asked(0, 60, vocabulary=300)]


def test_blocks_on_the_disk_give_the_rows_of_own_hooks(shards: Path) -> None:
    pytest.importorskip("accelerate")
    plain = load_inkling(str(shards), dtype="float32", device="cpu")
    spread = load_inkling(str(shards), dtype="float32", device=json.dumps(ON_DISK))
    assert (
        next(spread.text.layers[1].parameters()).is_meta
        and not next(spread.text.layers[2].parameters()).is_meta
    )
    assert spread.identity == plain.identity, "where weights lie changes no state"
    expected = hooked(plain, asked()[0].ids)
    assert torch.equal(captured(spread), expected)
    torch.testing.assert_close(captured(spread, chunk_tokens=25), expected, atol=1e-5, rtol=0)


def test_a_pass_holds_three_rows_and_not_the_outputs_of_all_blocks(shards: Path) -> None:
    model = load_inkling(str(shards), dtype="float32", device="cpu")
    first, second = (model.rows(Asked(0, tokens, vocabulary=300).ids, None) for tokens in (30, 20))
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr(), "one buffer, used again"
    assert tuple(second.shape) == (20, 3, 16)


def test_trained_weights_are_run_as_they_were_trained(shards: Path, small_inkling: Inkling) -> None:
    model = load_inkling(str(shards), device="cpu")
    assert model.identity.dtype == "bfloat16" and model.text.embed_tokens.weight.dtype == torch.bfloat16
    assert small_inkling.identity.dtype == "float32"


def test_one_map_fits_the_text_model_alone_and_with_its_front_ends(shards: Path, tmp_path: Path) -> None:
    assert device_map(json.dumps(ON_DISK), find_checkpoint(str(shards))) == ON_DISK
    save_full_model(tmp_path)
    found = device_map(json.dumps({"norm": "cpu", "audio_tower": "disk"}), find_checkpoint(str(tmp_path)))
    assert found == {"language_model.norm": "cpu", "audio_tower": "disk", "vision_tower": "cpu"}


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("{", "the device map is no JSON object"),
        ('{"norm":' * 100_000, "the device map is no JSON object"),
        ('{"norm": true}', "the device map puts 'norm' on True, which is no device"),
        ('{"norm": 77}', "no device 'cuda:77'"),
    ],
)
def test_maps_that_are_none(shards: Path, device: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_inkling(str(shards), device=device)


def test_a_quantised_checkpoint_names_the_library_that_is_missing(shards: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    for file in shards.iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((shards / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "hqq", "nbits": 4}
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ConfigError, match=r"quantised \(hqq\), needs a library that is not installed"
    ) as caught:
        load_inkling(str(tmp_path), device="cpu")
    assert caught.value.next_step == "Install it with `pip install hqq`."


@pytest.mark.parametrize(
    ("room_gib", "heads", "chunk_tokens", "passes"),
    [(4, 32, 2_048, 7), (40, 32, 8_192, 3), (0.001, 32, 32, 4_788)],
)
def test_chunks_are_as_large_as_memory_lets_them(
    room_gib: float, heads: int, chunk_tokens: int, passes: int
) -> None:
    rule = ChunkRule.fitting(int(room_gib * 2**30), heads)
    assert rule.chunk_tokens == chunk_tokens
    chunks = rule.cut(0, 10_000)
    assert abs(len(chunks) - passes) <= passes // 2
    assert all((end - first) * end <= rule.scores or end - first <= rule.smallest for first, end in chunks)
    assert ChunkRule.fitting(int(room_gib * 2**30 * 1.1), heads) == rule


PART = """
import os, sys, torch
from inkplex_data.memory.capture.inkling import load_inkling
from tests.memory.capture.test_spread_models import captured
model = load_inkling(sys.argv[1], dtype="float32")
torch.save((captured(model), captured(model, 7), model.identity.sha256), f"{sys.argv[2]}/{model.rank}.pt")
"""


@pytest.mark.slow
def test_two_processes_that_share_each_block_give_the_rows_of_one(shards: Path, tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text(PART)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*command, str(tmp_path / "part.py"), str(shards), str(tmp_path)],
        check=True,
        env=environment,
        timeout=500,
    )
    one = load_inkling(str(shards), dtype="float32", device="cpu")
    for rank in range(2):
        whole, chunked, sha256 = torch.load(tmp_path / f"{rank}.pt")
        assert sha256 == one.identity.sha256
        torch.testing.assert_close(whole, captured(one), atol=1e-5, rtol=0)
        torch.testing.assert_close(chunked, captured(one), atol=1e-5, rtol=0)


PEAK = """
import json, sys
import transformers.models.inkling.modeling_inkling
from inkplex_data.memory.capture.inkling import load_inkling
from tests.memory.asked import Asked

def most_bytes():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

before = most_bytes()
model = load_inkling(sys.argv[1], device=sys.argv[2])
model.rows(Asked(0, 64).ids, None)
print(most_bytes() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("device", "share"), [('{"": "cpu"}', 1.3), (json.dumps(ON_DISK), 1.0)])
def test_a_model_takes_little_more_than_its_weights(tmp_path: Path, device: str, share: float) -> None:
    """Every weight that is read, the readout's not among them; Linux's own count of what the process ever had."""
    pytest.importorskip("accelerate")
    wide: dict[str, Any] = {
        "vocab_size": 201_024,
        "hidden_size": 256,
        "moe_intermediate_size": 256,
        "n_routed_experts": 8,
    }
    save_text_model(tmp_path, **wide).to(torch.bfloat16).save_pretrained(tmp_path, max_shard_size="50MB")
    read = sum(
        tensor.nbytes
        for shard in tmp_path.glob("model-*.safetensors")
        for name, tensor in load_file(shard).items()
        if name != "lm_head.weight"
    )
    command = [sys.executable, "-c", PEAK, str(tmp_path), device]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=500)
    assert 0 < int(done.stdout) < share * read


def test_forks_of_a_spread_model_are_those_of_a_whole_one(shards: Path) -> None:
    pytest.importorskip("accelerate")
    spread = load_inkling(str(shards), dtype="float32", device=json.dumps(ON_DISK))
    plain = load_inkling(str(shards), dtype="float32", device="cpu")
    requests = [Asked(one.call, one.tokens, cached=one.cached, vocabulary=300) for one in FORKED[:4]]
    both = (capture_rows(requests, model, chunk_tokens=40) for model in (spread, plain))
    for (call, first, rows), (other_call, other_first, others) in zip(*both, strict=True):
        assert (call, first) == (other_call, other_first)
        np.testing.assert_array_equal(rows.numpy(), others.numpy())
