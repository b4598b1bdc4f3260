"""What happened to a call that its owner should know: every repair, loss and refusal has a code here.

The tables of codes stand one a subject in the modules beside this one, and `CODES` joins them;
docs/reference/problems.md is generated from it.
"""

from __future__ import annotations

from inkplex_data.problems.all_codes import CODES
from inkplex_data.problems.code_table import Code, Severity
from inkplex_data.problems.problem import Problem, ProblemLog, recording_refusal, refusal, without_root

__all__ = [
    "CODES",
    "Code",
    "Problem",
    "ProblemLog",
    "Severity",
    "recording_refusal",
    "refusal",
    "without_root",
]
