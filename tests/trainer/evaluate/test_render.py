from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.sidecars.playback import history_row, unheard_spans
from inkplex_data.trainer.evaluate.render import folder_name, write_generation
from inkplex_data.trainer.run.logs.run_progress import check_text, update_text


@given(st.text(max_size=30))
def test_a_call_s_folder_stays_in_its_place(call_id: str) -> None:
    name = folder_name(call_id)
    assert name not in ("", ".", "..") and not set(name) & set("/\\\0:")
    assert len(name.encode()) < 200


def test_plain_ids_keep_their_name_and_others_stay_apart() -> None:
    assert folder_name("call-003.b") == "call-003.b"
    assert len({folder_name(name) for name in ("a/b", "a b", "a:b", "..", ".", "")}) == 6


def test_the_progress_line() -> None:
    row = {
        "update": 30,
        "loss": 3.0,
        "text_loss": 1.0,
        "voice_loss": 2.0,
        "parts": {"text/first_piece": None},
        "gradient_norm": 0.5,
        "read_strength": [0.0, 0.125],
    }
    text = update_text(row, 1_830, 2.0)
    assert text.startswith("update 30/1830  loss 3.0000") and "2.00 s/update  1:00:00 left" in text
    assert "no first piece" in text and "read 0 0.12" in text
    check = {"update": 4, "losses": {"first piece": {"own": 1.0, "none": 2.0}}, "voice_kept": False}
    assert (
        check_text(check)
        == "check at update 4: first piece with memory own 1.0000, none 2.0000; voice not kept"
    )


def test_lines_of_a_model_without_memory() -> None:
    row = {"update": 5, "loss": 2.5, "losses": {"first piece": {"none": 3.25}}}
    assert check_text(row) == "check at update 5: loss 2.5000, first piece 3.2500"
    silent = {"update": 5, "loss": 2.5, "losses": {"first piece": {"none": None}}}
    assert check_text(silent) == "check at update 5: loss 2.5000"


def test_a_generation_has_a_receipt_and_is_a_call_again(tmp_path: Path) -> None:
    """Rendering a file is no evidence of hearing: what was played stays unknown, and nothing was cancelled."""
    document = {
        "call_id": "a/b",
        "text": "Yes.",
        "words": [{"text": "Hello", "generated": False}, {"text": "Yes.", "generated": True}],
        "alignments": [["Hello", [0.08, 0.16], "SPEAKER_MAIN"], ["Yes.", [0.24, 0.32], "SPEAKER_MAIN"]],
        "starts_s": 1.6,
        "free_from_s": 1.76,
        "ends_s": 2.0,
    }
    written = write_generation(tmp_path, "trained", document, np.zeros((2, 9_600), np.float32))
    assert [path.name for path in written] == ["trained.wav", "trained.sidecar.json", "trained.json"]
    [entry] = read_corpus(tmp_path).entries
    text = CallText.of(entry)
    assert text.sidecar is not None and text.sidecar.audio is not None and text.sidecar.history is not None
    assert (text.sidecar.audio.samples, text.sidecar.audio.agent.origin) == (9_600, "actual_model_output")
    assert text.sidecar.history.begins == "cut" and unheard_spans(text.sidecar) == []
    opening, generated = history_row(text.sidecar) or ()
    assert (opening["source"], opening["text"], opening["generated"]) == (
        "teacher",
        "Hello",
        [{"start": 0, "end": 3_840}],
    )
    assert generated["generated"] == [{"start": 3_840, "end": 9_600}] and generated["text"] == "Yes."
    assert (generated["observation"], generated["is_heard_known"]) == ("local_render", False)
    assert (generated["queued"], generated["played"], generated["cancelled"]) == ([], None, [])
    assert [path.name for path in write_generation(tmp_path / "x", "y", document, None)] == ["y.json"]
