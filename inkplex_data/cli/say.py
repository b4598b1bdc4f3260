"""How every verb prints: names and texts of others show as they are spelled, on any terminal and in any locale."""

from __future__ import annotations

import codecs
import io
import sys
from typing import Final

import typer

from inkplex_data.printable import in_ascii, plain_lines

_ERRORS: Final = "inkplex-ascii"


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print `text`. Whatever could steer a terminal is spelled out; lines stay lines."""
    # Not `typer.echo`, which writes UTF-8 to a stream that asks for ASCII.
    print(plain_lines(str(text)), end="\n" * nl, file=sys.stderr if err else sys.stdout, flush=True)


def complain(message: str) -> None:
    """Print what went wrong, on standard error."""
    mark = typer.style("error: ", fg=typer.colors.RED, bold=True) if sys.stderr.isatty() else "error: "
    print(mark, end="", file=sys.stderr)  # noqa: T201
    say(message, err=True)


def fit_streams() -> None:
    """Let standard output and error replace what their encoding cannot hold, instead of failing at it."""
    codecs.register_error(_ERRORS, _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(in_ascii, error.object[error.start : error.end])), error.end
