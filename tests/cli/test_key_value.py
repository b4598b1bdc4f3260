"""KEY=VALUE options: what they take, and what they say to the rest."""

from __future__ import annotations

import pytest

from inkplex_data.cli.key_value import key_values, number
from inkplex_data.errors import UsageError


def test_values_are_read_as_yaml_and_the_last_of_a_key_counts() -> None:
    given = ["a.b=0.2", "name = x=y", "none=", "list=[1, two]", "a.b=1"]
    assert key_values("--set", given) == {"a.b": 1, "name": "x=y", "none": None, "list": [1, "two"]}
    assert key_values("--set", None) == {}
    assert key_values("--schedule", ["prefill_s=1e3"], read=number) == {"prefill_s": 1000.0}


@pytest.mark.parametrize("setting", ["", "key", "=value", "key=[1,"])
def test_what_is_no_pair_is_refused_with_the_option(setting: str) -> None:
    with pytest.raises(UsageError, match=r"--set .*takes"):
        key_values("--set", [setting])


def test_a_number_is_asked_for_where_only_one_will_do() -> None:
    with pytest.raises(UsageError, match=r"--schedule prefill_s takes a number \(got 'soon'\)"):
        key_values("--schedule", ["prefill_s=soon"], read=number)
