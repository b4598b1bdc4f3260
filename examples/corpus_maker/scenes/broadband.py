"""A line test that takes its time: several seconds of silence, and a caller's line that drops meanwhile."""

from __future__ import annotations

from corpus_maker.call import Call
from corpus_maker.scene import Scene, assistant, call_tool, reply, result, setup, think
from corpus_maker.work import Work

POLICY = """You are the reasoning side of a telephone agent of Northwind Broadband. A speech model talks to the \
caller while you work; it reads what you read and think, and it may speak before you have finished.

- Run the line test before you suggest anything that the caller has to do.
- A fault outside the home needs an engineer. Offer the first slot; book it only when the caller agrees.
- Say what the test found in plain words. Do not guess at a cause that it did not report.

Line: BB-40417, fibre to the cabinet. No planned work in the area."""

TOOLS = """// Measures the line. Takes several seconds.
type run_line_test = (_: { line: string }) => any;
// First free slot of an engineer.
type first_slot = (_: { line: string, kind: string }) => any;"""

TEST = {"line": "BB-40417", "fault": "none in the home", "segment": "street cabinet", "state": "no signal"}
SLOT = {"line": "BB-40417", "slot": "tomorrow 09:00", "kind": "cabinet"}


def broadband_fault() -> Scene:
    call = Call("carla", "gareth")
    work = Work("broadband-fault")
    scene = Scene(
        id="broadband-fault",
        family="broadband-fault",
        split="test",
        role="You are Carla at Northwind Broadband. You find faults on the line.",
        voice=None,
        call=call,
        work=work,
        starts_us=1_500_000,
    )
    prepared = work.request([setup(POLICY, TOOLS)], 120_000)

    greeting = call.agent("Northwind Broadband, this is Carla.", 320_000)
    question = call.caller("My internet has been down since this morning.", greeting.end_us + 340_000)
    asked = scene.heard(question)
    first = work.request([asked, assistant(asked.available_us)], asked.available_us, after=prepared)
    think(
        first, "Down since this morning, no planned work. The line test comes first; it needs some seconds."
    )
    testing = call_tool(first, "run_line_test", line="BB-40417")
    waiting = call.agent("I will test your line. Please stay with me.", question.end_us + 300_000)
    scene.missing_caller.append((waiting.end_us + 2_400_000, waiting.end_us + 3_640_000))

    tested_us = testing.arrival_us + 8_100_000
    second = work.request(
        [result("run_line_test", TEST, tested_us), assistant(tested_us)], tested_us, after=first
    )
    test = second.segments["request-2.tool_result"]
    think(
        second,
        "No signal at the street cabinet, nothing wrong in the home. That is outside, so an engineer is needed. "
        "Nothing for the caller to do. What is the first slot?",
    )
    slot_asked = call_tool(second, "first_slot", line="BB-40417", kind="cabinet")
    found = call.agent(
        "The fault is in the street cabinet, not in your home.",
        scene.after(test, 460_000),
        supported_by=(test.id,),
    )
    slot_us = max(slot_asked.arrival_us + 700_000, scene.session(found.end_us) - 500_000)
    third = work.request([result("first_slot", SLOT, slot_us), assistant(slot_us)], slot_us, after=second)
    slot = third.segments["request-3.tool_result"]
    think(third, "Tomorrow at 09:00, for the cabinet. The caller must agree before it is booked.")
    reply(third, "An engineer could be at the cabinet tomorrow at 09:00. Shall I book it?")
    scene.response = call.agent(
        "An engineer can be there at nine tomorrow.",
        max(scene.after(slot, 400_000), found.end_us + 300_000),
        supported_by=(slot.id,),
    )
    call.caller("Nine is fine. Please book it.", scene.response.end_us + 320_000)
    return scene.finish()
