"""The same call from its other side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from inkplex_data.corpus.clips import part_of, with_clips
from inkplex_data.corpus.entry import AgentCaller, CallEntry, ChannelSpec, Clip
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.corpus.swap import swapped, swapped_sidecar, with_swapped


def entry(
    call_id: str = "a", audio: Path | AgentCaller = Path("a.wav"), channels: ChannelSpec | None = None
) -> CallEntry:
    return CallEntry(
        call_id=call_id, audio=audio, channels=channels, words=Path("a.json"), sidecar=None, recording=Path("r"),
        recording_starts_at_us=5, family="f", split="train", role="Be kind.", voice="amy", text_conditions={"a": 1},
        duration_s=1.0, source="a.wav", where="m:1",
    )  # fmt: skip


def test_sides_change_and_what_was_the_agents_goes() -> None:
    twin = swapped(entry())
    assert (twin.call_id, twin.family, twin.split, twin.words) == ("a~swapped", "f", "train", Path("a.json"))
    assert twin.channels == ChannelSpec(agent=1, caller=0) and twin.swapped
    assert (twin.recording, twin.role, twin.voice, twin.text_conditions) == (None, None, None, None)
    files = AgentCaller(Path("x.wav"), Path("y.wav"))
    assert swapped(entry(audio=files)).audio == AgentCaller(Path("y.wav"), Path("x.wav"))
    assert swapped(entry(audio=files)).channels is None
    assert swapped(entry(channels=ChannelSpec(agent=3, caller=2))).channels == ChannelSpec(agent=2, caller=3)


def test_a_taken_id_is_named() -> None:
    kept, problems = with_swapped([entry("a"), entry("a~swapped"), entry("b")])
    assert [kept_.call_id for kept_ in kept] == ["a", "a~swapped", "a~swapped~swapped", "b", "b~swapped"]
    assert [(problem.call_id, problem.code) for problem in problems] == [("a~swapped", "duplicate-id")]


def test_sidecar() -> None:
    sidecar = Sidecar.model_validate(
        {
            "schema": "inkplex/sidecar@1",
            "identity": {"clip_id": "a", "family": "f"},
            "audio": {"agent": {"origin": "synthetic"}, "caller": {"origin": "recorded"}},
            "prompt": {"role": "Be kind."},
            "words": {"items": []},
            "masks": {
                "valid": {"agent": [{"start_s": 0.0, "end_s": 1.0}], "text": []},
                "excluded": [
                    {"start_s": 1.0, "end_s": 2.0, "modality": "caller", "reason": "missing"},
                    {"start_s": 1.0, "end_s": 2.0, "modality": "text", "reason": "uncertain"},
                ],
            },
        }
    )
    turned = swapped_sidecar(sidecar)
    assert turned.audio is not None and turned.masks is not None
    assert (turned.audio.agent.origin, turned.audio.caller.origin) == ("recorded", "synthetic")
    assert [transform.name for transform in turned.audio.transforms] == ["swap-roles"]
    assert turned.prompt is None and turned.words is None and turned.identity == sidecar.identity
    assert [span.modality for span in turned.masks.excluded] == ["agent"]
    assert (
        turned.masks.valid.caller is not None and turned.masks.valid.agent is turned.masks.valid.text is None
    )
    assert Sidecar.model_validate(turned.to_json()) == turned


def test_a_part_of_the_twin_is_the_twin_of_the_part() -> None:
    clip = Clip(1_500_000, 3_000_000)
    parts, problems = with_clips([replace(entry(), clips=(clip, clip)), entry("b")])
    assert [part.call_id for part in parts] == ["a~1.5-3", "b"]
    assert [problem.code for problem in problems] == ["duplicate-id"]
    assert parts[0].recording_starts_at_us == 1_500_005 and parts[0].family == "f"
    one, other = swapped(part_of(entry(), clip)), part_of(swapped(entry()), clip)
    assert replace(one, call_id="") == replace(other, call_id="")
