"""What `--codec` may say, and what it says back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inkplex_data.errors import ConfigError
from inkplex_data.speech.codec import load_codec
from inkplex_data.speech.codec_source import GEOMETRY, find_codec, untrained_seed


def folder_of(path: Path, config: object, *files: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    for name in files:
        (path / name).write_bytes(b"")
    return path


def test_untrained_seeds() -> None:
    assert untrained_seed("untrained:0") == 0
    assert untrained_seed(f"untrained:{2**63 - 1}") == 2**63 - 1
    assert untrained_seed("kyutai/mimi") is None


@pytest.mark.parametrize("seed", ["", "-1", "1.5", "zero", "٣", str(2**63), "9" * 40])
def test_seeds_that_are_none(seed: str) -> None:
    with pytest.raises(ConfigError, match="untrained:0"):
        untrained_seed(f"untrained:{seed}")


def test_a_hub_id_that_cannot_be_had_names_the_ways_on() -> None:
    with pytest.raises(ConfigError) as caught:
        load_codec("kyutai/mimi-that-nobody-published")
    message = str(caught.value)
    assert "kyutai/mimi-that-nobody-published" in message
    assert "local folder" in message
    assert "--codec untrained:0" in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "mimi",
        "/no/such/folder",
        "./mimi.safetensors",
        "a/b/c",
        "../mimi",
        "a/b.safetensors",
        "x" * 300,
        "~nobody-of-that-name/mimi",
    ],
)
def test_specs_that_name_nothing(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="--codec untrained:0"):
        find_codec(spec)


def test_a_transformers_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mimi", {"model_type": "mimi", **GEOMETRY}, "model.safetensors")
    found = find_codec(str(folder))
    assert found.id == "mimi"
    assert [path.name for path in found.weights] == ["model.safetensors"]


def test_a_personaplex_folder_gives_the_codec_and_not_the_language_model(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path / "personaplex",
        {"model_type": "personaplex"},
        "model.safetensors",
        "tokenizer-e351c8d8-checkpoint125.safetensors",
    )
    assert [path.name for path in find_codec(str(folder)).weights] == [
        "tokenizer-e351c8d8-checkpoint125.safetensors"
    ]


def test_a_moshi_config_names_its_codec(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path / "moshi",
        {"mimi_name": "tokenizer-b.safetensors"},
        "tokenizer-a.safetensors",
        "tokenizer-b.safetensors",
    )
    assert find_codec(str(folder)).weights[0].name == "tokenizer-b.safetensors"


def test_a_config_cannot_name_a_file_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.safetensors").write_bytes(b"")
    folder = folder_of(tmp_path / "moshi", {"mimi_name": "../secret.safetensors"})
    with pytest.raises(ConfigError, match="no Mimi weights"):
        find_codec(str(folder))


def test_two_candidates_are_a_question(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, None, "tokenizer-a.safetensors", "tokenizer-b.safetensors")
    with pytest.raises(ConfigError, match=r"tokenizer-a\.safetensors, tokenizer-b\.safetensors"):
        find_codec(str(folder))


def test_a_config_of_another_geometry_lists_every_difference(tmp_path: Path) -> None:
    config = {"model_type": "mimi", "sampling_rate": 48_000, "hidden_size": 10**9, "frame_rate": None}
    folder = folder_of(tmp_path, config, "model.safetensors")
    with pytest.raises(ConfigError) as caught:
        find_codec(str(folder))
    assert caught.value.faults == (
        "sampling_rate: 48000, Mimi has 24000",
        "hidden_size: 1000000000, Mimi has 512",
    )


@pytest.mark.parametrize("text", ["{", "\x00", " " * (2**20 + 1)])
def test_a_config_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=r"config\.json cannot be read"):
        find_codec(str(tmp_path))


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "mimi.pt"
    path.write_bytes(b"anything")
    with pytest.raises(ConfigError, match="can run code"):
        find_codec(str(path))


def test_naming_a_codec_needs_no_torch() -> None:
    code = (
        "import sys; import inkplex_data.speech.codec as codec; codec.KINDS;"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
