"""Where models run is said once, is part of every stage that runs one, and does not mix in a store."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from inkplex_data.config.device import choose_device, device_class
from inkplex_data.config.recipe import load_recipe
from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.loader.state_models import refuse_mixed
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.stages import STAGES
from inkplex_data.pipeline.target import is_same_tool, named
from inkplex_data.store.reader import open_store
from tests.pipeline.conftest import write_call, write_manifest
from tests.quick_codec import QUICK


def test_a_stage_with_a_model_has_the_device_in_its_stamp() -> None:
    # Captured states say their own device, in `memory.capture`.
    for stage in STAGES:
        assert stage.needs_device == bool({"device", "memory.capture"} & {*stage.recipe}), stage.name


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", "mps", "", "cuda:1\n", "cuda:٣"])
def test_what_is_no_device_is_refused(device: str) -> None:
    with pytest.raises(UsageError, match="is no device"):
        choose_device(device)


def test_a_device_is_chosen_by_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == "cpu"
    with pytest.raises(ConfigError, match="torch sees no GPUs"):
        choose_device("cuda")
    # A store keeps to its class, and of other machines only they know.
    with pytest.raises(ConfigError):
        choose_device("auto", stored="cuda")
    assert choose_device("cuda:1", is_remote=True) == "cuda:1"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [choose_device(name) for name in ("auto", "cpu", "cuda", "cuda:1")] == [
        "cuda",
        "cpu",
        "cuda",
        "cuda:1",
    ]
    assert choose_device("auto", stored="cpu") == "cpu"
    with pytest.raises(ConfigError, match="cuda:2 is not there: torch sees 2 GPUs"):
        choose_device("cuda:2")
    assert device_class("cuda:1") == "cuda"


def test_a_store_says_its_device_and_keeps_to_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_call(folder, "one", 1)
    corpus = write_manifest(folder, [{"id": "one", "path": "one.wav"}])
    recipe = load_recipe(None, {"codec.id": QUICK, "prefix": None, "words.source": "none"})
    build_store(corpus, tmp_path / "a", recipe=recipe, workers=1, device="cpu")
    with pytest.raises(ConfigError) as refused:
        build_store(corpus, tmp_path / "a", recipe=recipe, workers=1, device="cuda")
    assert "device: the store has 'cpu', this build asks for 'cuda'" in str(refused.value)
    with open_store(tmp_path / "a") as one, open_store(tmp_path / "a") as other:
        own = other.description["codec"]
        assert (own["device"], own["batch_rows"], own["stream"]) == ("cpu", 1, "whole")
        refuse_mixed([one, other])
        assert not caplog.records
        other.description["codec"] = own | {"device": "cuda", "batch_rows": 8}
        with caplog.at_level(logging.WARNING):
            refuse_mixed([one, other])
        assert "device: cpu and cuda; batch_rows: 1 and 8" in caplog.text
        assert not is_same_tool("codec", own, other.description["codec"])
        assert named(other.description["codec"]) == f"{QUICK} (111111111111, device cuda, batch_rows 8)"
