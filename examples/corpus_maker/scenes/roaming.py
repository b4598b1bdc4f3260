"""What mobile data costs abroad: two tools one after the other, and a caller who says "right" meanwhile."""

from __future__ import annotations

from corpus_maker.call import Call
from corpus_maker.scene import (
    Scene,
    assistant,
    call_tool,
    kept_until_thinking,
    reply,
    result,
    retold_reply,
    retold_tool_call,
    setup,
    think,
)
from corpus_maker.work import Work

POLICY = """You are the reasoning side of a telephone agent of Northwind Mobile. A speech model talks to the \
caller while you work; it reads what you read and think, and it may speak before you have finished.

- Prices abroad depend on the country and on the day. Read them from get_roaming_rates each time.
- Offer the daily rate and one pass, the cheaper one for the length of the trip if that is known.
- Add a pass only after the caller has chosen it. Say that it was added only when add_pass reports "added".
- A pass begins when the handset first registers abroad.

Account: 5520-9113. Plan: Flex 20. Roaming: allowed, no pass at present."""

TOOLS = """// Daily rate and passes for a country.
type get_roaming_rates = (_: { account: string, country: string }) => any;
// Adds a pass to the account.
type add_pass = (_: { account: string, pass: string }) => any;"""

RATES = {
    "country": "ES",
    "daily": 2.0,
    "passes": [{"id": "eu-30", "days": 30, "price": 15.0}, {"id": "eu-7", "days": 7, "price": 9.0}],
}
RATES_CALL = {"account": "5520-9113", "country": "ES"}


def roaming_pass() -> Scene:
    call = Call("brian", "henry")
    work = Work("roaming-pass")
    scene = Scene(
        id="roaming-pass",
        family="roaming-pass",
        split="validation",
        role="You are Brian at Northwind Mobile. You advise on prices abroad.",
        voice="brian",
        call=call,
        work=work,
        starts_us=1_720_000,
        text_conditions={"topic": "roaming"},
    )
    prepared = work.request([setup(POLICY, TOOLS)], 150_000)

    greeting = call.agent("Hello, this is Brian. What can I do?", 320_000)
    question = call.caller(
        "I fly to Spain on Friday. What does mobile data cost there?", greeting.end_us + 300_000
    )
    asked = scene.heard(question)
    first = work.request([asked, assistant(asked.available_us)], asked.available_us, after=prepared)
    think(first, "Spain, from Friday; how long is not known. I need today's rates for ES.")
    wanted = call_tool(first, "get_roaming_rates", **RATES_CALL)
    call.agent("One moment, please.", question.end_us + 280_000)

    found_us = wanted.arrival_us + 1_350_000
    second = work.request(
        [result("get_roaming_rates", RATES, found_us), assistant(found_us)], found_us, after=first
    )
    rates = second.segments["request-2.tool_result"]
    think(
        second,
        "£2 a day, £9 for 7 days, £15 for 30 days. The length of the trip is open, so name the daily rate and the "
        "longer pass, and let the caller choose.",
    )
    offer = "In Spain it is £2 a day, or £15 for a pass of 30 days."
    reply(second, offer)
    offered = call.agent(
        "In Spain it is two pounds a day, or fifteen pounds for the thirty day pass.",
        scene.after(rates, 480_000),
        supported_by=(rates.id,),
    )
    pause = next(word for word in offered.words if word.text == "day,")
    call.caller("Right.", pause.end_us - 60_000)
    choice = call.caller("I will take the pass.", offered.end_us + 420_000)

    chosen = scene.heard(choice)
    chosen_us = chosen.available_us
    third = work.request(
        [
            retold_tool_call("get_roaming_rates", RATES_CALL, chosen_us),
            result("get_roaming_rates", RATES, chosen_us),
            retold_reply(offer, chosen_us),
            chosen,
            assistant(chosen_us),
        ],
        chosen_us,
        after=first,
        keep=kept_until_thinking(first),
    )
    think(third, "The pass that was named is the one of 30 days, eu-30 for £15. Add it, then confirm.")
    adding = call_tool(third, "add_pass", account="5520-9113", **{"pass": "eu-30"})
    call.agent("I will add it now.", choice.end_us + 260_000)

    added_us = adding.arrival_us + 1_700_000
    outcome = {"status": "added", "pass": "eu-30", "price": 15.0, "begins": "first registration abroad"}
    fourth = work.request([result("add_pass", outcome, added_us), assistant(added_us)], added_us, after=third)
    added = fourth.segments["request-4.tool_result"]
    think(
        fourth, "Added. It begins when the handset registers in Spain, so nothing has to be done on Friday."
    )
    reply(fourth, "The pass has been added. It begins when you land.")
    scene.response = call.agent(
        "Done. The pass starts when you land.", scene.after(added, 400_000), supported_by=(added.id,)
    )
    call.caller("Brilliant.", scene.response.end_us + 240_000)
    return scene.finish()
