from __future__ import annotations

import gzip
import io
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.errors import CheckpointError, CorpusError
from inkplex_data.soma.tokens import source_text
from inkplex_data.soma.tokens.protocol import TargetWeights
from inkplex_data.soma.tokens.soma_tokenizer import DREAM, SOMA, STATE, TURN, UNKNOWN, USER, SomaTokenizer
from inkplex_data.soma.tokens.source_text import Document, Segment, Stream, TextFile, Turn
from inkplex_data.soma.tokens.token_stream import Cursor, TokenBatch, TokenStream

TOKENIZER = SomaTokenizer.load()
TEXT = (
    b"".join(b"line %d of a text, with words and 0x%x numbers\n" % (i, i * 7_919) for i in range(2_000))
    + b"x" * 70_000
    + "é\u2581日本".encode() * 9_000
    + b"\xff\xfe\x00 end"
)


def taken(stream: TokenStream, size: int) -> list[TokenBatch]:
    return list(iter(lambda: stream.take(size), None))


def ids_of(batches: Sequence[TokenBatch]) -> list[int]:
    return [int(i) for batch in batches for i in batch.ids]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One text three times: plain, in gzip of two members, in zstd of two frames."""
    folder = tmp_path_factory.mktemp("texts")
    plain, packed, framed = folder / "t.txt", folder / "t.gz", folder / "t.zst"
    plain.write_bytes(TEXT)
    packed.write_bytes(gzip.compress(TEXT[:50_001]) + gzip.compress(TEXT[50_001:]))
    with framed.open("wb") as file:
        for part in (TEXT[:50_001], TEXT[50_001:]):
            with pa.CompressedOutputStream(pa.PythonFile(Unclosed(file)), "zstd") as out:
                out.write(part)
    return [plain, packed, framed]


class Unclosed(io.RawIOBase):
    def __init__(self, file: io.BufferedWriter) -> None:
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return self.file.write(data)


def test_fixed_block_corpus_reading_without_dropped_source_bytes(files: list[Path]) -> None:
    whole = ids_of(taken(TokenStream([TextFile(files[0])], TOKENIZER), 1 << 30))
    assert TOKENIZER.decode(whole) == TEXT
    for path in files:
        for size in (997, 4_096):
            stream = TokenStream([TextFile(path)], TOKENIZER)
            batches = taken(stream, size)
            assert ids_of(batches) == whole
            assert {len(batch) for batch in batches[:-1]} == {size}
            assert 0 < len(batches[-1]) <= size
            assert sum(int(batch.source_bytes.sum()) for batch in batches) == len(TEXT)
            assert (stream.cursor.tokens, stream.cursor.source_bytes) == (len(whole), len(TEXT))
            assert stream.take(size) is None


@pytest.mark.parametrize("kind", range(3))
@given(data=st.data())
@settings(max_examples=20)
def test_what_follows_a_cursor_is_what_was_left(kind: int, data: st.DataObject, files: list[Path]) -> None:
    documents = [TextFile(files[0]), TextFile(files[kind])]
    stream = TokenStream(documents, TOKENIZER)
    first = data.draw(st.integers(1, 120_000))
    read = stream.take(first)
    assert read is not None and read.cursor == stream.cursor
    saved = Cursor.from_json(read.cursor.to_json(), where="here")
    going_on, again = stream.take(3_000), TokenStream(documents, TOKENIZER, saved).take(3_000)
    assert going_on is not None and again is not None
    assert again.ids.tolist() == going_on.ids.tolist()
    assert again.cursor == going_on.cursor


def test_read_ahead_is_bounded_however_long_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            self.given += size
            return (b" word" * (size // 5 + 1))[:size]

    source = Endless()
    stream = TokenStream([Stream(source)], TOKENIZER)  # type: ignore[arg-type]
    for _ in range(5):
        batch = stream.take(10_000)
        assert batch is not None and len(batch) == 10_000
    assert source.given <= stream.cursor.source_bytes + 2 * source_text.SEGMENT_BYTES


def test_a_pipe_gives_all_of_its_bytes() -> None:
    out, into = os.pipe()
    writer = threading.Thread(
        target=lambda: (os.write(into, b"one two"), os.write(into, b" three"), os.close(into))
    )
    with os.fdopen(out, "rb") as file:
        writer.start()
        batches = taken(TokenStream([Stream(file)], TOKENIZER), 2)
        writer.join()
    assert TOKENIZER.decode(ids_of(batches)) == b"one two three"


@dataclass(frozen=True)
class Dialogue:
    turns: tuple[Turn, ...]
    name: str = "a dialogue"

    def segments(self, offset: int) -> Iterator[Segment]:
        yield Segment(0, [part for turn in self.turns for part in turn.parts()])


def weights_by_rule(ids: list[int]) -> list[float]:
    """The rule once more, one token after another."""
    weights, role = [], TURN
    for i in ids:
        if STATE <= i <= DREAM:
            weights.append(0.1 if (i, role) == (TURN, SOMA) else 0.0)
            role = i
        else:
            weights.append(0.0 if role in (STATE, DREAM) or i == UNKNOWN else 1.0)
    return weights


tokens = st.sampled_from([UNKNOWN, STATE, TURN, USER, SOMA, DREAM, 300, 301, 302])


@given(st.lists(tokens, max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_protocol_aware_corpus_masking_across_arbitrary_block_boundaries(
    ids: list[int], cuts: list[int]
) -> None:
    blocks = np.split(np.array(ids, np.int32), sorted(cut for cut in cuts if cut < len(ids)))
    weights = TargetWeights()
    found = np.concatenate([weights.of(block) for block in blocks])
    assert found.dtype == np.float32
    assert found.tolist() == np.array(weights_by_rule(ids), np.float32).tolist()


def test_a_dialogue_is_masked_alike_in_batches_of_any_size() -> None:
    documents: list[Document] = [
        Dialogue((Turn(None, b"setup"), Turn("user", b" hello <|turn|>"), Turn("soma", b" good morning"))),
        Dialogue((Turn("soma", b" yes"), Turn("user", b" no"))),
    ]
    [whole] = taken(TokenStream(documents, TOKENIZER), 10_000)
    assert whole.ids[whole.weights == 0].tolist() == [USER, TURN, SOMA, SOMA, USER, TURN]
    assert whole.ids[(whole.weights > 0) & (whole.weights < 1)].tolist() == [TURN, TURN]
    assert TOKENIZER.decode(whole.ids) == b"setup hello <|turn|> good morning yes no"
    assert whole.source_bytes[whole.weights < 1].sum() == 0
    for size in range(1, 9):
        batches = taken(TokenStream(documents, TOKENIZER), size)
        assert ids_of(batches) == whole.ids.tolist()
        assert np.concatenate([batch.weights for batch in batches]).tolist() == whole.weights.tolist()
        for batch in batches:
            rest = TokenStream(documents, TOKENIZER, batch.cursor).take(10_000)
            left = len(whole) - (batch.cursor.tokens if batch.cursor else 0)
            assert (0 if rest is None else len(rest)) == left
            assert rest is None or rest.weights.tolist() == whole.weights[-left:].tolist()


def test_a_place_that_the_corpus_does_not_have(tmp_path: Path, files: list[Path]) -> None:
    (tmp_path / "short.txt").write_bytes(b"short text")
    beyond = Cursor(skip=50, tokens=50, source_bytes=99)
    with pytest.raises(CheckpointError, match="not the one in which the saved place lies"):
        TokenStream([TextFile(tmp_path / "short.txt")], TOKENIZER, beyond).take(1)
    for body in (
        {},
        None,
        {"document": 0},
        dict(Cursor().to_json(), skip=-1),
        dict(Cursor().to_json(), skip=0.5),
    ):
        with pytest.raises(CheckpointError, match="the saved place in a corpus is not one"):
            Cursor.from_json(body, where="x.pt")
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(files[1].read_bytes()[:-9])
    for path in (damaged, tmp_path / "none.txt", tmp_path):
        with pytest.raises(CorpusError, match="the text cannot be read") as caught:
            taken(TokenStream([TextFile(path)], TOKENIZER), 1_000)
        assert caught.value.where == str(path)
    for path, mark in ((tmp_path / "d.zst", files[2]), (tmp_path / "e.gz", files[1])):
        path.write_bytes(mark.read_bytes()[:20] + bytes(100))
        with pytest.raises(CorpusError, match="the text cannot be read"):
            taken(TokenStream([TextFile(path)], TOKENIZER), 1_000)
