"""Whatever is exported is read again under the same names; what could not be is refused on the way in."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.atomic import write_json_lines
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.export.hf import export_hf_corpus
from inkplex_data.export.hf_import import import_hf
from inkplex_data.export.moshi import export_corpus
from inkplex_data.export.word_files import convert_words
from tests.export.made import noise

NASTY = [
    "a",
    "A",
    "..",
    "a/b",
    "/etc",
    "~",
    "é",
    "e\u0301",
    "\u202ex",
    "\x9b31m",
    "con",
    "-",
    " ",
    "\u2028",
    "😀",
    "\xa0",
]
REFUSED = ["tab\there", "nul\0", "", "half\ud800", "line\n", "\x1b[31m", "del\x7f"]
TEXTS = st.text(st.characters(exclude_categories=()), max_size=12)


def lay(folder: Path, ids: list[str]) -> Path:
    """A manifest of calls that share one file of 80 ms; their ids are also voice, family, role and condition."""
    folder.mkdir()
    soundfile.write(folder / "x.wav", np.stack([noise(1, 700), noise(2, 700)], 1), 8_000)
    lines = [
        {"id": name, "path": "x.wav", "words": None, "voice": name, "family": name, "role": name}
        | {"text_conditions": {name: name}}
        for name in ids
    ]
    path = folder / "manifest.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="ascii")
    return path


def known(path: Path) -> dict[str, tuple[object, ...]]:
    return {
        entry.call_id: (entry.voice, entry.family, entry.role, entry.text_conditions)
        for entry in read_corpus(path).entries
    }


@settings(max_examples=12, deadline=None)
@given(st.lists(st.one_of(TEXTS, st.sampled_from([*NASTY, *REFUSED])), min_size=1, max_size=8, unique=True))
def test_names_survive_the_moshi_layout(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent)
        manifest = lay(folder / "corpus", names)
        corpus = read_corpus(manifest)
        assert len(corpus.entries) + len(corpus.refused) == len(names)
        summary = export_corpus(corpus, folder / "out")
        assert set(summary.calls) == {entry.call_id for entry in corpus.entries} >= set(names) & set(NASTY)
        if corpus.entries:
            assert known(folder / "out") == known(manifest)
            assert len(read_corpus(folder / "out" / "dataset.jsonl").entries) == len(corpus.entries)


def test_names_survive_hugging_face_or_are_refused_on_the_way_in(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    manifest = lay(tmp_path / "corpus", [*NASTY, *REFUSED])
    summary = export_hf_corpus(read_corpus(manifest), tmp_path / "hf", form="parquet")
    assert sorted(summary.calls) == sorted(NASTY) and len(summary.refused) == len(REFUSED)
    import_hf(str(tmp_path / "hf"), tmp_path / "back")
    assert known(tmp_path / "back") == known(manifest)

    (table,) = (tmp_path / "hf").rglob("*.parquet")
    bad = ["tab\there", "b", "c", "d", *NASTY[4:]]
    columns = {"call_id": bad, "voice": ["x", "tab\t", "", *NASTY[3:]]}
    columns["text_conditions"] = [None, None, None, '{"a": "\\ud800"}', *[None] * (len(bad) - 4)]
    changed = pq.read_table(table)
    for name, values in columns.items():
        changed = changed.set_column(changed.column_names.index(name), name, pa.array(values))
    (tmp_path / "changed").mkdir()
    pq.write_table(changed, tmp_path / "changed" / "x.parquet")
    imported = import_hf(str(tmp_path / "changed"), tmp_path / "again")
    codes = {problem.call_id: problem.code for problem in imported.refused}
    assert codes == {
        "tab\there": "call-unnamable",
        "b": "corpus-line-invalid",
        "d": "corpus-line-invalid",
    }
    again = read_corpus(tmp_path / "again")
    assert not again.refused and len(again.entries) == len(bad) - 3


def test_a_file_whose_name_cannot_be_an_id_refuses_its_call_alone(tmp_path: Path) -> None:
    corpus = lay(tmp_path / "corpus", []).parent
    (corpus / "manifest.jsonl").unlink()
    for name in (b"caf\xe9.wav", b"tab\there.wav", b"d\xe9/b.wav", b"\x1b[31m.wav"):
        path = corpus / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(corpus / "x.wav", path)
    found = read_corpus(corpus)
    assert [entry.call_id for entry in found.entries] == ["x"]
    assert {problem.code for problem in found.refused} == {"call-unnamable"}
    assert sorted(problem.call_id for problem in found.refused) == [
        "\x1b[31m", "caf\\udce9", "d\\udce9/b", "tab\there",
    ]  # fmt: skip
    # All of it can be written down.
    write_json_lines(tmp_path / "problems.jsonl", map(vars, found.problems))
    summary = export_corpus(found, tmp_path / "out")
    assert summary.calls == ["x"] and len(summary.refused) == 4
    assert known(tmp_path / "out").keys() == {"x"}


def test_labels_of_a_transcript_are_spelled_where_they_are_no_unicode(tmp_path: Path) -> None:
    words = [["a", [0, 1], "x\ud800"], ["b\udfff", [1, 2], "y"], ["c", [2, 3], "SPEAKER_MAIN"]]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"alignments": words, "method": "m\ud800"}))
    assert convert_words([path], tmp_path / "out").exit_code == 0
    made = json.loads((tmp_path / "out" / "a.json").read_text(encoding="utf-8"))
    assert [(text, label) for text, _, label in made["alignments"]] == [
        ("a", "x\\ud800"), ("b\ufffd", "y"), ("c", "SPEAKER_MAIN"),
    ]  # fmt: skip
    path.write_text(json.dumps({"alignments": words, "text_conditions": {"a": ["\ud800"]}}))
    (refused,) = convert_words([path], tmp_path / "out").refused
    assert refused.code == "words-unreadable" and "surrogate" in refused.message
