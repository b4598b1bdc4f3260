"""Hugging Face datasets: one row a call, out of a corpus (audio and words) or a store (codes, text and words).

Needs the optional `datasets` library, which writes both forms: `disk` for `load_from_disk`, and `parquet`, which
`load_dataset(DIR)` and any Parquet reader take. Splits are those of the calls; calls of a corpus that names none
are in `train`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal

from inkplex_data.atomic import new_folder
from inkplex_data.clock import us_to_seconds
from inkplex_data.corpus.entry import Corpus
from inkplex_data.errors import UsageError
from inkplex_data.export.calls import ExportCall, ExportSummary, export_calls
from inkplex_data.export.file_names import FileNames
from inkplex_data.grid import CODEBOOKS, SPLITS
from inkplex_data.libraries import require
from inkplex_data.printable import is_unicode
from inkplex_data.store.reader import Store

Form = Literal["disk", "parquet"]
Row = dict[str, Any]

_ROWS_AT_ONCE: Final = 8
_TEMPORARY: Final = ".tmp-datasets"
_TEXTS: Final = ("call_id", "family", "split", "role", "voice")
_SAID: Final = attrgetter("text", "start_us", "end_us", "speaker", "confidence", "method")
_WORD: Final = {
    "text": "string",
    "start_s": "float64",
    "end_s": "float64",
    "speaker": "string",
    "confidence": "float32",
    "method": "string",
}


def export_hf_corpus(
    corpus: Corpus, folder: Path, *, form: Form = "disk", agent: str | None = None
) -> ExportSummary:
    """Write the sound calls of a corpus: `audio` is a WAV file of two channels, agent left, at its own rate.

    Raises UsageError and OutputError as `new_folder` does, MissingLibraryError without `datasets`.
    """
    summary = ExportSummary(folder)
    names = FileNames()
    calls = {entry.call_id: entry.split or "train" for entry in corpus.entries}

    def rows(split: str) -> Iterator[Row]:
        chosen = [entry for entry in corpus.entries if calls[entry.call_id] == split]
        part = Corpus(corpus.root, corpus.kind, tuple(chosen), ())
        for call in export_calls(part, agent=agent, refused=summary.refused):
            summary.calls.append(call.entry.call_id)
            yield _corpus_row(call, names.of(call.entry.call_id))

    summary.refused += corpus.refused
    summary.notes += map(str, corpus.notes)
    with new_folder(folder) as making:
        _write(making, form, rows, set(calls.values()), _corpus_features(), audio="audio")
    return summary


def export_hf_store(store: Store, folder: Path, *, form: Form = "disk") -> ExportSummary:
    """Write the calls of a store: codes uint16 [F, 16], text ids, roles, loss mask and words.

    Raises UsageError and OutputError as `new_folder` does, MissingLibraryError without `datasets`.
    """
    summary = ExportSummary(folder)
    split_of = dict(store.calls().select("call_id", "split").collect().iter_rows())

    def rows(split: str) -> Iterator[Row]:
        for call_id in (name for name, own in split_of.items() if own == split):
            summary.calls.append(call_id)
            yield _store_row(store, call_id)

    with new_folder(folder) as making:
        _write(making, form, rows, set(split_of.values()), _store_features())
    return summary


def _write(
    folder: Path,
    form: Form,
    rows: Callable[[str], Iterator[Row]],
    splits: set[str],
    features: dict[str, Any],
    *,
    audio: str | None = None,
) -> None:
    datasets = require("datasets", extra="hf", needed_for="a Hugging Face dataset")
    if not is_unicode(str(folder.absolute())):
        raise UsageError(
            "the `datasets` library writes to no path that is not UTF-8",
            where=str(folder.absolute()),
            next_step="Name another folder.",
        )
    temporary = folder / _TEMPORARY
    try:
        made = {}
        for split in sorted(splits, key=SPLITS.index):
            found = rows(split)
            first = next(found, None)
            if first is None:  # every call of it was refused, and the library has no words for an empty split
                continue
            try:
                dataset = datasets.Dataset.from_generator(
                    lambda first, found: chain([first], found),
                    features=datasets.Features(_resolved(datasets, features)),
                    cache_dir=str(temporary),
                    gen_kwargs={"first": first, "found": found},
                    split=datasets.NamedSplit(split),
                    # Whole calls are in the rows: the library's thousand at once would not fit in memory.
                    writer_batch_size=_ROWS_AT_ONCE,
                    fingerprint=f"inkplex-{split}",
                )
            except datasets.exceptions.DatasetGenerationError as error:
                raise (error.__cause__ or error) from None  # a damaged store, a full disk
            # Encoding through the Audio feature would ask for a decoder library that this does not need.
            made[split] = dataset.cast_column(audio, datasets.Audio()) if audio else dataset
        if not made:
            return
        if form == "disk":
            datasets.DatasetDict(made).save_to_disk(str(folder))
        else:
            (folder / "data").mkdir()
            for split, dataset in made.items():
                path = folder / "data" / f"{split}-00000-of-00001.parquet"
                dataset.to_parquet(str(path), batch_size=_ROWS_AT_ONCE)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _resolved(datasets: Any, features: Any) -> Any:
    """`features` with type names in place of the library's objects, so that they can be read without it."""
    if isinstance(features, str):
        name, _, width = features.partition(" x ")
        return datasets.Array2D(shape=(None, int(width)), dtype=name) if width else datasets.Value(name)
    if isinstance(features, list):
        return [_resolved(datasets, features[0])]
    return {name: _resolved(datasets, value) for name, value in features.items()}


def _described() -> dict[str, Any]:
    texts = dict.fromkeys((*_TEXTS, "text_conditions"), "string")
    return {**texts, "duration_s": "float64", "words": [_WORD]}


def _corpus_features() -> dict[str, Any]:
    return {**_described(), "audio": {"bytes": "binary", "path": "string"}, "sample_rate_hz": "int32"}


def _store_features() -> dict[str, Any]:
    frames = {"codes": f"uint16 x {2 * CODEBOOKS}", "text_ids": ["int32"], "text_roles": ["uint8"]}
    return {**_described(), "samples": "int64", **frames, "loss_mask": ["uint8"]}


def _corpus_row(call: ExportCall, name: str) -> Row:
    conditions = call.text_conditions
    return {
        **{name: getattr(call.entry, name) for name in _TEXTS},
        "text_conditions": None
        if conditions is None
        else json.dumps(conditions, ensure_ascii=False, sort_keys=True),
        "duration_s": us_to_seconds(call.duration_us),
        "words": _words(map(_SAID, call.words)),
        "audio": {"bytes": _wav(call), "path": f"{name}.wav"},
        "sample_rate_hz": call.stereo.sample_rate_hz,
    }


def _wav(call: ExportCall) -> bytes:
    """The call as the bytes of a WAV file: one row of a dataset holds one whole recording."""
    file = BytesIO()
    call.stereo.write_into(file, where=call.entry.source)
    return file.getvalue()


def _store_row(store: Store, call_id: str) -> Row:
    call = store.call(call_id)
    words = call.words.select("text", "start_us", "end_us", "speaker", "confidence", "method")
    return {
        **{name: call.row[name] for name in (*_TEXTS, "text_conditions")},
        "duration_s": us_to_seconds(call.row["duration_us"]),
        "words": _words(words.iter_rows()),
        "samples": call.row["samples"],
        "codes": call.codes.T,
        "text_ids": call.text,
        "text_roles": call.role,
        "loss_mask": call.mask,
    }


def _words(words: Iterable[tuple[Any, ...]]) -> list[Row]:
    """Words as `_WORD` has them, from what `_SAID` takes of them."""
    return [
        dict(zip(_WORD, (text, us_to_seconds(start_us), us_to_seconds(end_us), *rest), strict=True))
        for text, start_us, end_us, *rest in words
    ]
