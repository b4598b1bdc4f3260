"""The reference pages that follow from the code are the ones that are committed."""

from __future__ import annotations

import runpy

import pytest

from inkplex_data.problems import CODES
from tests.conftest import ROOT

GENERATE = runpy.run_path(str(ROOT / "docs" / "generate.py"))


@pytest.mark.parametrize("name", sorted(GENERATE["PAGES"]))
def test_the_committed_page_is_in_step(name: str) -> None:
    page = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert page == GENERATE["PAGES"][name](), "run `python docs/generate.py`"


def test_every_code_says_what_it_means_and_what_to_do() -> None:
    for name, code in CODES.items():
        assert code.meaning.endswith("."), name
        assert code.remedy.endswith("."), name
