"""Reading corpora: three layouts, odd names, and one bad line or file that never stops the others."""

from __future__ import annotations

import gzip
import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.corpus import text_lines
from inkplex_data.corpus.entry import AgentCaller, ChannelSpec
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import CorpusError

SIDECAR = {"schema": "inkplex/sidecar@1", "identity": {"clip_id": "clip"}}


def lay(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def jsonl(folder: Path, *lines: Any, name: str = "manifest.jsonl") -> Path:
    path = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n")
    return path


def refused(path: Path, **options: Any) -> list[tuple[str, str]]:
    return [(problem.call_id, problem.code) for problem in read_corpus(path, **options).refused]


def test_moshi_layout(tmp_path: Path) -> None:
    lay(
        tmp_path,
        "data_stereo/a.wav",
        "data_stereo/a.json",
        "data_stereo/b.c.wav",
        "data_stereo/b.c.json",
        "d.wav",
    )
    path = jsonl(
        tmp_path,
        {"path": "data_stereo/a.wav", "duration": 24.521950113378686},
        {"path": str(tmp_path / "data_stereo/b.c.wav"), "duration": 18, "text_conditions": {"x": "y"}},
        {"path": "d.wav", "duration": None, "speaker": 5},
        name="mycooldataset.jsonl",
    )
    corpus = read_corpus(path)
    assert corpus.kind == "moshi"
    assert [entry.call_id for entry in corpus.entries] == ["data_stereo/a", "data_stereo/b.c", "d"]
    a, bc, d = corpus.entries
    assert a.audio == tmp_path / "data_stereo/a.wav"
    assert a.words == tmp_path / "data_stereo/a.json"
    assert (a.duration_s, a.where, a.source) == (
        24.521950113378686,
        "mycooldataset.jsonl:1",
        "data_stereo/a.wav",
    )
    assert (a.family, a.split, a.recording, a.channels) == ("data_stereo/a", None, None, None)
    assert bc.words == tmp_path / "data_stereo/b.c.json"
    assert bc.text_conditions == {"x": "y"}
    assert d.words is None
    assert [(p.code, p.call_id) for p in corpus.problems] == [
        ("duration-invalid", "d"),
        ("fields-ignored", ""),
    ]


def test_an_inventory_obeys_the_fields_of_a_manifest_and_names_all_others(tmp_path: Path) -> None:
    lay(tmp_path, "a.wav", "a.json", "b.wav", "w/x.json")
    given = {"split": "test", "role": "You help.", "voice": "ann", "channels": {"agent": 1, "caller": 0}}
    path = jsonl(
        tmp_path,
        {"path": "a.wav", "duration": 2, "words": None, "family": "f", **given},
        {"path": "b.wav", "duration": 2, "words": "w/x.json", "spilt": "test", "lang": "en"},
        {"path": "b.wav", "duration": 2, "split": "dev"},
        name="data.jsonl",
    )
    corpus = read_corpus(path)
    a, b = corpus.entries
    assert corpus.kind == "moshi"
    assert (a.split, a.role, a.voice, a.channels) == ("test", "You help.", "ann", ChannelSpec(1, 0))
    assert (a.words, a.family, b.words) == (None, "f", tmp_path / "w/x.json")
    (refused_line,) = corpus.refused
    assert "/split" in refused_line.message and "'dev'" in refused_line.message
    (note,) = corpus.notes
    assert str(note) == "data.jsonl: [fields-ignored] lang, spilt (did you mean 'split'?)"


def test_manifest(tmp_path: Path) -> None:
    lay(tmp_path, "s.wav", "s.json", "ag.wav", "ca.wav", "w/x.json", "task.recording.jsonl")
    path = jsonl(
        tmp_path,
        {"id": "one", "path": "s.wav", "role": "You help.", "voice": "ann", "split": "test", "family": "f"},
        {
            "id": "two",
            "path": {"agent": "ag.wav", "caller": "ca.wav"},
            "words": "w/x.json",
            "recording": "task.recording.jsonl",
            "recording_starts_at": 2.32,
            "channels": {"agent": 1, "caller": 0},
            "text_conditions": {"k": [1]},
            "duration": 3,
        },
        {"id": "three", "path": "s.wav", "words": None, "recording": "task.recording.jsonl"},
    )
    corpus = read_corpus(path)
    assert corpus.kind == "manifest"
    assert corpus.problems == ()
    one, two, three = corpus.entries
    assert (one.role, one.voice, one.split, one.family) == ("You help.", "ann", "test", "f")
    assert one.words == tmp_path / "s.json"
    assert two.audio == AgentCaller(tmp_path / "ag.wav", tmp_path / "ca.wav")
    assert two.audio_paths == (tmp_path / "ag.wav", tmp_path / "ca.wav")
    assert two.words == tmp_path / "w/x.json"
    assert (two.recording_starts_at_us, two.channels) == (2_320_000, ChannelSpec(1, 0))
    assert (two.text_conditions, two.duration_s) == ({"k": [1]}, 3.0)
    assert three.words is None
    assert three.recording == two.recording
    # Calls over one recording share evidence, so they default to one family.
    assert two.family == three.family == "task"


def test_folder_with_everything_beside(tmp_path: Path) -> None:
    odd = ["a b.wav", "c,d: e.flac", "x.y.z.wav", "通話 é.mp3", "deep/er/call.opus"]
    lay(
        tmp_path,
        *odd,
        "a b.json",
        "x.y.z.sidecar.json",
        "x.y.z.recording.jsonl",
        "notes.txt",
        "z.TextGrid",
        "q.jsonl",
    )
    lay(tmp_path, ".hidden.wav", ".git/h.wav")
    (tmp_path / "x.y.z.sidecar.json").write_text(json.dumps(SIDECAR))
    corpus = read_corpus(tmp_path)
    assert corpus.kind == "folder"
    by_id = {entry.call_id: entry for entry in corpus.entries}
    assert sorted(by_id) == sorted(["a b", "c,d: e", "x.y.z", "通話 é", "deep/er/call"])
    assert by_id["a b"].words == tmp_path / "a b.json"
    assert by_id["x.y.z"].sidecar == tmp_path / "x.y.z.sidecar.json"
    assert by_id["x.y.z"].recording == tmp_path / "x.y.z.recording.jsonl"
    (problem,) = corpus.problems
    assert problem.code == "files-ignored"
    assert "notes.txt" in problem.message and "q.jsonl" in problem.message
    assert "a b.json" not in problem.message
    assert [entry.call_id for entry in read_corpus(tmp_path).entries] == [e.call_id for e in corpus.entries]


def test_equal_stems_keep_their_suffix(tmp_path: Path) -> None:
    lay(tmp_path, "stereo.mp3", "stereo.sph", "other.wav")
    assert [entry.call_id for entry in read_corpus(tmp_path).entries] == ["other", "stereo.mp3", "stereo.sph"]


def test_the_real_folders_list_every_file(real_data: Path) -> None:
    corpus = read_corpus(real_data / "odd_audio")
    assert len(corpus.entries) == len(list((real_data / "odd_audio").iterdir()))
    assert corpus.problems == ()
    corpus = read_corpus(real_data / "calls")
    assert {entry.source for entry in corpus.entries if entry.words} >= {"Auto_Repairs_40_UTC_agent.wav"}


def test_a_folder_is_read_through_its_manifest(tmp_path: Path) -> None:
    lay(tmp_path, "a.wav", "b.wav")
    jsonl(tmp_path, {"id": "only", "path": "a.wav"})
    corpus = read_corpus(tmp_path)
    assert (corpus.kind, [entry.call_id for entry in corpus.entries]) == ("manifest", ["only"])


BAD_LINES: list[tuple[Any, str, str]] = [
    ("{", "corpus-line-invalid", "is not JSON"),
    ("[1]", "corpus-line-invalid", "is not a JSON object"),
    ({"path": "a.wav"}, "corpus-line-invalid", "/id is missing"),
    ({"id": "x"}, "corpus-line-invalid", "/path is missing"),
    ({"id": 7, "path": "a.wav"}, "corpus-line-invalid", "/id input should be a valid string (got 7)"),
    ({"id": "", "path": "a.wav"}, "corpus-line-invalid", "/id"),
    ({"id": "a\nb", "path": "a.wav"}, "corpus-line-invalid", "/id"),
    ('{"id": "\\ud800", "path": "a.wav"}', "corpus-line-invalid", "/id"),
    ({"id": "x", "path": "a.wav", "spilt": "test"}, "corpus-line-invalid", "did you mean 'split'?"),
    ({"id": "x", "path": "a.wav", "split": "dev"}, "corpus-line-invalid", "(got 'dev')"),
    ({"id": "x", "path": {"agent": "a.wav"}}, "corpus-line-invalid", "/path/caller is missing"),
    ({"id": "x", "path": "a.wav", "recording_starts_at": "3"}, "corpus-line-invalid", "/recording_starts_at"),
    ({"id": "x", "path": "a.wav", "recording_starts_at": 3}, "corpus-line-invalid", "has no recording"),
    ('{"id": "x", "path": "a.wav", "recording_starts_at": NaN}', "corpus-line-invalid", "NaN"),
    ('{"id": "x", "path": "a.wav", "recording_starts_at": 1e999}', "corpus-line-invalid", "too large"),
    ({"id": "x", "path": "a.wav", "channels": {"agent": 1, "caller": 1}}, "corpus-line-invalid", "different"),
    ('{"id": "x", "id": "y", "path": "a.wav"}', "corpus-line-invalid", "twice"),
    ({"id": "x", "path": "none.wav"}, "file-missing", "/path does not exist"),
    ({"id": "x", "path": "."}, "file-missing", "is a folder"),
    ({"id": "x", "path": "pipe"}, "file-missing", "is not a regular file"),
    ({"id": "x", "path": "s3://bucket/a.wav"}, "file-missing", "is a URL"),
    ({"id": "x", "path": "a" * 5000}, "file-missing", ""),
    ({"id": "x", "path": "a.wav", "words": "none.json"}, "file-missing", "/words"),
    (
        {"id": "x", "path": "a.wav", "sidecar": "../secret.json"},
        "path-outside-corpus",
        "/sidecar lies outside",
    ),
    ({"id": "x", "path": "../secret.wav"}, "path-outside-corpus", "lies outside"),
    ({"id": "x", "path": "sub/../../secret.wav"}, "path-outside-corpus", "lies outside"),
    ({"id": "x", "path": "/etc/hostname"}, "path-outside-corpus", "lies outside"),
    ({"id": "x", "path": "link.wav"}, "path-outside-corpus", "it leads to"),
    ({"id": "x", "path": "loop.wav"}, "file-missing", ""),
    ({"id": "good", "path": "a.wav"}, "duplicate-id", "is already the id of calls.jsonl:1"),
    ({"id": "x", "path": "a.wav", "sidecar": "broken.json"}, "sidecar-invalid", "/identity is missing"),
    ({"id": "x", "path": "a.wav", "sidecar": "clip.json", "family": "g"}, "sidecar-contradicts", "/family"),
]


@pytest.mark.parametrize(("line", "code", "words"), BAD_LINES, ids=lambda value: str(value)[:40])
def test_a_bad_line_is_refused_and_the_others_go_on(tmp_path: Path, line: Any, code: str, words: str) -> None:
    corpus_folder = tmp_path / "corpus"
    lay(corpus_folder, "a.wav", "b.wav", "sub/c.wav")
    lay(tmp_path, "secret.wav", "secret.json")
    os.mkfifo(corpus_folder / "pipe")
    (corpus_folder / "link.wav").symlink_to(tmp_path / "secret.wav")
    (corpus_folder / "loop.wav").symlink_to("loop.wav")
    (corpus_folder / "broken.json").write_text('{"schema": "inkplex/sidecar@1"}')
    (corpus_folder / "clip.json").write_text(
        json.dumps(SIDECAR | {"identity": {"clip_id": "c", "family": "f"}})
    )
    path = jsonl(
        corpus_folder,
        {"id": "good", "path": "a.wav"},
        line,
        {"id": "last", "path": "sub/../b.wav"},
        name="calls.jsonl",
    )
    corpus = read_corpus(path)
    assert [entry.call_id for entry in corpus.entries] == ["good", "last"]
    (problem,) = corpus.problems
    assert problem.code == code
    assert problem.severity == "error"
    assert problem.item == "calls.jsonl:2"
    assert words in problem.message
    assert "→" in problem.message


def test_links_and_absolute_paths_inside_are_fine_and_outside_on_request(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    lay(folder, "blobs/1", "a.wav")
    lay(tmp_path, "out.wav", "out.json")
    (folder / "link.wav").symlink_to("blobs/1")
    lay(folder, "link.json")
    lines = [{"path": "link.wav"}, {"path": str(folder / "a.wav")}, {"path": str(tmp_path / "out.wav")}]
    path = jsonl(folder, *lines, name="data.jsonl")
    corpus = read_corpus(path)
    assert [entry.call_id for entry in corpus.entries] == ["link", "a"]
    # The word file lies beside the link, not beside what it points to.
    assert corpus.entries[0].words == folder / "link.json"
    assert [problem.code for problem in corpus.refused] == ["path-outside-corpus"]
    assert len(read_corpus(path, allow_outside=True).entries) == 3
    wider = read_corpus(path, root=tmp_path)
    assert wider.entries[2].words == tmp_path / "out.json"


def test_accents_may_be_composed_either_way(tmp_path: Path) -> None:
    lay(tmp_path, unicodedata.normalize("NFD", "café.wav"))
    path = jsonl(tmp_path, {"id": "x", "path": unicodedata.normalize("NFC", "café.wav")})
    assert refused(path) == []


def test_splits_of_a_family_must_agree(tmp_path: Path) -> None:
    lay(tmp_path, "a.wav")
    path = jsonl(
        tmp_path,
        {"id": "1", "path": "a.wav", "family": "f", "split": "train"},
        {"id": "2", "path": "a.wav", "family": "f", "split": "test"},
        {"id": "3", "path": "a.wav", "family": "f"},
        {"id": "4", "path": "a.wav", "family": "g", "split": "test"},
        {"id": "5", "path": "a.wav", "family": "g"},
    )
    corpus = read_corpus(path)
    assert refused(path) == [(name, "split-conflict") for name in "123"]
    assert "train in manifest.jsonl:1, test in manifest.jsonl:2" in corpus.refused[0].message
    assert [(entry.call_id, entry.split) for entry in corpus.entries] == [("4", "test"), ("5", "test")]


def test_the_sidecar_fills_in_what_the_line_leaves_out(tmp_path: Path) -> None:
    lay(tmp_path, "a.wav", "a.recording.jsonl")
    sidecar = SIDECAR | {
        "identity": {"clip_id": "c", "family": "fam", "split": "validation"},
        "prompt": {"role": "You help.", "voice": "ann"},
        "private_updates": {"mapping": {"kind": "constructed", "recording_starts_at_s": 4.5}},
    }
    (tmp_path / "a.sidecar.json").write_text(json.dumps(sidecar))
    (entry,) = read_corpus(tmp_path).entries
    assert (entry.family, entry.split, entry.role, entry.voice) == ("fam", "validation", "You help.", "ann")
    assert entry.recording_starts_at_us == 4_500_000
    path = jsonl(tmp_path, {"id": "x", "path": "a.wav", "voice": "bob", "role": ""}, name="calls.jsonl")
    (entry,) = read_corpus(path).entries
    assert (entry.role, entry.voice, entry.family) == ("", "bob", "fam")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "holds no calls"),
        (b"\n\n", "holds no calls"),
        (b"RIFF\x00\x00\xff\xfeWAVE", "is not JSONL"),
        (b'[\n  {"path": "a.wav"}\n]\n', "is not JSONL"),
        (b'"a.wav"\n3\n', "is not JSONL"),
    ],
)
def test_a_file_that_is_no_corpus_at_all(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=words) as caught:
        read_corpus(path)
    assert str(path) in str(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="does not exist"):
        read_corpus(tmp_path / "none")
    with pytest.raises(CorpusError, match="folder is empty"):
        read_corpus(tmp_path)
    lay(tmp_path, "a.txt")
    with pytest.raises(CorpusError, match="no audio file"):
        read_corpus(tmp_path)


def test_byte_order_mark_blank_lines_and_no_last_newline(tmp_path: Path) -> None:
    lay(tmp_path, "a.wav", "b.wav")
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "1", "path": "a.wav"}\r\n\r\n{"id": "2", "path": "b.wav"}')
    corpus = read_corpus(path)
    assert [(entry.call_id, entry.where) for entry in corpus.entries] == [
        ("1", "m.jsonl:1"),
        ("2", "m.jsonl:3"),
    ]


def test_linked_folders_inside_the_root_are_followed_once_and_others_named(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    lay(folder, "b/x.wav", "b/c/y.wav", ".blobs/z.wav", ".blobs/z.json", "shut/w.wav")
    lay(tmp_path, "other/o.wav")
    (folder / "a").symlink_to("b")  # the same folder again, under an earlier name
    (folder / "b" / "up").symlink_to("..")  # a loop
    (folder / "z").symlink_to(".blobs")
    (folder / "round").symlink_to("round")
    (folder / "out").symlink_to(tmp_path / "other")
    corpus = read_corpus(folder)
    assert [entry.call_id for entry in corpus.entries] == ["b/c/y", "b/x", "shut/w", "z/z"]
    assert corpus.entries[-1].words == folder / "z/z.json"
    assert {note.code: note.message for note in corpus.notes} == {
        "files-ignored": "round",
        "folders-skipped": f"out (leads outside, to {tmp_path / 'other'})",
    }
    wider = read_corpus(folder, root=tmp_path)
    assert "out/o" in [entry.call_id for entry in wider.entries]
    assert [note.code for note in wider.notes] == ["files-ignored"]


@pytest.mark.parametrize("name", ["CALL.JSON", "CALL.Srt", "CALL.TEXTGRID", "CALL.json", "CALL.words.json"])
def test_a_suffix_in_capitals_is_found(tmp_path: Path, name: str) -> None:
    lay(tmp_path, "CALL.WAV", name, "CALL.SIDECAR.json", "call.json")
    (tmp_path / "CALL.SIDECAR.json").write_text(json.dumps(SIDECAR))
    corpus = read_corpus(tmp_path)
    (entry,) = corpus.entries
    assert entry.words == tmp_path / name and entry.sidecar == tmp_path / "CALL.SIDECAR.json"
    assert [note.message for note in corpus.notes] == ["call.json"]  # another name


def test_small_letters_come_first_and_json_before_captions(tmp_path: Path) -> None:
    lay(tmp_path, "a.wav", "a.JSON", "a.json", "a.srt", "b.wav", "b.JSON", "b.srt")
    assert [entry.words for entry in read_corpus(tmp_path).entries] == [
        tmp_path / "a.json",
        tmp_path / "b.JSON",
    ]


@pytest.mark.parametrize("name", ["x.wav.json", "x.wav.words.json", "x.WAV.JSON"])
def test_words_under_another_name_are_named_and_not_taken(tmp_path: Path, name: str) -> None:
    audio = "x.WAV" if "WAV" in name else "x.wav"
    lay(tmp_path, audio, name)
    for corpus in (
        read_corpus(tmp_path),
        read_corpus(jsonl(tmp_path, {"id": "x", "path": audio}, name="m.jsonl")),
    ):
        (entry,) = corpus.entries
        found = [problem for problem in corpus.problems if problem.code == "words-other-name"]
        assert entry.words is None and [(one.call_id, one.message) for one in found] == [("x", name)]
    given = read_corpus(jsonl(tmp_path, {"id": "x", "path": audio, "words": None}, name="n.jsonl"))
    assert given.problems == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("packed", [False, True])
def test_packed_manifests_and_other_encodings(tmp_path: Path, encoding: str, packed: bool) -> None:
    lay(tmp_path, "a.wav", "é.wav")
    text = '{"id": "1", "path": "a.wav"}\r\n\r\n{"id": "é", "path": "é.wav"}'
    data = text.encode(encoding)
    path = tmp_path / ("calls.jsonl.gz" if packed else "calls.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    corpus = read_corpus(path)
    assert [(entry.call_id, entry.where) for entry in corpus.entries] == [
        ("1", f"{path.name}:1"),
        ("é", f"{path.name}:3"),
    ]
    assert validate_path(path) == []


def test_a_folder_is_read_through_its_packed_manifest(tmp_path: Path) -> None:
    lay(tmp_path, "a.wav", "b.wav")
    (tmp_path / "manifest.jsonl.gz").write_bytes(gzip.compress(b'{"id": "only", "path": "a.wav"}\n'))
    assert [entry.call_id for entry in read_corpus(tmp_path).entries] == ["only"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(b'{"id": "1"}\n' * 50)[:-30], "cannot be unpacked"),
        (b"\x1f\x8bnot gzip", "cannot be unpacked"),
        (gzip.compress(b"\n" * 4096), "unpacks to more than 1,000 bytes"),
        ('{"id": 1}'.encode("utf-16")[:-1], "is not utf-16"),
    ],
    ids=["cut", "not packed", "endless", "half a character"],
)
def test_a_damaged_or_endless_packed_manifest_is_one_sentence(
    tmp_path: Path, data: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_lines, "UNPACKED_BYTES", 1_000)
    path = tmp_path / "m.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=words):
        read_corpus(path)
