from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.trainer.evaluate.render import folder_name
from inkplex_data.trainer.run.run_progress import check_text, update_text


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
