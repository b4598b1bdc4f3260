"""Injured files are read or refused. A few drawn by one seed each time; thousands by the clock's in `make test-slow`."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.fuzz import targets
from tests.fuzz.mutations import mutated
from tests.fuzz.run import Inputs, fuzz


def test_a_few_of_every_kind() -> None:
    assert [str(finding) for finding in fuzz(20_250, range(120))] == []


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_twenty_thousand_drawn_by_the_clock() -> None:
    seed = int(time.time())
    found = [str(finding) for finding in fuzz(seed, range(20_000), processes=2)]
    assert found == [], f"seed {seed}"


def test_an_input_is_a_function_of_the_seed_and_its_number(tmp_path: Path) -> None:
    one, two = (Inputs(tmp_path / name, ["trace", "recipe"]) for name in ("one", "two"))
    for index in (7, 3):
        (kind, folder, file), (_, other, same) = one.make(1, index), two.make(1, index)
        assert file == same
        assert (folder / file).read_bytes() == (other / file).read_bytes()
        assert kind in one.targets


def test_every_mutation_can_meet_an_empty_file() -> None:
    for index in range(300):
        mutated(b"", b"", random.Random(index))


def test_what_goes_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that fails in each way that counts, in a process of its own."""
    script = tmp_path / "tests" / "fuzz"
    script.mkdir(parents=True)
    (tmp_path / "tests" / "__init__.py").touch()
    for path in Path(targets.__file__).parent.glob("*.py"):
        (script / path.name).write_bytes(path.read_bytes())
    (script / "targets.py").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    text = (script / "run.py").read_text().replace("SECONDS: Final = 5.0", "SECONDS: Final = 1.5")
    (script / "run.py").write_text(text.replace("BYTES: Final = 1 << 30", "BYTES: Final = 1 << 27"))
    held = bytearray(b"x") * (1 << 29)  # a large parent must not hide what a child takes
    found = {finding.file: finding.what for finding in fuzz(1, range(24))}
    del held
    assert found["raises"] == "ValueError: not of the family"
    assert found["loops"] == "took more than 1.5 s"
    assert found["takes"].startswith("took ")
    assert found["?"] == "the process ended (7)"
    assert not found.keys() & {"refuses", "reads"}


BAD = """
import os, time
from pathlib import Path
from dataclasses import dataclass
from inkplex_data.errors import CorpusError

DIED = Path("died")

@dataclass(frozen=True)
class Target:
    name: str
    injured: str = "*"

    def make(self, folder):
        for name in ("raises", "loops", "takes", "ends", "refuses", "reads"):
            (folder / name).mkdir()
            (folder / name / name).touch()

    def read(self, folder):
        [path] = folder.iterdir()
        match path.name:
            case "raises":
                raise ValueError("not of the family")
            case "loops":
                try:
                    while time.process_time() < 60:
                        pass
                except Exception:
                    pass
            case "takes":
                bytearray(b"x") * (1 << 28)
            case "ends" if not DIED.exists():
                DIED.touch()
                os._exit(7)
            case "refuses":
                raise CorpusError("it is refused")

TARGETS = (Target("bad"),)
"""
