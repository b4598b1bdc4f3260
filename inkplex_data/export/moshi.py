"""The layout of Moshi fine-tuning: stereo files, a word JSON beside each, and JSONL inventories.

    DIR/dataset.jsonl                      {"path": "data_stereo/ID.wav", "duration": 24.521}
    DIR/train.jsonl validation.jsonl …     the calls of each split that the corpus names
    DIR/manifest.jsonl                     the same calls with id, family, split, role and voice, for our reader
    DIR/data_stereo/ID.wav ID.json         left = agent, right = caller

Samples are those of the corpus, at its rate, in 16 bits where they fit and else in 32-bit float. Times are decimal
seconds that read back as the same microsecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import polars as pl

from inkplex_data.atomic import new_folder, replacing, write_json, write_json_lines
from inkplex_data.clock import samples_to_us, us_to_seconds
from inkplex_data.corpus.agent_words import main_speaker_faults
from inkplex_data.corpus.entry import Corpus
from inkplex_data.corpus.names import name_fault
from inkplex_data.corpus.transcripts.moshi import moshi_document
from inkplex_data.corpus.word_repair import SPEAKER_UNKNOWN, TimedWord
from inkplex_data.errors import UsageError
from inkplex_data.export.calls import ExportCall, ExportSummary, export_calls
from inkplex_data.export.file_names import FileNames
from inkplex_data.plural import counted
from inkplex_data.problems import Problem, refusal
from inkplex_data.store.documents import parse_value
from inkplex_data.store.reader import Store

AUDIO_FOLDER: Final = "data_stereo"


class _Inventories:
    """The JSONL files of an export, held until every call is written, so that none names a file that is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: dict[str, list[dict[str, Any]]] = {}

    def add(self, name: str, line: dict[str, Any]) -> None:
        self._lines.setdefault(name, []).append(
            {key: value for key, value in line.items() if value is not None}
        )

    def write(self) -> None:
        for name, lines in self._lines.items():
            write_json_lines(self._folder / f"{name}.jsonl", lines)


def export_corpus(corpus: Corpus, folder: Path, *, agent: str | None = None) -> ExportSummary:
    """Write every sound call of `corpus` as `folder`, which is empty or not there. See the module for the layout.

    Raises UsageError and OutputError as `new_folder` does.
    """
    with new_folder(folder) as making:
        return _write_corpus(corpus, making, ExportSummary(folder), agent)


def _write_corpus(corpus: Corpus, folder: Path, summary: ExportSummary, agent: str | None) -> ExportSummary:
    (folder / AUDIO_FOLDER).mkdir()
    inventories, names = _Inventories(folder), FileNames()
    summary.notes += map(str, corpus.notes)
    wordless = agentless = recordings = resampled = 0
    for call in export_calls(corpus, agent=agent, refused=summary.refused):
        path = f"{AUDIO_FOLDER}/{names.of(call.entry.call_id)}.wav"
        try:
            with replacing(folder / path) as file:
                samples = call.stereo.write_into(file, where=path)
        except UsageError as error:  # longer than a WAV file can be
            refused = refusal("export-too-long", error.what, call.entry.source)
            summary.refused.append(Problem.of_refusal(call.entry.call_id, refused))
            continue
        if call.words:
            document = moshi_document(
                call.words, text_conditions=call.text_conditions, method=_method(call.words)
            )
            _write_words(folder / path, document)
        duration_us = samples_to_us(samples, call.stereo.sample_rate_hz)
        _list(inventories, call, path, us_to_seconds(duration_us))
        summary.calls.append(call.entry.call_id)
        wordless += not call.words
        agentless += bool(call.words and main_speaker_faults(call.words))
        recordings += call.entry.recording is not None
        resampled += call.stereo.resampled
    inventories.write()
    for count, what in (
        (wordless, "without words: run `inkplex-data align`"),
        (agentless, "without a word of the agent's: name its label with --agent"),
        (recordings, "with a task recording, which this layout cannot hold"),
        (resampled, "with sides of different sample rates, both resampled to 24 kHz"),
    ):
        if count:
            summary.notes.append(f"{counted(count, 'call')} {what}")
    return summary


def _write_words(audio: Path, document: Mapping[str, Any]) -> None:
    write_json(audio.with_name(f"{audio.stem}.json"), document)


def _method(words: list[TimedWord]) -> str | None:
    """What timed the words, where it is one thing; single words that were repaired do not count."""
    methods = {word.method for word in words} - {"interpolated"}
    return methods.pop() if len(methods) == 1 else None


def _list(inventories: _Inventories, call: ExportCall, path: str, duration_s: float) -> None:
    entry = call.entry
    line = {"path": path, "duration": duration_s, "text_conditions": call.text_conditions}
    inventories.add("dataset", line)
    if entry.split is not None:
        inventories.add(entry.split, line)
    inventories.add(
        "manifest",
        {
            "id": entry.call_id,
            "path": path,
            "duration": duration_s,
            "family": entry.family,
            "split": entry.split,
            "role": entry.role,
            "voice": entry.voice,
            "text_conditions": call.text_conditions,
        },
    )


def export_store(store: Store, folder: Path) -> ExportSummary:
    """Write the words of a store's calls, and inventories that name their audio as the corpus spelled it.

    A store has codes and no waveforms: put the audio files under `folder`, or export the corpus instead.
    Raises UsageError and OutputError as `new_folder` does.
    """
    with new_folder(folder) as making:
        return _write_store(store, making, ExportSummary(folder))


def _write_store(store: Store, folder: Path, summary: ExportSummary) -> ExportSummary:
    inventories, names = _Inventories(folder), FileNames()
    calls = store.calls()
    known = calls.collect_schema()
    usual = [name for name in ("agent_channel", "caller_channel") if name in known]
    clipped = [name for name in ("clip_start_us",) if name in known]
    columns = ("call_id", "source", "duration_us", "split", "text_conditions", *usual, *clipped)
    rows = calls.select(*columns).collect()
    renamed, taken = 0, set[str]()
    for row in rows.iter_rows(named=True):
        # The layout's file has the agent on the left; one that has not, or one channel, cannot be used as it is, and
        # neither can the file that a part was cut from.
        is_usual = [row[name] for name in usual] in ([], [0, 1])
        source = row["source"] if is_usual and row.get("clip_start_us") is None else None
        path = _audio_path(source, names.of(row["call_id"]), taken)
        taken.add(PurePosixPath(path).with_suffix("").as_posix().casefold())
        renamed += path != row["source"]
        conditions = (
            None
            if row["text_conditions"] is None
            else parse_value(row["text_conditions"], where=row["call_id"])
        )
        words = [
            TimedWord(*values)
            for values in store.call(row["call_id"])
            .words.select(
                "text",
                "start_us",
                "end_us",
                pl.col("speaker").fill_null(SPEAKER_UNKNOWN),
                pl.col("confidence").cast(pl.Float64),
                "method",
            )
            .iter_rows()
        ]
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        document = moshi_document(words, text_conditions=conditions, method=_method(words))
        _write_words(folder / path, document)
        line = {"path": path, "duration": us_to_seconds(row["duration_us"]), "text_conditions": conditions}
        inventories.add("dataset", line)
        inventories.add(row["split"], line)
        summary.calls.append(row["call_id"])
    inventories.write()
    summary.notes.append(
        "a store has no waveforms: copy the corpus's audio under this folder, or export the corpus"
    )
    if renamed:
        summary.notes.append(
            f"for {counted(renamed, 'call')}, add a stereo file, agent left, under the name in dataset.jsonl"
        )
    return summary


def _audio_path(source: str | None, name: str, taken: set[str]) -> str:
    """The source where it is one file inside the corpus, whose words no other call has, else a place of our own."""
    spelled = source or ""
    path = PurePosixPath(spelled)
    inside = bool(path.suffix) and not path.is_absolute() and ".." not in path.parts
    plain = name_fault(spelled) is None and not any(mark in spelled for mark in (" + ", "\\", ":"))
    if inside and plain and path.with_suffix("").as_posix().casefold() not in taken:
        return path.as_posix()
    return f"{AUDIO_FOLDER}/{name}.wav"
