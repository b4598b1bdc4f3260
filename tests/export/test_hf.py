"""Hugging Face datasets: read with the library itself, and back into a corpus."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile

from inkplex_data.corpus.entry import Corpus
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.errors import CorpusError, UsageError
from inkplex_data.export.hf import export_hf_corpus, export_hf_store
from inkplex_data.export.hf_import import import_hf
from inkplex_data.store.reader import open_store
from tests.export.made import noise
from tests.export.test_moshi import samples, words
from tests.store.made import make_store

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()


def loaded(folder: Path, form: str, cache: Path) -> Any:
    if form == "disk":
        return datasets.load_from_disk(str(folder))
    return datasets.load_dataset("parquet", data_dir=str(folder), cache_dir=str(cache))


@pytest.mark.parametrize("form", ["disk", "parquet"])
def test_a_corpus_there_and_back(corpus: Corpus, tmp_path: Path, form: Any) -> None:
    out = tmp_path / "hf"
    summary = export_hf_corpus(corpus, out, form=form)
    assert sorted(summary.calls) == sorted(["one", "sub/two: ü", "pair", "turned"]) and summary.exit_code == 3
    found = loaded(out, form, tmp_path / "cache")
    assert {split: len(rows) for split, rows in found.items()} == {"train": 3, "validation": 1}
    assert isinstance(found["train"].features["audio"], datasets.Audio)
    assert found["train"].features["call_id"] == datasets.Value("string")
    row = found["train"].cast_column("audio", datasets.Audio(decode=False))[0]
    assert (row["call_id"], row["voice"], row["sample_rate_hz"]) == ("one", "amy", 8_000)
    assert row["words"][1]["end_s"] == 0.567891 and row["words"][1]["confidence"] is None

    imported = import_hf(str(out), tmp_path / "back")
    assert imported.exit_code == 0 and sorted(imported.calls) == sorted(summary.calls)
    back = {entry.call_id: entry for entry in read_corpus(tmp_path / "back").entries}
    for entry in corpus.entries:
        if entry.call_id == "broken":
            continue
        theirs = back[entry.call_id]
        for role, given in samples(entry).items():
            np.testing.assert_array_equal(samples(theirs)[role][: len(given)], given)
        assert (theirs.split, theirs.family, theirs.role) == (entry.split, entry.family, entry.role)
        if entry.words is not None:
            assert words(theirs) == words(entry)
            assert theirs.text_conditions == {"mood": "calm"}


def test_a_store_as_parquet(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store")
    with open_store(made.root) as store:
        summary = export_hf_store(store, tmp_path / "out", form="parquet")
        assert sorted(summary.calls) == sorted(store.call_ids)
        rows = {
            row["call_id"]: row
            for path in (tmp_path / "out" / "data").iterdir()
            for row in pl.read_parquet(path).iter_rows(named=True)
        }
        for call_id in store.call_ids:
            call, row = store.call(call_id), rows[call_id]
            np.testing.assert_array_equal(np.array(row["codes"]), call.codes.T)
            np.testing.assert_array_equal(row["text_ids"], call.text)
            np.testing.assert_array_equal(row["loss_mask"], call.mask)
            assert [word["text"] for word in row["words"]] == call.words["text"].to_list()
        features = loaded(tmp_path / "out", "parquet", tmp_path / "cache")["train"].features
        assert features["codes"] == datasets.Array2D(shape=(None, 16), dtype="uint16")


def test_somebody_elses_columns(tmp_path: Path) -> None:
    """Two audio columns with the sides in their names, words with other keys, files instead of bytes."""
    for side, seed in (("agent", 1), ("caller", 2)):
        soundfile.write(tmp_path / f"{side}.flac", noise(seed, 4_000), 8_000)
    plain = datasets.Dataset.from_dict(
        {
            "id": ["a", "b"],
            "agent_audio": [str(tmp_path / "agent.flac"), None],
            "caller_audio": [str(tmp_path / "caller.flac")] * 2,
            "words": [[{"word": "yes", "start": 0.1, "end": 0.3}], []],
        }
    )
    for column in ("agent_audio", "caller_audio"):
        plain = plain.cast_column(column, datasets.Audio())
    plain.save_to_disk(str(tmp_path / "theirs"))
    summary = import_hf(str(tmp_path / "theirs"), tmp_path / "corpus")
    assert summary.calls == ["a"] and [problem.call_id for problem in summary.refused] == ["b"]
    (entry,) = read_corpus(tmp_path / "corpus").entries
    np.testing.assert_allclose(samples(entry)["caller"], noise(2, 4_000), atol=1 / 32_768)
    assert [(w.text, w.start_us, w.speaker) for w in words(entry)] == [("yes", 100_000, "SPEAKER_MAIN")]
    with pytest.raises(UsageError, match="no audio column 'x'"):
        import_hf(str(tmp_path / "theirs"), tmp_path / "other", audio="x")


def test_words_of_other_shapes(tmp_path: Path) -> None:
    """Columns in place of rows, speakers by number, plain text for conditions: nothing is lost, nobody's words are
    the agent's."""
    soundfile.write(tmp_path / "a.flac", np.stack([noise(1, 4_000), noise(2, 4_000)], axis=1), 8_000)
    words = {"word": ["yes", "no", "well"], "start": [0.1, 0.2, 0.3], "end": [0.15, 0.25, 0.4]}
    words["speaker"] = [0, None, 1]
    rows = {"id": ["a"], "audio": [str(tmp_path / "a.flac")], "words": [words], "text_conditions": ["calm"]}
    theirs = datasets.Dataset.from_dict(rows).cast_column("audio", datasets.Audio())
    theirs.save_to_disk(str(tmp_path / "theirs"))
    assert import_hf(str(tmp_path / "theirs"), tmp_path / "corpus").exit_code == 0
    (entry,) = read_corpus(tmp_path / "corpus").entries
    document = json.loads((tmp_path / "corpus" / "calls" / "a.json").read_text())
    assert entry.text_conditions is None and document["alignments"] == [
        ["yes", [0.1, 0.15], "0"],
        ["no", [0.2, 0.25], "SPEAKER_UNKNOWN"],
        ["well", [0.3, 0.4], "1"],
    ]


def test_a_dataset_without_sound_says_so_and_leaves_the_folder_free(tmp_path: Path) -> None:
    with open_store(make_store(tmp_path / "store").root) as store:
        export_hf_store(store, tmp_path / "hf")
    for _ in range(2):
        with pytest.raises(UsageError, match="no column of the dataset holds audio") as caught:
            import_hf(str(tmp_path / "hf"), tmp_path / "out")
    assert "export the corpus" in str(caught.value) and not (tmp_path / "out").exists()


def test_text_that_is_not_utf8_is_told_with_its_row(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    sound = BytesIO()
    soundfile.write(sound, np.zeros((2_400, 2)), 24_000, format="WAV")
    offsets, text = np.array([0, 1, 3], np.int32), b"a\xff\xfe"
    ids = pyarrow.Array.from_buffers(
        pyarrow.string(), 2, [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(text)]
    )
    features = {"audio": {"_type": "Audio"}, "id": {"dtype": "string", "_type": "Value"}}
    table = pyarrow.table({"audio": [{"bytes": sound.getvalue(), "path": "x.wav"}] * 2, "id": ids})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    (tmp_path / "hf").mkdir()
    pyarrow.parquet.write_table(table, tmp_path / "hf" / "train.parquet")
    with pytest.raises(CorpusError, match="row 1 of split 'train' holds text that is not UTF-8"):
        import_hf(str(tmp_path / "hf"), tmp_path / "out")


def test_what_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="cannot be read as a dataset"):
        import_hf(str(tmp_path / "empty"), tmp_path / "out")


def test_nothing_to_export(tmp_path: Path) -> None:
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    (tmp_path / "manifest.jsonl").write_text(json.dumps({"id": "x", "path": "broken.wav"}) + "\n")
    summary = export_hf_corpus(read_corpus(tmp_path), tmp_path / "out")
    assert summary.exit_code == 1 and [problem.call_id for problem in summary.refused] == ["x"]
