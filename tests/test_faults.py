"""A fault says where it is, what it got and which rule that breaks, as far as each is known."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from inkplex_data.faults import Fault, FaultError, faults_of


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int


class Outer(BaseModel):
    inner: list[Inner]


def test_the_place_is_filled_in_when_it_is_known() -> None:
    fault = Fault("must be text", "5", "/a/0", code="kind")
    assert str(fault) == "/a/0 must be text (got 5)"
    assert str(fault.at("file.json")) == "file.json: /a/0 must be text (got 5)"
    assert str(fault.at("lines.jsonl", 7)) == "lines.jsonl:7: /a/0 must be text (got 5)"
    assert str(Fault("is gone", where="calls/000000", next_step="Build it.")) == (
        "calls/000000: is gone\n  → Build it."
    )


def test_machines_get_what_is_known() -> None:
    assert Fault("is empty").as_json() == {"rule": "is empty"}
    assert Fault("must be text", "5", "/a", code="kind").at("f", 1).as_json() == {
        "rule": "must be text",
        "value": "5",
        "pointer": "/a",
        "where": "f",
        "line": 1,
        "code": "kind",
    }


def test_an_error_carries_faults_of_one_code() -> None:
    error = FaultError(Fault("is wrong", code="a"), Fault("is worse", "2", code="a"))
    assert error.code == "a" and str(error) == "is wrong; is worse (got 2)"


def test_faults_of_a_model_point_into_the_data_and_know_what_was_meant() -> None:
    data = {"inner": [{"count": 1}, {"cuont": 2}]}
    try:
        Outer.model_validate(data)
    except ValidationError as error:
        found = faults_of(error, data, Outer, code="line")
    assert [(fault.pointer, fault.rule, fault.value, fault.code) for fault in found] == [
        ("/inner/1/count", "is missing", "", "line"),
        ("/inner/1/cuont", "is not a known field; did you mean 'count'?", "2", "line"),
    ]
