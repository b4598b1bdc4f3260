"""What became of a build: refused calls and notes while it runs, and the summary at its end."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inkplex_data.errors import (
    CallRefused,
    CheckpointError,
    ConfigError,
    MachineFault,
    MissingLibraryError,
    StoreError,
)
from inkplex_data.pipeline.whisper_choice import WhisperChoice
from inkplex_data.plural import counted, shown
from inkplex_data.problems import Problem, refusal, without_root
from inkplex_data.problems.told import told

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_PARTLY = 3


class Refusals:
    """Problems of the calls that a build leaves out, and what the listing noted of others or, under no call's id, of
    the corpus as a whole; in the order in which they were found."""

    def __init__(self, root: Path) -> None:
        """`root` is the corpus folder; messages name files relative to it."""
        self._root = root
        self._problems: dict[str, list[Problem]] = {}

    def extend(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self._problems.setdefault(problem.call_id, []).append(without_root(problem, self._root))

    def refuse(self, call_id: str, error: BaseException | None) -> None:
        """Note why a call was refused. What would stop every call alike is raised again."""
        if isinstance(error, CallRefused):
            problem = Problem.of_refusal(call_id, error)
        elif error is None or _is_fatal(error):
            raise error or RuntimeError("a unit ended without a value and without an error")
        else:
            what = f"{type(error).__name__}: {error}"
            problem = Problem.of("unexpected", call_id, what, item=_place(error))
        self.extend([problem])

    def add(self, call_id: str, code: str, message: str, *, item: str = "") -> None:
        """Refuse a call for what the plan found."""
        self.refuse(call_id, refusal(code, message, item or None))

    def errors(self) -> list[Problem]:
        """The refusals, by call id, so that the order of workers leaves no trace."""
        return [
            problem
            for call_id in sorted(self._problems)
            for problem in self._problems[call_id]
            if problem.severity == "error"
        ]

    def notes(self, call_id: str = "") -> list[Problem]:
        """What was noted of a call without refusing it; of the corpus as a whole by default."""
        return [problem for problem in self._problems.get(call_id, ()) if problem.severity != "error"]

    def of(self, call_ids: Iterable[str]) -> list[Problem]:
        return [problem for call_id in call_ids for problem in self._problems.get(call_id, ())]

    def __contains__(self, call_id: object) -> bool:
        return any(problem.severity == "error" for problem in self._problems.get(str(call_id), ()))


@dataclass(frozen=True)
class Summary:
    """The end of a build. `calls` are those published now; `already` were in the store before and stay.

    `gone`: published calls that the corpus no longer has; they left the newest snapshot if `is_updated`.
    """

    store: Path
    calls: tuple[str, ...]
    already: int
    refused: tuple[Problem, ...]
    hours: float
    repairs: dict[str, int]
    untrained: tuple[str, ...]
    is_unidentified: bool
    notes: tuple[Problem, ...] = ()
    """What was noted of the corpus as a whole."""
    whisper: WhisperChoice | None = None
    """Who heard the words of calls that bring none."""
    gone: tuple[str, ...] = ()
    is_updated: bool = False

    @property
    def exit_code(self) -> int:
        """0 all done; 1 nothing could be published; 3 done, but some calls were refused."""
        if not self.refused:
            return EXIT_OK
        return EXIT_PARTLY if self.calls or self.already else EXIT_FAILED

    def text(self) -> str:
        """The summary as a person reads it."""
        lines = [
            f"{self.store}: {counted(len(self.calls), 'call')} published, {self.hours:.3f} hours of audio"
            + (f"; {self.already} were already there" if self.already else "")
        ]
        if self.gone:
            what = (
                "left, because the corpus has them no more"
                if self.is_updated
                else "stay, though the corpus has them no more"
            )
            lines.append(f"  {counted(len(self.gone), 'call')} {what}: {shown(self.gone)}")
        lines += [f"  untrained, for tests only: {part}" for part in self.untrained]
        if self.is_unidentified:
            lines.append("  the states do not say which model computed them")
        lines += [f"  {note}" for note in self.notes]
        if self.whisper is not None:
            lines.append(f"  {self.whisper.text()}")
        if self.repairs:
            lines.append(
                "  notes and repairs (listed by inkplex-data stats): "
                + ", ".join(f"{code} {count}" for code, count in sorted(self.repairs.items()))
            )
        if self.refused:
            lines.append(f"  {counted(len({problem.call_id for problem in self.refused}), 'call')} refused:")
            refused = [(problem.code, str(problem)) for problem in self.refused]
            everything = f"all are listed in {self.store / 'problems.parquet'}"
            lines += [f"    {line}" for line in told(refused, everything=everything)]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "store": str(self.store),
            "published": len(self.calls),
            "already": self.already,
            "gone": list(self.gone),
            "hours": self.hours,
            "repairs": self.repairs,
            "untrained": list(self.untrained),
            "unidentified_states": self.is_unidentified,
            "notes": [{"code": note.code, "item": note.item, "message": note.message} for note in self.notes],
            "whisper": None
            if self.whisper is None
            else {"asked": self.whisper.asked, "used": self.whisper.used},
            "refused": [
                {"call_id": problem.call_id, "code": problem.code, "message": problem.message}
                for problem in self.refused
            ],
            "exit_code": self.exit_code,
        }


def summarise(
    store: Path,
    published: Sequence[str],
    *,
    gone: Iterable[str],
    is_updated: bool,
    refusals: Refusals,
    whisper: WhisperChoice | None = None,
) -> Summary:
    """Read back what was published. `gone` and `is_updated`: as `Summary` has them."""
    import polars as pl

    from inkplex_data.store.reader import open_store

    with open_store(store) as opened:
        calls = opened.calls().select("call_id", "duration_us").collect()
        ours = calls.filter(pl.col("call_id").is_in(list(published)))
        problems = opened.problems().filter(pl.col("severity") != "error").select("call_id", "code").collect()
        repairs = Counter(problems.filter(pl.col("call_id").is_in(list(published)))["code"].to_list())
        description = opened.description
    untrained = [
        str(part["id"])
        for part in (description.get("codec"), description.get("model"))
        if part and part.get("untrained")
    ]
    is_unidentified = bool((description.get("model") or {}).get("unidentified"))
    return Summary(
        store=store,
        calls=tuple(sorted(published)),
        already=calls.height - ours.height - (0 if is_updated else len(tuple(gone))),
        gone=tuple(gone),
        is_updated=is_updated,
        refused=tuple(refusals.errors()),
        hours=float(ours["duration_us"].sum()) / 3.6e9,
        repairs=dict(repairs),
        untrained=tuple(untrained),
        is_unidentified=is_unidentified,
        notes=tuple(refusals.notes()),
        whisper=whisper,
    )


def _is_fatal(error: BaseException) -> bool:
    """Whether it is no call's fault: the machine's, or that of a codec or model that is not to be had."""
    fatal = (CheckpointError, ConfigError, MachineFault, MissingLibraryError, StoreError)
    return isinstance(error, fatal) or not isinstance(error, Exception)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
