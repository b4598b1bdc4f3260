"""A file opened by FFmpeg, and its packets, past those that are damaged.

Reads and seeks through a Python file also raise plain OSError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

# Containers that FFmpeg recognises by their content. Play lists, which open other files, and headerless
# formats, which are guessed from the name, stay out.
FFMPEG_FORMATS: Final = (
    "aac,ac3,aiff,amr,ape,asf,au,avi,caf,flac,flv,matroska,mov,mp3,mp4,mpeg,mpegts,nistsphere,ogg,shn,tta,voc,"
    "w64,wav,webm,wv,xwma"
)
_MOST_ERRORS_IN_A_ROW: Final = 8


@contextmanager
def open_av(path: Path, *, ignore_length: bool = False) -> Iterator[Any]:
    """The container of a file, for reading. Raises av.FFmpegError, OSError, ValueError."""
    import av

    options = {"format_whitelist": FFMPEG_FORMATS, "protocol_whitelist": "file"}
    if ignore_length:
        options["ignore_length"] = "1"
    # A handle, not a name: names are taken for protocols ("concat:…") and must be UTF-8.
    with path.open("rb") as handle, av.open(handle, options=options, metadata_errors="ignore") as container:
        yield container


def packets_of(container: Any, track: Any) -> Iterator[Any]:
    """Packets of one track, the empty one at the end included, and where reading fails the sentence that says why.

    FFmpeg goes on behind damaged bytes where it finds something that it knows.
    """
    import av

    failed = 0
    while failed < _MOST_ERRORS_IN_A_ROW:
        try:
            for packet in container.demux(track):
                yield packet
                failed = 0
            return
        except (av.FFmpegError, OSError) as error:
            failed += 1
            yield f"FFmpeg: {error.strerror}"
