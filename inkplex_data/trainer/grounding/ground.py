"""The decisive test of a checkpoint: every case, every branch, every system, in one table.

OUT/runs.parquet   OUT/claims.parquet   OUT/summary.parquet   OUT/fact_loss.parquet   OUT/table.md   OUT/cases.json
`cases.json` holds what a reviewer sees of each run; `report` makes a page of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from inkplex_data.atomic import json_bytes, together
from inkplex_data.clock import FRAME_US
from inkplex_data.corpus.sidecars.claims import Said
from inkplex_data.errors import UsageError
from inkplex_data.grid import AUDIO_CARD
from inkplex_data.memory.branches import NEVER_US
from inkplex_data.trainer.evaluate.bootstrap import RESAMPLES
from inkplex_data.trainer.evaluate.generate import Generator
from inkplex_data.trainer.evaluate.render import words_of
from inkplex_data.trainer.evaluate.replay import Replayed, response_frame
from inkplex_data.trainer.grounding.baselines import commonest_answer, oracle, spaced
from inkplex_data.trainer.grounding.cases import DELAY_US, Branch, Case, cases_of
from inkplex_data.trainer.grounding.claims.carried import Item
from inkplex_data.trainer.grounding.claims.claim_verdicts import VERDICTS, judge
from inkplex_data.trainer.grounding.due_answers import answered
from inkplex_data.trainer.grounding.prompted import PromptedCall, evidence_text, store_tokenizer
from inkplex_data.trainer.grounding.run_tables import (
    CLAIMS,
    RUNS,
    SYSTEMS,
    TRAINED,
    failures,
    markdown,
    markdown_table,
    summarise,
    summary_text,
)
from inkplex_data.trainer.grounding.runs import CaseRunner, first_difference

SCHEMA = "inkplex/grounding@1"
SHOWN_CHARACTERS = 2_000
"""Of a result's text in `cases.json`."""


@dataclass(frozen=True)
class Run:
    """One system's speech in one branch of a case. said: words from the first free frame on. replayed: None where
    nothing was generated. reason: why it was not attempted."""

    case: Case
    branch: Branch
    system: str
    said: list[Said]
    free_us: int
    ends_us: int
    replayed: Replayed | None = None
    agrees: bool | None = None
    differs: bool | None = None
    reason: str | None = None


@dataclass
class Grounding:
    """runs: `run_tables.RUNS`; claims: `run_tables.CLAIMS`; shown: what `cases.json` holds of each case."""

    runs: pl.DataFrame
    claims: pl.DataFrame
    summary: pl.DataFrame
    shown: list[dict[str, Any]]
    left_out: list[str] = field(default_factory=list)

    def text(self) -> str:
        """For a terminal: the deciding measure of every system, and how runs ended."""
        ended = ", ".join(
            f"{system} {status} {count}" for system, status, count in failures(self.runs).rows()
        )
        lines = [
            "both right: a branch with an answer due and one without; bounds are one-sided 95%, from a bootstrap over families",
            summary_text(self.summary),
            f"runs: {ended}",
            *self.left_out,
        ]
        return "\n".join(lines)


def ground(
    generator: Generator,
    *,
    split: str = "validation",
    calls: Collection[str] | None = None,
    limit: int | None = None,
    delay_us: int = DELAY_US,
    resamples: int = RESAMPLES,
    seed: int = 0,
    keep: Callable[[Run], None] | None = None,
    advance: Callable[[], None] | None = None,
) -> Grounding:
    """Every case of a split, or of `calls` in it, under every system. `keep` gets each run as it is made.

    Raises UsageError for a split without a case.
    """
    store = generator.store
    cases = list(cases_of(store, split, calls=calls, delay_us=delay_us))[:limit]
    if not cases:
        raise UsageError(
            f"no call of split {split!r} has a result that arrives during it",
            where=store.root,
            next_step="Choose a split whose calls have recordings with states and tool results.",
        )
    runner = CaseRunner(generator)
    constant = commonest_answer(cases_of(store, "train")) or commonest_answer(cases)
    left_out: list[str] = []
    rows, claims, shown = [], [], []
    for case in cases:
        runs = []
        for run in _runs(runner, case, constant, left_out):
            if keep is not None:
                keep(run)
            row, own = measure(run)
            rows.append(row)
            claims += own
            runs.append((run, row, own))
        shown.append(_shown(case, runs))
        if advance is not None:
            advance()
    table = pl.DataFrame(rows, schema=RUNS)
    return Grounding(
        table,
        pl.DataFrame(claims, schema=CLAIMS),
        summarise(table, resamples=resamples, seed=seed),
        shown,
        list(dict.fromkeys(left_out)),
    )


def _runs(runner: CaseRunner, case: Case, constant: str, left_out: list[str]) -> Iterator[Run]:
    try:
        plan = runner.course(case).plan
    except UsageError as error:
        for branch in case.branches:
            for system in SYSTEMS:
                yield Run(case, branch, system, [], 0, 0, reason=error.what)
        return
    free_us, ends_us = plan.free * FRAME_US, plan.stop * FRAME_US
    pieces, delays = runner.generator.pieces, runner.lm.delays.delays

    def spoken(
        branch: Branch, system: str, made: Replayed, agrees: bool | None = None, differs: bool | None = None
    ) -> Run:
        said = [(word.start_us, word.text) for word in words_of(made, pieces) if word.start >= made.plan.free]
        return Run(case, branch, system, said, free_us, ends_us, made, agrees, differs)

    if runner.readers is not None:
        made = runner.branches(case)
        # From the beginning and by itself: that it says the same proves that the fork changes nothing.
        alone = runner.alone(case, case.branches[0])
        base = made[case.branches[0].name]
        for branch in case.branches:
            whole = alone if branch is case.branches[0] else base
            at = first_difference(made[branch.name], whole, delays)
            agrees = at is None if branch is case.branches[0] else at is None or at >= case.fork_frame
            text = (made[branch.name].text != base.text).any()
            yield spoken(branch, TRAINED, made[branch.name], agrees=agrees, differs=bool(text))
    yield from _others(runner, case, left_out, spoken)
    at = response_frame(case.call)
    for branch in case.branches:
        for system, said in (
            ("constant", spaced(constant, (at or 0) * FRAME_US)),
            ("silent", []),
            ("oracle", oracle(branch.due)),
        ):
            yield Run(case, branch, system, said, free_us, ends_us)


def _others(runner: CaseRunner, case: Case, left_out: list[str], spoken: Callable[..., Run]) -> Iterator[Run]:
    """Systems that do not read the branch's memory: those without evidence need one run a case."""
    none = runner.alone(case, None, memory="none")
    for branch in case.branches:
        yield spoken(branch, "no connector", none)
    if runner.readers is not None:
        try:
            wrong = runner.alone(case, None, memory="wrong")
        except UsageError as error:
            left_out.append(f"wrong memory is left out where {error.what}")
        else:
            for branch in case.branches:
                yield spoken(branch, "wrong memory", wrong)
    tokenizer = store_tokenizer(runner.generator.store)
    if tokenizer is None or case.call.row["prefix_id"] is None:
        left_out.append("text in prompt is left out: it needs the store's tokenizer, and a prefix")
        return
    made: dict[str, Replayed] = {}
    for branch in case.branches:
        text = evidence_text(branch)
        if text not in made:
            call = PromptedCall(runner.generator.store, runner.placed(case), tokenizer, text)
            try:
                made[text] = runner.alone(case, None, memory="none", call=call)
            except UsageError as error:
                yield Run(case, branch, "text in prompt", [], 0, 0, reason=error.what)
                continue
        yield spoken(branch, "text in prompt", made[text])


def measure(run: Run) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A row of `run_tables.RUNS`, and its rows of `run_tables.CLAIMS`."""
    claims = judge(run.said, run.branch.items)
    found = answered(claims, run.branch.due)
    counts: dict[str, int] = {
        verdict: sum(claim.verdict == verdict and not claim.withdrawn for claim in claims)
        for verdict in VERDICTS
    }
    where: dict[str, Any] = {
        "call_id": run.case.call.call_id,
        "system": run.system,
        "branch": run.branch.name,
    }
    row: dict[str, Any] = {
        **where,
        "family": run.case.family,
        "kind": run.branch.kind,
        "status": _status(run),
        "reason": run.reason,
        "fork_us": run.case.fork_us - run.case.starts_at_us,
        "free_from_us": run.free_us,
        "ends_us": run.ends_us,
        "due": found.due,
        "given": found.given,
        "answer": found.answer,
        **counts,
        "right": found.right and run.reason is None,
        "latency_us": found.latency_us,
        "agrees": run.agrees,
        "differs": run.differs,
        "words": len(run.said),
        "text": " ".join(text for _, text in run.said),
    }
    names = ("text", "start_us", "kind", "verdict", "event", "denied", "withdrawn")
    return row, [
        {**where, "claim_ix": number, **{name: getattr(claim, name) for name in names}}
        for number, claim in enumerate(claims)
    ]


def _status(run: Run) -> str:
    if run.reason is not None:
        return "not attempted"
    if run.replayed is not None:
        own = run.replayed.agent[:, run.replayed.plan.free - run.replayed.plan.first :]
        if ((own < 0) | (own >= AUDIO_CARD)).any():
            return "invalid"
    if not run.said:
        return "silent"
    # A second of quiet at the end says that it had come to one.
    return "interrupted" if run.replayed is not None and run.said[-1][0] > run.ends_us - 1_000_000 else "said"


def _shown(case: Case, runs: Sequence[tuple[Run, dict[str, Any], list[dict[str, Any]]]]) -> dict[str, Any]:
    """A case as `cases.json` has it; times in seconds on the call's clock."""
    return {
        "call_id": case.call.call_id,
        "family": case.family,
        "fork_s": (case.fork_us - case.starts_at_us) / 1e6,
        "branches": [
            {
                "name": branch.name,
                "kind": branch.kind,
                "due": [
                    {"text": one.text, "event": one.event, "arrival_s": one.arrival_us / 1e6}
                    for one in branch.due
                ],
                "evidence": [_shown_item(item) for item in branch.items],
            }
            for branch in case.branches
        ],
        "runs": [
            {
                **{
                    name: row[name]
                    for name in ("system", "branch", "status", "reason", "answer", "right", "agrees")
                },
                "free_from_s": row["free_from_us"] / 1e6,
                "ends_s": row["ends_us"] / 1e6,
                "latency_s": None if row["latency_us"] is None else row["latency_us"] / 1e6,
                "words": [{"text": text, "start_s": at / 1e6} for at, text in run.said],
                "claims": [
                    {
                        **{
                            name: one[name]
                            for name in ("claim_ix", "text", "kind", "verdict", "event", "withdrawn")
                        },
                        "start_s": one["start_us"] / 1e6,
                    }
                    for one in own
                ],
            }
            for run, row, own in runs
        ],
    }


def _shown_item(item: Item) -> dict[str, Any]:
    about = asdict(item)
    never = abs(item.arrival_us) > NEVER_US // 2
    return {
        **{name: about[name] for name in ("id", "status", "given")},
        "text": item.text[:SHOWN_CHARACTERS],
        "arrival_s": None if never else item.arrival_us / 1e6,
        "arrives": "never" if never and item.arrival_us > 0 else "before the call" if never else "during it",
        "ends_s": None if item.ends_us is None or item.ends_us > NEVER_US // 2 else item.ends_us / 1e6,
    }


def write_grounding(
    out: Path,
    found: Grounding,
    *,
    about: dict[str, Any],
    more: dict[str, pl.DataFrame],
    sounds: Sequence[dict[str, str]] = (),
) -> dict[str, Any]:
    """Write tables as Parquet and Markdown and what a reviewer sees as JSON, which appears last. `more`: further tables by
    name; `sounds`: call_id, system, branch and file of each recording. Returns the summary as JSON values. Raises OutputError."""
    out.mkdir(parents=True, exist_ok=True)
    tables = {"runs": found.runs, "claims": found.claims, "summary": found.summary, **more}
    body = {"schema": SCHEMA, **about, "summary": found.summary.to_dicts(), "left_out": found.left_out}
    text = [
        f"# Grounding of {about.get('checkpoint', '')}\n\n",
        markdown(found.summary),
        "\n## How runs ended\n\n",
    ]
    text.append(
        markdown_table(
            ("system", "status", "runs"), [[str(cell) for cell in row] for row in failures(found.runs).rows()]
        )
    )
    for name, table in more.items():
        cells = [[_cell(cell) for cell in row] for row in table.rows()]
        text.append(f"\n## {name.replace('_', ' ').capitalize()}\n\n{markdown_table(table.columns, cells)}")
    document = out / "cases.json"
    with together(last=document) as new:
        for name, table in tables.items():
            data = BytesIO()
            table.write_parquet(data)
            new(out / f"{name}.parquet").write(data.getbuffer())
        new(out / "table.md").write("".join(text).encode())
        shown = {
            **body,
            "more": {name: table.to_dicts() for name, table in more.items()},
            "sounds": list(sounds),
            "cases": found.shown,
        }
        new(document).write(json_bytes(shown, indent=1))
    return body


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.4f}" if isinstance(value, float | np.floating) else str(value)
