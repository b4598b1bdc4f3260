"""A process that outlives a build works with the files that are there, not with those that were."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.augmentation import noise_files
from tests.conftest import ROOT

MODEL = ROOT / "inkplex_data" / "speech" / "data" / "small.model"


def test_a_tool_is_loaded_once_and_again_when_its_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pieces.model"
    shutil.copy(MODEL, path)
    first = tools.tokenizer(str(path))
    assert tools.tokenizer(str(path)) is first
    os.utime(path, ns=(1, 1))
    assert tools.tokenizer(str(path)) is not first
    assert tools.tokenizer(None) is tools.tokenizer(None)


def test_noise_that_is_added_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"")
    assert noise_files(str(tmp_path)) == ("a.wav",)
    (tmp_path / "b.wav").write_bytes(b"")
    assert noise_files(str(tmp_path)) == ("a.wav", "b.wav")
