"""Transcripts of any format as the Moshi layout's word JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from inkplex_data.atomic import only_writer, write_json
from inkplex_data.clock import INT64_MAX
from inkplex_data.corpus.agent_words import main_speaker_faults
from inkplex_data.corpus.transcripts import SpeakerRule, load_words
from inkplex_data.corpus.transcripts.moshi import moshi_document
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.export.calls import ExportSummary
from inkplex_data.plural import counted
from inkplex_data.problems import ProblemLog


def convert_words(transcripts: Sequence[Path], folder: Path, *, agent: str | None = None) -> ExportSummary:
    """Write `STEM.json` into `folder` for each transcript; one that cannot be read never stops the others.

    Words beyond the audio's end are kept: the audio is not looked at, and a build drops them.
    Raises UsageError where two transcripts would get one name, or where one would be replaced, OutputError as
    `only_writer` does.
    """
    targets = {path: folder / f"{path.stem}.json" for path in transcripts}
    if len(set(targets.values())) < len(targets):
        raise UsageError("two transcripts have the same name", next_step="Convert them into two folders.")
    for path, target in targets.items():
        if target.exists() and target.samefile(path):
            raise UsageError(
                "this would replace the transcript itself", where=str(path), next_step="Choose another -o."
            )
    with only_writer(folder, command="import words"):
        return _convert(targets, agent, ExportSummary(folder))


def _convert(targets: Mapping[Path, Path], agent: str | None, summary: ExportSummary) -> ExportSummary:
    for path, target in targets.items():
        log = ProblemLog(path.name)
        try:
            words, transcript = load_words(
                path, duration_us=INT64_MAX, log=log, rule=SpeakerRule(agent=agent)
            )
        except CallRefused as error:
            summary.refused.append(log.refuse(error))
            continue
        document = moshi_document(
            words, text_conditions=transcript.text_conditions, method=transcript.method or transcript.format
        )
        write_json(target, document)
        summary.calls.append(path.name)
        summary.notes += [f"{path.name}: {fault}" for fault in main_speaker_faults(words)]
        repairs = sum(problem.severity == "repair" for problem in log)
        if repairs:
            summary.notes.append(f"{path.name}: {counted(repairs, 'repair')}, e.g. {next(iter(log)).message}")
    return summary
