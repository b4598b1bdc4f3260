"""`channels` shows which side is the agent; `build --agent` and `align --agent` act on it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner, Result

from inkplex_data.cli.app import app, main
from inkplex_data.config.recipe import load_recipe
from inkplex_data.corpus.entry import ChannelSpec
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.swap import swapped
from inkplex_data.errors import CallRefused
from inkplex_data.pipeline.calls.prepare import CallInput, prepare_call
from inkplex_data.pipeline.stage import Build
from inkplex_data.store.reader import open_store
from tests.conftest import ROOT

SECONDS = 4


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_call(folder: Path, name: str, *, exchanged: bool = False, words: bool = True) -> None:
    """The first seconds of an example call, the agent on the left unless exchanged."""
    source = ROOT / "examples" / "corpus" / "calls" / "sim-delivery"
    samples, rate_hz = soundfile.read(source.with_suffix(".flac"), dtype="float32", frames=SECONDS * 24_000)
    soundfile.write(folder / f"{name}.wav", samples[:, ::-1] if exchanged else samples, rate_hz)
    if words:
        alignments = json.loads(source.with_suffix(".json").read_text())["alignments"]
        kept = [word for word in alignments if word[1][1] < SECONDS]
        (folder / f"{name}.json").write_text(json.dumps({"alignments": kept}))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("channels")
    write_call(folder, "as-is")
    write_call(folder, "turned", exchanged=True)
    write_call(folder, "silent-about-it", words=False)
    lines = [
        {"id": name, "path": f"{name}.wav", "family": "f"} for name in ("as-is", "turned", "silent-about-it")
    ]
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_channels_tells_sides_reasons_and_failures(corpus: Path) -> None:
    result = run("channels", corpus, "--json")
    assert result.exit_code == 3, result.output
    rows = {row["call_id"]: row for row in map(json.loads, result.output.splitlines())}
    assert rows["as-is"]["channels"] == {"agent": ["as-is.wav", 0], "caller": ["as-is.wav", 1]}
    assert (rows["turned"]["agent"], rows["turned"]["by"]) == ("right", "guess")
    assert rows["turned"]["channels"]["agent"] == ["turned.wav", 1]
    assert rows["as-is"]["confidence"] == rows["turned"]["confidence"] > 0.99
    assert rows["as-is"]["bleed"] == {"agent_voice": None, "caller_voice": None}
    assert rows["silent-about-it"]["code"] == "agent-undecided"
    text = run("channels", corpus).output
    assert "turned: agent right (guess 0.99" in text and "how can I help" in text
    assert "silent-about-it: [agent-undecided]" in text
    by_rule = run("channels", corpus, "--agent", "right", "--json")
    assert by_rule.exit_code == 0
    assert {json.loads(line)["by"] for line in by_rule.output.splitlines()} == {"rule"}


def test_channels_shows_bleed(tmp_path: Path, real_data: Path) -> None:
    agent, caller = (
        soundfile.read(
            real_data / "calls" / f"Auto_Repairs_40_UTC_{side}.wav", dtype="float32", frames=480_000
        )[0]
        for side in ("agent", "caller")
    )
    soundfile.write(tmp_path / "agent.wav", agent, 8_000)
    soundfile.write(tmp_path / "caller.wav", 0.8 * caller + 0.08 * np.roll(agent, 160), 8_000)
    line = {"id": "real", "path": {"agent": "agent.wav", "caller": "caller.wav"}}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(line) + "\n")
    result = run("channels", tmp_path)
    assert result.exit_code == 0, result.output
    assert "real: agent in agent.wav (corpus)" in result.output
    told = re.search(r"agent's voice on the other channel: -(\d+\.\d) dB after 20\.0 ms", result.output)
    assert told is not None and float(told[1]) == pytest.approx(21.9, abs=0.5)


def test_build_follows_the_guess_and_refuses_the_undecided(corpus: Path, tmp_path: Path) -> None:
    result = run(
        "build", corpus, "-o", tmp_path / "store", "--agent", "auto", "--codec", "untrained:0",
        "--workers", 1, "--set", "prefix=null",
    )  # fmt: skip
    assert result.exit_code == 3, result.output
    assert "agent-undecided" in result.output
    with open_store(tmp_path / "store") as store:
        problems = store.problems().collect()
        as_is, turned = store.call("as-is"), store.call("turned")
        # The same call either way round gives the same streams.
        assert np.array_equal(as_is.codes, turned.codes) and np.array_equal(as_is.text, turned.text)
        assert not np.array_equal(as_is.codes[:8], as_is.codes[8:])
    guessed = problems.filter(problems["code"] == "agent-guessed")
    assert sorted(guessed["call_id"]) == ["as-is", "turned"]
    assert all("confidence 0.99" in message for message in guessed["message"])


def test_a_recipe_names_channels_once(corpus: Path, tmp_path: Path) -> None:
    entries = {entry.call_id: entry for entry in read_corpus(corpus).entries}
    right = load_recipe(None, {"audio.agent": "right"})
    for entry, channels in ((entries["turned"], (1, 0)), (swapped(entries["turned"]), (0, 1))):
        ready = prepare_call(CallInput.of(entry), Build(right, tmp_path, tmp_path))
        assert ready.entry.channels == ChannelSpec(*channels) and not ready.notes
    auto = load_recipe(None, {"audio.agent": "auto"})
    first, again = (
        prepare_call(CallInput.of(entries["turned"]), Build(auto, tmp_path, tmp_path)) for _ in range(2)
    )
    assert first == again and first.entry.channels == ChannelSpec(1, 0)
    assert [note.code for note in first.notes] == ["agent-guessed"]
    with pytest.raises(CallRefused, match="confidence"):
        unsure = {"audio.agent": "auto", "words.agent": "nobody", "audio.agent_confidence": 0.9999}
        prepare_call(CallInput.of(entries["as-is"]), Build(load_recipe(None, unsure), tmp_path, tmp_path))


def test_a_side_that_does_not_exist_is_a_usage_error(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["channels", str(corpus), "--agent", "middle"],
        ["align", str(corpus), "--agent", "middle", "-o", str(tmp_path)],
        ["build", str(corpus), "-o", str(tmp_path / "store"), "--agent", "middle"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert "middle" in capsys.readouterr().err
