"""A Hugging Face dataset of calls as a corpus: each row's audio file as it is, a word JSON, and a manifest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

from inkplex_data.atomic import new_folder, replacing, write_json, write_json_lines
from inkplex_data.corpus.assemble import LINE_INVALID
from inkplex_data.corpus.folder import AUDIO_SUFFIXES, MANIFEST_NAME
from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.corpus.names import UNNAMABLE, name_fault
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, SPEAKER_UNKNOWN
from inkplex_data.errors import CallRefused, CorpusError, UsageError
from inkplex_data.export.calls import ExportSummary
from inkplex_data.export.file_names import FileNames
from inkplex_data.faults import FaultError, short
from inkplex_data.grid import SPLITS
from inkplex_data.libraries import require
from inkplex_data.printable import is_unicode
from inkplex_data.problems import Problem, refusal

AUDIO_FOLDER: Final = "calls"
_TEMPORARY: Final = ".tmp-datasets"
_MAGIC: Final = (
    (b"RIFF", ".wav"),
    (b"RF64", ".wav"),
    (b"fLaC", ".flac"),
    (b"OggS", ".ogg"),
    (b"ID3", ".mp3"),
)
_SPLIT_NAMES: Final = {"valid": "validation", "val": "validation", "dev": "validation", "eval": "validation"}
_TEXTS: Final = ("text", "word")
_STARTS: Final = ("start_s", "start")
_ENDS: Final = ("end_s", "end")


def import_hf(source: str, folder: Path, *, audio: str | None = None, words: str = "words") -> ExportSummary:
    """Write the rows of a dataset as a corpus that `build` takes, and return what became of them.

    `source` is a folder (of `save_to_disk`, or of Parquet files) or a hub id. `audio` names the column of
    two-channel audio; by default it is the one audio column, or two of them of which one names the agent
    and the other the caller. `words` is a list of objects with `text` or `word`, `start_s` or `start`,
    `end_s` or `end` in seconds, and `speaker`; where no word of a call has one, all are the agent's.

    Raises UsageError and OutputError as `new_folder` does, UsageError for columns that are not there, CorpusError
    for a source that cannot be read, MissingLibraryError without `datasets`.
    """
    datasets = require("datasets", extra="hf", needed_for="a Hugging Face dataset")
    with new_folder(folder) as making:
        return _write(datasets, source, making, ExportSummary(folder), audio=audio, words=words)


def _write(
    datasets: Any, source: str, folder: Path, summary: ExportSummary, *, audio: str | None, words: str
) -> ExportSummary:
    names = FileNames()
    (folder / AUDIO_FOLDER).mkdir()
    lines = []
    try:
        for split, dataset in _splits(datasets, source, folder / _TEMPORARY):
            sides = _audio_columns(datasets, dataset.features, audio)
            # Bytes as they are stored: whatever decodes a corpus decodes them too.
            undecoded = reduce(
                lambda table, column: table.cast_column(column, datasets.Audio(decode=False)),
                sides.values(),
                dataset,
            )
            columns = _Columns(split, sides, words)
            for index, row in _rows(undecoded, split, source):
                call_id = str(row.get("call_id") or row.get("id") or f"{split}-{index:06d}")
                try:
                    line = _row(row, call_id, columns, folder=folder, name=names.of(call_id))
                except CallRefused as error:
                    summary.refused.append(Problem.of_refusal(call_id, error))
                    continue
                lines.append(line)
                summary.calls.append(call_id)
    finally:
        shutil.rmtree(folder / _TEMPORARY, ignore_errors=True)
    write_json_lines(folder / MANIFEST_NAME, lines)
    return summary


def _rows(dataset: Any, split: str, source: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows with their numbers. Raises CorpusError for a row with text that is not UTF-8."""
    number = -1
    try:
        for number, row in enumerate(dataset):
            yield number, row
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"row {number + 1} of split {split!r} holds text that is not UTF-8 ({short(error.object[:20])})",
            where=source,
            next_step="Write the text columns again, as UTF-8.",
        ) from error


def _splits(datasets: Any, source: str, cache: Path) -> Iterator[tuple[str, Any]]:
    path = Path(source)
    try:
        if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
            found = datasets.load_from_disk(str(path))
        elif path.is_dir():
            found = datasets.load_dataset("parquet", data_dir=str(path), cache_dir=str(cache))
        else:
            found = datasets.load_dataset(source, cache_dir=str(cache))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise CorpusError(
            f"cannot be read as a dataset ({str(error).splitlines()[0] if str(error) else type(error).__name__})",
            where=source,
            next_step="Name a `save_to_disk` folder, a folder of Parquet files, or a hub id.",
        ) from error
    if isinstance(found, Mapping):
        yield from found.items()
    else:
        yield str(found.split or "train"), found


def _audio_columns(datasets: Any, features: Mapping[str, Any], audio: str | None) -> dict[str, str]:
    """The columns to write, by side; the one key "" stands for both sides in one file."""
    known = [name for name, feature in features.items() if isinstance(feature, datasets.Audio)]
    if audio is not None:
        if audio not in known:
            raise UsageError(f"there is no audio column {audio!r}", next_step=f"Name one of {known}.")
        return {"": audio}
    if not known:
        raise UsageError(
            f"no column of the dataset holds audio; it has {', '.join(features)}",
            next_step="An export of a store has codes and no audio; export the corpus instead.",
        )
    if len(known) == 1:
        return {"": known[0]}
    sides = {side: [name for name in known if side in name.lower()] for side in ("agent", "caller")}
    if all(len(found) == 1 for found in sides.values()):
        return {side: found[0] for side, found in sides.items()}
    raise UsageError(
        f"it is not clear which of the audio columns {known} holds the call",
        next_step="Name the two-channel column with --audio.",
    )


@dataclass(frozen=True)
class _Columns:
    """What a split's rows hold: audio columns by side, and the column of the words."""

    split: str
    sides: Mapping[str, str]
    words: str


def _row(
    row: Mapping[str, Any], call_id: str, columns: _Columns, *, folder: Path, name: str
) -> dict[str, Any]:
    """The row's manifest line, its files written. Raises CallRefused for a row whose line no reader would take."""
    if rule := name_fault(call_id):
        raise refusal(
            UNNAMABLE, f"the row's id {short(call_id)} {rule}", next_step="Give the row another id."
        )
    texts = {key: row[key] for key in ("family", "role", "voice") if isinstance(row.get(key), str)}
    texts = {key: text for key, text in texts.items() if text or key == "role"}
    conditions, unreadable = None, []
    try:
        conditions = _conditions(row.get("text_conditions"))
    except FaultError as error:
        unreadable = [f"text_conditions {error}"]
    faults = [f"{key} {rule}" for key in texts if key != "role" and (rule := name_fault(texts[key]))]
    faults += unreadable
    if not is_unicode(json.dumps(conditions, ensure_ascii=False)):
        faults.append("text_conditions holds half a surrogate pair")
    if faults:
        raise refusal(LINE_INVALID, "; ".join(faults), next_step="Correct the row.")
    paths = {}
    for side, column in columns.sides.items():
        stem = f"{name}.{side}" if side else name
        path = _audio_file(row[column], folder / AUDIO_FOLDER, stem)
        if path is None:
            raise refusal(
                "file-missing", f"column {column!r} neither holds audio nor names a file that exists"
            )
        paths[side] = f"{AUDIO_FOLDER}/{path.name}"
    own = str(row.get("split") or columns.split)
    line: dict[str, Any] = {"id": call_id, "path": paths.get("") or paths}
    line |= texts
    known = _SPLIT_NAMES.get(own, own)
    if known in SPLITS:
        line["split"] = known
    if conditions is not None:
        line["text_conditions"] = conditions
    given = _listed(row.get(columns.words))
    if given:
        write_json(folder / AUDIO_FOLDER / f"{name}.json", _document(given))
        line["words"] = f"{AUDIO_FOLDER}/{name}.json"
    return line


def _conditions(value: Any) -> dict[str, Any] | None:
    """An object, as a column of structs or of JSON text has it; anything else is somebody else's column.

    Raises FaultError for an object that is no JSON, or that a manifest could not hold.
    """
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except FaultError:
            if value.lstrip().startswith("{"):
                raise
            return None
    return value if isinstance(value, dict) else None


def _listed(value: Any) -> list[Any]:
    """Words as a list of objects, also where the library gives an object of lists (its older `Sequence`)."""
    if isinstance(value, dict):
        columns = {name: part for name, part in value.items() if isinstance(part, list)}
        length = max(map(len, columns.values()), default=0)
        return [
            {name: part[index] for name, part in columns.items() if index < len(part)}
            for index in range(length)
        ]
    return value if isinstance(value, list) else []


def _audio_file(value: Any, folder: Path, stem: str) -> Path | None:
    if not isinstance(value, dict):
        return None
    data, origin = value.get("bytes"), Path(value.get("path") or "")
    if data is None:
        if not origin.is_file():
            return None
        path = folder / f"{stem}{origin.suffix}"
        shutil.copyfile(origin, path)
        return path
    named = origin.suffix.lower() if origin.suffix.lower() in AUDIO_SUFFIXES else ".wav"
    suffix = next((suffix for magic, suffix in _MAGIC if data.startswith(magic)), named)
    path = folder / f"{stem}{suffix}"
    with replacing(path) as file:
        file.write(data)
    return path


def _document(words: list[Any]) -> dict[str, Any]:
    """The Moshi layout's word JSON. What is no word is kept, for the reader to count."""
    words = [word for word in words if isinstance(word, dict)]
    labels = [word.get("speaker") for word in words]
    # As in transcripts: among words with speakers, one without may be the caller's.
    unnamed = SPEAKER_UNKNOWN if any(label not in (None, "") for label in labels) else SPEAKER_MAIN
    entries = [
        [
            _first(word, _TEXTS),
            [_first(word, _STARTS), _first(word, _ENDS)],
            unnamed if label in (None, "") else str(label),
        ]
        for word, label in zip(words, labels, strict=True)
    ]
    document: dict[str, Any] = {"alignments": entries}
    confidences = [word.get("confidence") for word in words]
    if any(confidence is not None for confidence in confidences):
        document["confidence"] = confidences
    methods = {word.get("method") for word in words} - {None, "interpolated"}
    if len(methods) == 1:
        document["method"] = methods.pop()
    return document


def _first(word: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((word[name] for name in names if word.get(name) is not None), None)
