"""Facts of a text, and what else each could be."""

from __future__ import annotations

from inkplex_data.speech.check.facts import facts_of


def kinds(text: str) -> dict[str, set[str]]:
    words = text.split()
    found: dict[str, set[str]] = {}
    for fact in facts_of(words):
        found.setdefault(fact.kind, set()).add(words[fact.index])
    return found


def test_kinds_of_facts():
    found = kinds("Brian owes seventy-five pounds, due Monday at nine. I can't wait, ask Anna not me.")
    assert found["amount"] == {"seventy-five"}
    assert found["date"] == {"Monday"}
    assert found["number"] == {"nine."}
    assert {"can't", "not"} <= found["negation"]
    assert found["name"] == {"Anna", "Brian"}


def test_alternatives_change_one_word_of_a_number():
    fact = next(fact for fact in facts_of(["fifteen", "pounds"]) if fact.kind == "amount")
    assert "fifty" in fact.alternatives
    assert "sixteen" in fact.alternatives
    assert "fifteen" not in fact.alternatives
    fact = next(fact for fact in facts_of(["seventy-five"]) if fact.kind == "number")
    assert {"sixty five", "seventy six"} <= set(fact.alternatives)


def test_a_negation_may_be_lost_or_heard():
    words = ["It", "is", "in", "the", "house,", "not", "at", "home."]
    alternatives = {words[fact.index]: fact.alternatives for fact in facts_of(words)[::-1]}
    assert alternatives["not"] == ("",)
    assert alternatives["in"] == ("not in", "no in")
    assert "at" not in alternatives
