"""A bill of £85 instead of £60, and a roaming charge of £10 that has been credited, or has not.

The subject is that of seeds/000, "A continuous explanation, not a sequence of event announcements". The
two calls are counterfactual twins: the same until the credits arrive, other evidence and another answer after.
"""

from __future__ import annotations

from typing import Any

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

- Find out what the account shows. Amounts come from tool results, never from the caller or from memory.
- When a caller disputes a charge, look at the itemised bill first, then at credits and their status.
- A credit with status "posted" lowers the amount due. A credit with status "requested" or "declined" does not.
- The bill and the amount due are two facts. State both when they differ.
- Do not promise a refund that no tool result confirms. If something is not known yet, say that it is not known.
- All amounts are in pounds sterling and include VAT.

Account: 7731-0042. Plan: Unlimited 60, £60 a month. Customer since March 2021. No open complaints."""

TOOLS = """// The itemised bill of one month.
type get_bill = (_: { account: string, month: string }) => any;
// Credits on the account, whatever their status.
type get_credits = (_: { account: string, since: string }) => any;
// Opens a dispute for one charge.
type open_dispute = (_: { account: string, charge: string, reason: string }) => any;"""

BILL = {
    "month": "2026-10",
    "items": [
        {"charge": "plan", "text": "Unlimited 60", "amount": 60.0},
        {"charge": "roaming", "text": "Data in Switzerland, 3 October", "amount": 10.0},
        {"charge": "one_time", "text": "Handset delivery", "amount": 15.0},
    ],
    "total": 85.0,
    "due": "2026-11-20",
}
BILL_CALL = {"account": "7731-0042", "month": "2026-10"}
CREDITED = {"credits": [{"charge": "roaming", "amount": 10.0, "status": "posted", "date": "2026-11-02"}]}
NOT_CREDITED: dict[str, Any] = {"credits": [], "note": "none requested"}


def bill_twins() -> list[Scene]:
    """The call with the credit, and its twin without one."""
    credited, fork_us = _bill("bill-85-credit", credit=True)
    twin, twin_fork_us = _bill("bill-85-no-credit", credit=False)
    if fork_us != twin_fork_us:
        raise ValueError(f"the twins fork at {fork_us} and {twin_fork_us} µs")
    twin.work.branch_of = (credited.work.name, fork_us)
    return [credited, twin]


def _bill(name: str, *, credit: bool) -> tuple[Scene, int]:
    call = Call("brian", "fiona")
    work = Work(name)
    scene = Scene(
        id=name,
        family="bill-85",
        split="validation",
        role="You are Brian at Northwind Mobile. You explain bills. Say only what the account shows.",
        voice="brian",
        call=call,
        work=work,
        starts_us=2_400_000,
    )
    prepared = work.request([setup(POLICY, TOOLS)], 180_000)

    greeting = call.agent("Northwind Mobile, Brian speaking.", 400_000)
    question = call.caller(
        "Hello. My bill is eighty-five pounds this month, and it is normally sixty.",
        greeting.end_us + 350_000,
    )
    asked = scene.heard(question)
    first = work.request([asked, assistant(asked.available_us)], asked.available_us, after=prepared)
    think(
        first,
        "The caller reports a bill of £85 instead of the usual £60, so £25 more. I have not seen the bill yet. "
        "I need the itemised bill of October before anything can be explained.",
    )
    wanted = call_tool(first, "get_bill", **BILL_CALL)
    call.agent("I will get that bill up.", question.end_us + 320_000)

    found_us = wanted.arrival_us + 900_000
    second = work.request([result("get_bill", BILL, found_us), assistant(found_us)], found_us, after=first)
    itemised = second.segments["request-2.tool_result"]
    think(
        second,
        "£60 plan, £10 roaming in Switzerland, £15 one-time handset delivery: £60 + £10 + £15 = £85. The £25 more "
        "are the roaming and the delivery. Whether the delivery was agreed I do not know.",
    )
    explanation = (
        "The bill is £85: £60 for the plan, £10 for roaming in Switzerland and £15 for handset delivery."
    )
    reply(second, explanation)
    explain_us = scene.after(itemised, 520_000)
    text = "It is sixty pounds for the plan, ten pounds for roaming, and fifteen pounds for the handset delivery."
    rehearsal = Call("brian", "fiona").agent(text, explain_us)
    broken_off = next(word for word in rehearsal.words if word.text == "handset")
    stop_us = (broken_off.start_us + broken_off.end_us) // 2
    call.agent(text, explain_us, supported_by=(itemised.id,), stop_us=stop_us)

    objection = call.caller("Sorry, I was told the roaming would be credited.", stop_us - 520_000)
    told = scene.heard(objection)
    told_us = told.available_us
    third = work.request(
        [
            retold_tool_call("get_bill", BILL_CALL, told_us),
            result("get_bill", BILL, told_us),
            retold_reply(explanation, told_us),
            told,
            assistant(told_us),
        ],
        told_us,
        after=first,
        keep=kept_until_thinking(first),
    )
    think(
        third,
        "She was told that the £10 roaming charge would be credited. The bill does not show that. I must look at "
        "the credits: only one with status posted changes what is due.",
    )
    checking = call_tool(third, "get_credits", account="7731-0042", since="2026-10-01")
    call.agent("Let me check the credits.", objection.end_us + 300_000)

    known_us = checking.arrival_us + 2_300_000
    on_account = CREDITED if credit else NOT_CREDITED
    fourth = work.request(
        [result("get_credits", on_account, known_us), assistant(known_us)], known_us, after=third
    )
    evidence = fourth.segments["request-4.tool_result"]
    if credit:
        think(
            fourth,
            "Posted on 2 November: a credit of £10 for the roaming. The original bill was £85, the current amount "
            "due is £85 − £10 = £75. Both facts belong in the answer.",
        )
        reply(fourth, "The £10 for roaming has been credited. The bill was £85; £75 is due now.")
        answer = "Yes. The ten pounds have been credited, so seventy-five pounds are due."
        thanks = "Great, thank you."
    else:
        think(
            fourth,
            "There is no credit on the account and none was requested. The amount due is still £85. I can offer to "
            "open a dispute for the £10, but must not promise that it will succeed.",
        )
        reply(fourth, "No credit is on the account, so £85 is due. I can open a dispute for the £10.")
        answer = "I see no credit here, so all eighty-five pounds are due. I can dispute it."
        thanks = "Yes, please do that."
    scene.response = call.agent(
        answer, scene.after(evidence, 430_000), supported_by=(itemised.id, evidence.id)
    )
    call.caller(thanks, scene.response.end_us + 280_000)
    return scene.finish(), evidence.arrival_us
