"""What vLLM's connector wrote becomes a recording's states: mapped, normalised, cut to each request's own tokens."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from inkplex_data.cli.app import main
from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import ConfigError, RecordingError, UsageError
from inkplex_data.memory.capture.imported_states import open_states_file
from inkplex_data.memory.capture.recordings_with_states import StatedRecording
from inkplex_data.memory.capture.state_bits import float8_values, from_float32, to_float32
from inkplex_data.memory.capture.tensor_file import open_tensors
from inkplex_data.memory.engines import engine_layers, open_engine
from inkplex_data.memory.engines.final_norm import read_final_norm
from inkplex_data.memory.engines.vllm_dumps import Dump, open_dumps
from inkplex_data.memory.engines.vllm_import import attach_dumps

REAL = Path(__file__).parent / "vllm_0_32"
SAMPLE = [0, 7, 19, 25, 26, 37]
"""The tokens of `expected.npy`."""


def token(number: int, kind: str, at: float) -> dict[str, Any]:
    return {"id": number, "kind": kind, "text": f"<{number}>", "at": at}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """The engine's folder, with its lock files."""
    folder = tmp_path / "dump"
    folder.mkdir()
    for path in REAL.glob("*.safetensors"):
        shutil.copyfile(path, folder / path.name)
        (folder / f"{path.name}.lock").touch()
    return folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    shutil.copyfile(REAL / "norm.bin", folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 42, "rms_norm_eps": 1e-6}))
    return folder


@pytest.fixture
def recording(dump: Path, tmp_path: Path) -> Path:
    """The two requests as their client saw them: each ends with a token that was sampled and not yet read."""
    first, second = (open_dumps(dump)[at].ids.tolist() for at in (0, 1))
    asked = len(first) + 1
    lines = [
        {"schema": "inkplex/recording@1", "recording": "r", "tokenizer": "tiny"},
        {"call": 0, "tokens": [token(one, "user", 0.0) for one in second[:asked]]},
        {
            "call": 1,
            "cached": {"call": 0, "tokens": asked},
            "tokens": [token(one, "reply", 1.0) for one in [*second[asked:], 249]],
        },
    ]
    path = tmp_path / "r.recording.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def imported(recording: Path, dump: Path, checkpoint: Path) -> StatedRecording:
    return attach_dumps(
        recording, open_dumps(dump), read_final_norm(str(checkpoint)), recording.parent / "out"
    )


def rows(result: StatedRecording) -> np.ndarray:
    found = [
        open_states_file(one.states_path, where="r") for one in read_recording(result.path) if one.states_path
    ]
    bits = np.concatenate([block for file in found for block in file.blocks()])
    return to_float32(bits.tobytes(), "BF16").reshape(bits.shape)


def apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.linalg.norm(one - other, axis=-1) / np.linalg.norm(other, axis=-1)


def test_the_engines_rows_are_those_of_the_model(recording: Path, dump: Path, checkpoint: Path) -> None:
    result = imported(recording, dump, checkpoint)
    assert (result.tokens, result.requests, result.dropped) == (38, 2, 1)
    assert "1 last token that no model computed left out" in result.text()
    expected = np.load(REAL / "expected.npy")
    # 42 blocks in bfloat16 are 2% from float32; other blocks, or row 42 without its norm, are 19% and more.
    assert apart(rows(result)[SAMPLE], expected).max() < 0.025
    assert validate_path(result.path) == []
    identity = read_recording(result.path).header.states_identity
    assert identity is not None
    assert (identity.model, identity.dtype, identity.width) == ("tiny", "bfloat16", 64)
    assert identity.runtime_profile == "vLLM extract_hidden_states"
    assert [len(one) for one in read_recording(result.path)] == [26, 12]


@pytest.mark.parametrize(("dtype", "limit"), [("float16", 0.025), ("float32", 0.025), ("F8_E4M3", 0.06)])
def test_other_types_are_read_and_marked(
    recording: Path, dump: Path, checkpoint: Path, dtype: str, limit: float
) -> None:
    for found in open_dumps(dump):
        rewrite(found.path, values_of(found), found.ids, dtype)
    result = imported(recording, dump, checkpoint)
    assert apart(rows(result)[SAMPLE], np.load(REAL / "expected.npy")).max() < limit
    named = "float8_e4m3fn" if dtype == "F8_E4M3" else dtype
    assert result.identity.dtype == named
    assert result.identity.runtime_profile is not None
    assert result.identity.runtime_profile.endswith(f"dumped as {named}") == (dtype != "float32")


def values_of(found: Dump) -> np.ndarray:
    data = found.file.read(found.hidden.begin, found.hidden.end - found.hidden.begin, "it")
    return to_float32(data, found.dtype).reshape(found.hidden.shape)


def rewrite(path: Path, values: np.ndarray, ids: np.ndarray, dtype: str) -> None:
    if dtype != "F8_E4M3":
        save_file({"hidden_states": values.astype(dtype), "token_ids": ids}, path)
        return
    codes = float8_values(dtype)[:127]
    near = np.abs(np.abs(values)[..., None] - codes).argmin(-1).astype(np.uint8)
    data = (near | np.where(values < 0, 128, 0).astype(np.uint8)).tobytes() + ids.astype("<i8").tobytes()
    header = json.dumps(
        {
            "hidden_states": {"dtype": dtype, "shape": values.shape, "data_offsets": [0, values.size]},
            "token_ids": {"dtype": "I64", "shape": ids.shape, "data_offsets": [values.size, len(data)]},
        }
    ).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def test_eight_bit_floats_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    codes = torch.arange(256, dtype=torch.uint8)
    for name, dtype in (("F8_E4M3", torch.float8_e4m3fn), ("F8_E5M2", torch.float8_e5m2)):
        np.testing.assert_array_equal(float8_values(name), codes.view(dtype).float().numpy())


def test_more_layers_are_in_ascending_order(recording: Path, dump: Path, checkpoint: Path) -> None:
    before = rows(imported(recording, dump, checkpoint))
    for found in open_dumps(dump):
        rewrite(found.path, np.insert(values_of(found), 0, 0, axis=1), found.ids, "float32")
    norm = read_final_norm(str(checkpoint))
    dumps = open_dumps(dump, engine_layers("42, 2,29,35"))
    after = rows(attach_dumps(recording, dumps, norm, recording.parent / "more"))
    assert apart(after, before).max() < 0.01 and np.array_equal(after[:, :2], before[:, :2])


@pytest.mark.parametrize("layers", ["29,35", "28,34,42", "a", "29,,42", ""])
def test_layers_without_those_of_the_rows(dump: Path, layers: str) -> None:
    with pytest.raises(UsageError, match=r"--layers"):
        open_dumps(dump, engine_layers(layers))


def test_a_request_that_no_file_has(recording: Path, dump: Path, checkpoint: Path) -> None:
    next(dump.glob("1-*.safetensors")).unlink()
    with pytest.raises(
        RecordingError, match=r"context of request 0, 26 tokens: the longest has 25 of them"
    ) as caught:
        imported(recording, dump, checkpoint)
    assert caught.value.code == "recording-states-absent"
    assert not (recording.parent / "out").exists()


def test_a_file_that_is_still_written(recording: Path, dump: Path, checkpoint: Path) -> None:
    lock = next(dump.glob("1-*.lock"))
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="still being written"):
            imported(recording, dump, checkpoint)
    assert imported(recording, dump, checkpoint).tokens == 38


def test_another_models_norm(recording: Path, dump: Path, checkpoint: Path) -> None:
    config = {"num_hidden_layers": 36}
    (checkpoint / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="has 36 blocks"):
        imported(recording, dump, checkpoint)
    (checkpoint / "config.json").write_text(json.dumps({"text_config": {"num_hidden_layers": 42}}))
    save_file({"model.language_model.norm.weight": np.ones(32, np.float32)}, checkpoint / "model.safetensors")
    with pytest.raises(RecordingError, match="width 64, the final norm of tiny 32"):
        imported(recording, dump, checkpoint)
    save_file({"other.weight": np.ones(64, np.float32)}, checkpoint / "model.safetensors")
    with pytest.raises(ConfigError, match="has 0 final norms"):
        imported(recording, dump, checkpoint)


def test_the_norm_is_that_of_transformers(checkpoint: Path) -> None:
    torch = pytest.importorskip("torch")
    modeling = pytest.importorskip("transformers.models.inkling.modeling_inkling")
    norm = read_final_norm(str(checkpoint), revision="r")
    layer = modeling.InklingRMSNorm(64).bfloat16()
    layer.weight.data = torch.from_numpy(norm.weight).bfloat16()
    values = torch.randn(50, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    with torch.no_grad():
        wanted = layer(values).view(torch.int16).numpy().view(np.uint16)
    found = norm.rows(values.float().numpy(), "BF16")
    assert (found != wanted).mean() < 0.01 and apart(bits(found), bits(wanted)).max() < 0.01


def bits(found: np.ndarray) -> np.ndarray:
    return to_float32(found.tobytes(), "BF16").reshape(found.shape)


@pytest.mark.parametrize("name", ["sglang", "SGLang", "tgi"])
def test_other_engines_are_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match="short convolution" if name != "tgi" else "no engine 'tgi'"):
        open_engine(name)


def test_taps_are_refused_by_the_name_of_their_tensor(tmp_path: Path) -> None:
    save_file({"aux_hidden_states": np.ones((2, 3, 8), np.float32)}, tmp_path / "0.safetensors")
    with pytest.raises(RecordingError, match="SGLang") as caught:
        open_states_file(tmp_path / "0.safetensors", where="r")
    assert caught.value.code == "recording-states-streams"


def test_damaged_dumps_are_refused(recording: Path, dump: Path, checkpoint: Path) -> None:
    path = next(dump.glob("1-*.safetensors"))
    whole = path.read_bytes()
    for size in (0, 7, 9, 200, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(RecordingError):
            imported(recording, dump, checkpoint)
    values = np.full((38, 3, 64), np.nan, np.float32)
    path.write_bytes(whole)
    rewrite(path, values, open_dumps(dump)[1].ids, "float32")
    with pytest.raises(RecordingError, match="not finite"):
        imported(recording, dump, checkpoint)


def test_checked_headers_have_the_tensors_bytes() -> None:
    path = next(REAL.glob("0-*.safetensors"))
    file = open_tensors(path, where="r")
    hidden = file.tensor("hidden_states")
    assert (hidden.shape, hidden.dtype, hidden.end - hidden.begin) == ((25, 3, 64), "BF16", 25 * 3 * 64 * 2)
    assert from_float32(np.ones(1, np.float32))[0] == 0x3F80


def test_the_command_line(
    recording: Path, dump: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["import", "states", str(recording), str(dump), "-o", str(recording.parent / "cli")]
    for options, code, told in (
        ([], 2, "does not say which request"),
        (["--from", "sglang"], 2, "short convolution"),
        (["--from", "vllm"], 2, "Give --model the folder"),
        (
            ["--from", "vllm", "--model", str(checkpoint), "--revision", "r1"],
            0,
            "states of 38 tokens in 2 requests",
        ),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*asked, *options])
        printed = capsys.readouterr()
        assert ended.value.code == code and told in (printed.out + printed.err).replace("\n", " ")
    identity = read_recording(recording.parent / "cli" / "r.recording.jsonl").header.states_identity
    assert identity is not None and identity.revision == "r1"
