"""Lines of a text file as UTF-8, whichever way it was saved: plain, gzip, UTF-16 or UTF-32. Bounded throughout."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, cast

from inkplex_data.errors import CorpusError
from inkplex_data.reading import open_file

UNPACKED_BYTES: Final = 16 * 2**30
"""What is read of a compressed file: some fifty million calls. A few megabytes may claim any size."""
_GZIP: Final = b"\x1f\x8b"
_MARKS: Final = {
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
"""Byte order marks by which a file says that it is not UTF-8. The longer come first: one begins as another."""


def text_lines(path: Path, limit_bytes: int) -> Iterator[bytes]:
    """The lines, each with its end, cut after `limit_bytes`; UTF-8 is passed on as it is, valid or not.

    Raises OSError as usual, CorpusError for a file that is damaged or unpacks to more than UNPACKED_BYTES.
    """
    try:
        with ExitStack() as opened:
            file = opened.enter_context(cast(io.BufferedReader, open_file(path)))
            packed = file.peek(len(_GZIP)).startswith(_GZIP)
            if packed:
                file = opened.enter_context(cast(io.BufferedReader, gzip.GzipFile(fileobj=file)))
            encoding = next((name for mark, name in _MARKS.items() if file.peek(4).startswith(mark)), None)
            total = 0
            for line in _lines(file, limit_bytes, encoding):
                total += len(line)
                if packed and total > UNPACKED_BYTES:
                    raise CorpusError(f"unpacks to more than {UNPACKED_BYTES:,} bytes", where=str(path))
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(f"cannot be unpacked ({error})", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise CorpusError(f"is not {error.encoding} after its byte order mark", where=str(path)) from error


def _lines(file: BinaryIO, limit_bytes: int, encoding: str | None) -> Iterator[bytes]:
    if encoding is None:
        while data := file.readline(limit_bytes):
            yield data
        return
    # Only \n ends a line, as in the other files.
    text = io.TextIOWrapper(file, encoding=encoding, newline="\n")
    while line := text.readline(limit_bytes):
        yield line.encode("utf-8")
