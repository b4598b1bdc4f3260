"""Problems and refusals take what they can from the tables of codes."""

from __future__ import annotations

import pickle
import types
from pathlib import Path

import pytest

from inkplex_data.errors import CallRefused, RecordingError
from inkplex_data.problems import CODES, Code, Problem, ProblemLog, recording_refusal, refusal, without_root
from inkplex_data.problems import all_codes as joined


def tables() -> list[dict[str, Code]]:
    modules = [part for part in vars(joined).values() if isinstance(part, types.ModuleType)]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, dict) and value and all(isinstance(code, Code) for code in value.values())
    ]


def test_no_table_is_forgotten_and_no_code_is_in_two() -> None:
    assert len(tables()) == 17
    assert sum(map(len, tables())) == len(CODES)
    assert all(len({code.stage for code in table.values()}) == 1 for table in tables())
    assert all(code.stage and code.meaning.endswith(".") for code in CODES.values())


def test_stage_and_severity_come_from_the_table() -> None:
    problem = Problem.of("word-empty", "a", "text is ' '", item="word 3")
    assert problem == Problem("a", "words", "word-empty", "repair", "word 3", "text is ' '")
    log = ProblemLog("a")
    log.add("word-empty", "text is ' '", item="word 3")
    assert list(log) == [problem]
    with pytest.raises(KeyError):
        Problem.of("no-such-code", "a", "")


def test_a_refusal_has_the_remedy_of_its_code_or_a_better_one() -> None:
    error = refusal("audio-mono", "has one channel", "a.wav")
    assert (error.code, error.where, error.next_step) == ("audio-mono", "a.wav", CODES["audio-mono"].remedy)
    assert refusal("audio-mono", "x", next_step="Do this.").next_step == "Do this."
    again = pickle.loads(pickle.dumps(recording_refusal("recording-cut", "ends", "r.jsonl:3")))
    assert type(again) is RecordingError and str(again) == str(
        recording_refusal("recording-cut", "ends", "r.jsonl:3")
    )


def test_a_refused_repair_is_reported_as_an_error() -> None:
    with pytest.raises(CallRefused) as caught:
        ProblemLog("a", strict=True).add("word-empty", "text is ' '", item="word 3")
    row = Problem.of_refusal("a", caught.value)
    assert (row.code, row.severity, row.item) == ("word-empty", "error", "word 3")
    assert without_root(row, Path("/corpus")).message == ("word 3: text is ' ' → Remove the entry.")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/d/calls/a.wav is cut", "a.wav is cut"),
        ("got '/d/calls/a b.wav' and /d/calls/c.wav", "got 'a b.wav' and c.wav"),
        ("does not exist in /d/calls (got 'x')", "does not exist in the corpus folder (got 'x')"),
        ("lies outside /d/calls, it leads to /d/calls_2024/a.wav", None),
        ("lies outside /d/calls.", "lies outside the corpus folder."),
        ("leads to /d/calls-2/a.wav, /d/calls.old/a.wav or /d/callsé", "leads to /d/calls-2/a.wav, /d/calls.old/a.wav or /d/callsé"),
        ("leads to /mnt/d/calls/a.wav", "leads to /mnt/d/calls/a.wav"),
        ("the calls folder of calls", "the calls folder of calls"),
    ],
)  # fmt: skip
def test_only_whole_parts_of_a_path_are_left_out(message: str, shown: str | None) -> None:
    problem = Problem.of("unexpected", "a", message)
    wanted = "lies outside the corpus folder, it leads to /d/calls_2024/a.wav" if shown is None else shown
    assert without_root(problem, Path("/d/calls")).message == wanted


def test_a_sibling_whose_name_goes_on_after_a_space_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("calls", "calls (copy)"):
        (tmp_path / name).mkdir()
    problem = Problem.of("unexpected", "a", f"{tmp_path}/calls (got 1) and {tmp_path}/calls (copy)/a.wav")
    shown = f"the corpus folder (got 1) and {tmp_path}/calls (copy)/a.wav"
    assert without_root(problem, tmp_path / "calls").message == shown
    monkeypatch.chdir(tmp_path)
    assert without_root(problem, Path("calls")).message == shown
