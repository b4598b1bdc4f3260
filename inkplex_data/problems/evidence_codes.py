"""Codes of claims, evidence and permitted updates."""

from __future__ import annotations

from typing import Final

from inkplex_data.problems.code_table import error, info, repair, table

EVIDENCE: Final = table(
    "evidence",
    {
        "claim-before-evidence": repair(
            "A claim is made before the evidence that it rests on had arrived.",
            "Correct the times in the sidecar, or leave the call out: it teaches to say what is not known yet.",
        ),
        "claim-superseded": repair(
            "A claim rests on evidence that something else had replaced when it was made.",
            "Name the evidence that replaced it in the sidecar, or leave the call out: it teaches what is no longer true.",
        ),
        "claim-unsupported": info(
            "A claim names no evidence that it rests on.",
            "Name its evidence in the sidecar, or leave the claim out if it says nothing of the task.",
        ),
        "tokens-not-permitted": info(
            "The sidecar's list of permitted updates leaves tokens of the recording out, so no frame reads them.",
            "Name every stretch of tokens that frames may read as an update, and list it; or leave the list out.",
        ),
        "update-rows": error(
            "An update of the sidecar names rows that the recording does not have.",
            "Correct `rows` in the sidecar; they count the recording's computed tokens by request and position.",
        ),
    },
)
