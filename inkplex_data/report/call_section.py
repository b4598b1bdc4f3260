"""One call on the page: its facts, its problems by place, its sound with a playhead, and its timeline."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inkplex_data.clock import FRAME_US, US_PER_S
from inkplex_data.report.svg import html_text, severity_class, timeline_svg
from inkplex_data.report.view import CallView

if TYPE_CHECKING:
    from inkplex_data.report.call_sound import CallSound

SHOWN_PROBLEMS = 200
"""Most problems that are listed under one call."""


@dataclass(frozen=True)
class DrawnCall:
    """A call to draw: with its sound, or with a sentence that says why there is none."""

    view: CallView
    sound: CallSound | None = None
    silent_because: str = ""


def call_section(call: DrawnCall, attributes: str, *, opened: bool) -> str:
    """HTML. `attributes`: what the filters look at (`call_filters.Filters.attributes`)."""
    view = call.view
    seconds = f"{view.frames * FRAME_US / US_PER_S:.1f} s"
    return (
        f'<details class="call" id="{anchor(view.call_id)}"{attributes}{" open" if opened else ""}>'
        f'<summary>{html_text(view.call_id)} <span class="dim">{seconds}, {view.frames:,} frames</span></summary><div>\n'
        f"{call_body(call)}</div></details>\n"
    )


def call_body(call: DrawnCall) -> str:
    """What stands under a call's name."""
    view = call.view
    return (
        f"{_chips(view.facts.items())}{_problems(view)}"
        f'<div class="player">{_sound(call)}<div class="scroll">{timeline_svg(view)}</div></div>'
    )


def anchor(call_id: str) -> str:
    """An id without spaces or quotes, always the same for the same call."""
    return "call-" + call_id.encode("utf-8", "replace").hex()


def _chips(facts: Iterable[tuple[str, str]]) -> str:
    inner = "".join(f"<span><span>{html_text(name)}</span>{html_text(value)}</span>" for name, value in facts)
    return f'<div class="chips">{inner}</div>\n'


def _problems(view: CallView) -> str:
    if not view.problems:
        return ""
    rows = []
    for one in view.problems[:SHOWN_PROBLEMS]:
        place = ""
        if one.frame is not None:
            place = f'<button type="button" class="jump" data-frame="{one.frame}">{clock_text(one.frame)}</button> '
        rows.append(
            f'<li>{place}<span class="code {severity_class(one.severity)}">{html_text(one.code)}</span> {html_text(one.message)}</li>'
        )
    left_out = len(view.problems) - SHOWN_PROBLEMS
    more = f'<li class="dim">and {left_out:,} more</li>' if left_out > 0 else ""
    return f'<ul class="problems">{"".join(rows)}{more}</ul>\n'


def _sound(call: DrawnCall) -> str:
    if call.sound is None:
        return f'<p class="dim">{html_text(call.silent_because)}</p>\n' if call.silent_because else ""
    name = html_text(call.view.call_id)
    ears = "".join(
        f'<button type="button" class="ear" data-ear="{ear}" aria-pressed="{str(ear == "both").lower()}">{ear}</button>'
        for ear in ("both", "agent", "caller")
    )
    return (
        f'<audio controls preload="metadata" aria-label="Sound of {name}" '
        f'src="data:audio/ogg;base64,{b64encode(call.sound.ogg).decode()}"></audio>\n'
        f'<p class="hear"><span class="ears" role="group" aria-label="Which voice to hear">{ears}</span> '
        f'<output class="now">0:00.00, frame 0</output> <span class="dim">{html_text(call.sound.source)}</span></p>\n'
    )


def clock_text(frame: int) -> str:
    """Where a frame begins, as minutes and seconds."""
    hundredths = frame * FRAME_US // 10_000
    return f"{hundredths // 6_000}:{hundredths // 100 % 60:02d}.{hundredths % 100:02d}"
