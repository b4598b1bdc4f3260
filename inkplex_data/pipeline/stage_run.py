"""The stages of a build, one method each, run on an executor: first builds, additions, updates and repairs share them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.recordings.states_identity import differing_fields
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.build_call import CALL, CallJob
from inkplex_data.pipeline.calls.calls_in_step import InStep
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import SCAN, Scan, ScanJob
from inkplex_data.pipeline.execute import Executor
from inkplex_data.pipeline.outcome import Refusals
from inkplex_data.pipeline.parts.cut_corpus import CorpusPart
from inkplex_data.pipeline.prefixes import PREFIX, PrefixJob
from inkplex_data.pipeline.progress import Reporter
from inkplex_data.pipeline.recordings import RECORDING, FoundRecording, RecordingJob
from inkplex_data.pipeline.stage import Build, J, Stage, Unit, run_stage
from inkplex_data.pipeline.target import Target
from inkplex_data.pipeline.whisper_choice import WhisperChoice


@dataclass(frozen=True)
class StageRun:
    """One build and all that its stages need."""

    target: Target
    build: Build
    executor: Executor
    reporter: Reporter
    refusals: Refusals
    asked: Recipe
    """The recipe as it was given, which the store records; `build` has one Whisper model of those that it lists."""
    whisper: WhisperChoice | None = None
    part: CorpusPart | None = None
    """The part of the corpus that is built, None where it is all of it."""

    @property
    def places_in_corpus(self) -> Mapping[str, int]:
        """Per call of a part its `call_ix`, which no call of another part has."""
        return self.part.call_ix if self.part is not None else {}

    def part_identity(self) -> dict[str, Any]:
        """What `store.json` says of the part, where it is one."""
        return {"part": self.part.described()} if self.part is not None else {}

    def scan(self, entries: Sequence[CallEntry]) -> dict[str, Scan]:
        """Look at calls; what cannot be built is refused."""
        jobs = [ScanJob(build=self.build, given=CallInput.of(entry)) for entry in entries]
        done = self._perform(SCAN, jobs, lambda job: (job.key,))
        return {unit.job.key: unit.head for unit in done if not unit.failed}

    def read_recordings(self, entries: Sequence[CallEntry]) -> dict[Path, FoundRecording]:
        """Read the recordings that calls name, where the recipe has memory; a faulty one refuses its calls."""
        naming: dict[Path, list[str]] = {}
        for entry in entries:
            if entry.recording is not None and self.build.recipe.memory is not None:
                naming.setdefault(entry.recording, []).append(entry.call_id)
        jobs = [RecordingJob(build=self.build, path=path) for path in naming]
        done = self._perform(RECORDING, jobs, lambda job: naming[job.path])
        found = {unit.job.path: unit.head for unit in done if not unit.failed}
        # In corpus order, whichever worker was first.
        return self._of_one_model({path: found[path] for path in naming if path in found}, naming)

    def _of_one_model(
        self, found: Mapping[Path, FoundRecording], naming: Mapping[Path, Sequence[str]]
    ) -> dict[Path, FoundRecording]:
        """Without recordings whose states are of another model than the store's, else than the first one's."""
        own = (self.target.described or {}).get("model")
        kept: dict[Path, FoundRecording] = {}
        for path, one in found.items():
            model = one.states.described
            own = own or model
            if model is None or own is None or not (others := differing_fields(own, model)):
                kept[path] = one
                continue
            what = f"states of recording {one.recording_id!r} differ from those of the store: {'; '.join(others)}"
            for call_id in naming[path]:
                self.refusals.add(call_id, "recording-states-differ", what, item=path.name)
        return kept

    def describe(self, recordings: Mapping[Path, FoundRecording]) -> str:
        """Write or compare the identities of the build's tools; returns the codec's digest. Raises ConfigError."""
        recipe = self.build.recipe
        tokenizer = tools.tokenizer(recipe.text.tokenizer)
        codec = tools.codec(recipe.codec, self.build.device).identity
        identities = {
            "codec": codec.as_dict(),
            "tokenizer": dataclasses.asdict(tokenizer.identity),
            "tools": tool_versions(),
            **self.part_identity(),
            **_reasoning_model(recordings),
            **(self.whisper.identity() if self.whisper is not None else {}),
        }
        self.target.describe(
            self.asked, identities, [tokenizer.piece(index) for index in range(len(tokenizer))]
        )
        return codec.sha256

    def prefixes(
        self, jobs: Sequence[PrefixJob], calls_of: Callable[[PrefixJob], Iterable[str]]
    ) -> list[PrefixJob]:
        """Encode prefixes; returns those that could be, in order. Calls that use another are refused with its reason."""
        made = {unit.job.key for unit in self._perform(PREFIX, jobs, calls_of) if not unit.failed}
        return [job for job in jobs if job.key in made]

    def encode(self, jobs: Sequence[CallJob]) -> Iterator[CallJob]:
        """Build calls; each comes back when it is done or refused."""
        rows = self.build.recipe.codec.batch_rows
        run = self if rows < 4 else dataclasses.replace(self, executor=InStep(self.executor, rows))
        for unit in run._perform(CALL, jobs, lambda job: (job.key,)):
            yield unit.job

    def _perform(
        self, stage: Stage[J, Any], jobs: Sequence[J], calls_of: Callable[[J], Iterable[str]]
    ) -> Iterator[Unit[J]]:
        return run_stage(
            stage,
            jobs,
            executor=self.executor,
            reporter=self.reporter,
            refusals=self.refusals,
            calls_of=calls_of,
        )


def _reasoning_model(recordings: Mapping[Path, FoundRecording]) -> dict[str, Any]:
    """The model whose states the recordings hold, where any do: all have the same."""
    models = [found.states.described for found in recordings.values() if found.states.described is not None]
    return {"model": models[0]} if models else {}


def tool_versions() -> dict[str, str]:
    """Versions of what the stored bytes depend on."""
    names = (
        "inkplex-data",
        "numpy",
        "soxr",
        "soundfile",
        "torch",
        "transformers",
        "sentencepiece",
        "polars",
        "pyarrow",
        "zarr",
    )
    return {name: version(name) for name in names}
