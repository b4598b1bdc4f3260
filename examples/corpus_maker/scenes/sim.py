"""A SIM card that has not arrived: one recorded session, and two calls over it.

The first call is the one that the session was recorded in. The second asks new questions over the same
trace and begins later on the session clock, so some of it is known from the start and some arrives meanwhile.
"""

from __future__ import annotations

from corpus_maker.call import Call
from corpus_maker.scene import Scene, assistant, call_tool, reply, result, setup, think
from corpus_maker.work import Work

POLICY = """You are the reasoning side of a telephone agent of Northwind Mobile. A speech model talks to the \
caller while you work; it reads what you read and think, and it may speak before you have finished.

- Parcels: give the state that the carrier reports and its time, not an estimate of your own.
- Keeping a number: a transfer runs at a booked time. The old SIM works until then.
- Never read out a transfer code.

Account: 3108-2276. Order: SIM card, sent 9 November. Transfer of a number: requested."""

TOOLS = """// Where a parcel is, as its carrier reports it.
type track_parcel = (_: { order: string }) => any;
// State of a number transfer.
type get_transfer = (_: { account: string }) => any;"""

PARCEL = {
    "order": "S-55190",
    "state": "out for delivery",
    "latest": "18:00 today",
    "if_absent": "left with a neighbour",
}
TRANSFER = {
    "account": "3108-2276",
    "state": "booked",
    "at": "21:00 today",
    "old_sim_works_until": "21:00 today",
}
ROLE = "You are Anna at Northwind Mobile. You help with orders and numbers."


def sim_calls() -> list[Scene]:
    """Two calls over the recording `sim-delivery`."""
    call = Call("anna", "gareth")
    work = Work("sim-delivery")
    scene = Scene(
        id="sim-delivery",
        family="sim-delivery",
        split="train",
        role=ROLE,
        voice="anna",
        call=call,
        work=work,
        starts_us=2_000_000,
    )
    prepared = work.request([setup(POLICY, TOOLS)], 200_000)

    greeting = call.agent("Hello, Anna here. How can I help?", 480_000)
    question = call.caller(
        "My new SIM card has not arrived, and I want to keep my number.", greeting.end_us + 320_000
    )
    asked = scene.heard(question)
    first = work.request([asked, assistant(asked.available_us)], asked.available_us, after=prepared)
    think(
        first,
        "Two things: where the SIM card is, and whether the number comes along. First the parcel of order S-55190, "
        "then the transfer.",
    )
    wanted = call_tool(first, "track_parcel", order="S-55190")
    call.agent("I will track the parcel first.", question.end_us + 300_000)

    found_us = wanted.arrival_us + 1_200_000
    second = work.request(
        [result("track_parcel", PARCEL, found_us), assistant(found_us)], found_us, after=first
    )
    parcel = second.segments["request-2.tool_result"]
    think(
        second,
        "Out for delivery, by 18:00 today; if nobody is there it is left with a neighbour. So the card comes today. "
        "Now the transfer of the number.",
    )
    asking = call_tool(second, "get_transfer", account="3108-2276")
    on_the_van = call.agent(
        "It is on the van, and should reach you by six today.",
        scene.after(parcel, 450_000),
        supported_by=(parcel.id,),
    )
    comma = next(word for word in on_the_van.words if word.text == "van,")
    call.caller("Oh good.", comma.end_us + 40_000)
    call.agent("The number takes me a little longer.", on_the_van.end_us + 620_000)

    booked_us = asking.arrival_us + 7_400_000
    third = work.request(
        [result("get_transfer", TRANSFER, booked_us), assistant(booked_us)], booked_us, after=second
    )
    transfer = third.segments["request-3.tool_result"]
    think(
        third,
        "Booked for 21:00 today. The old SIM works until 21:00. The card comes by 18:00, three hours before, so that "
        "fits.",
    )
    reply(third, "Your number moves at 21:00 today. The old SIM works until then.")
    scene.response = call.agent(
        "Your number moves tonight at nine. Until then, keep the old card in.",
        scene.after(transfer, 420_000),
        supported_by=(transfer.id,),
    )
    call.caller("Perfect, thanks.", scene.response.end_us + 300_000)
    return [scene.finish(), _later_call(work, parcel_id=parcel.id, transfer_id=transfer.id)]


def _later_call(work: Work, *, parcel_id: str, transfer_id: str) -> Scene:
    """New questions over the same trace, begun ten seconds before the transfer is known."""
    segments = {segment.id: segment for segment in work.segments()}
    call = Call("anna", "iris")
    scene = Scene(
        id="sim-delivery-later",
        family="sim-delivery",
        split="train",
        role=ROLE,
        voice="anna",
        call=call,
        work=work,
        starts_us=segments[transfer_id].arrival_us - 10_640_000,
    )
    greeting = call.agent("Anna speaking.", 560_000)
    question = call.caller("Where is my card now, and will my number move today?", greeting.end_us + 280_000)
    known = call.agent(
        "Your card is out for delivery, due by six.", question.end_us + 340_000, supported_by=(parcel_id,)
    )
    call.agent("I have no word on the number yet.", known.end_us + 360_000)
    scene.response = call.agent(
        "Now I do. It moves tonight at nine.",
        scene.after(segments[transfer_id], 500_000),
        supported_by=(transfer_id,),
    )
    absent = call.caller("And what if nobody is home for the card?", scene.response.end_us + 350_000)
    call.agent(
        "Then the driver will leave it with a neighbour.", absent.end_us + 380_000, supported_by=(parcel_id,)
    )
    call.caller("That works for me.", call.turns[-1].end_us + 260_000)
    return scene.finish(tail_us=1_150_000)
