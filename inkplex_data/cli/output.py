"""What every option that names where results go makes of its text."""

from __future__ import annotations

from pathlib import Path

from inkplex_data.errors import UsageError
from inkplex_data.output_path import output_path


class NotAnOutput(Exception):
    """Carries a UsageError through the command-line library, which would take a ValueError for one of its own."""

    def __init__(self, error: UsageError) -> None:
        self.error = error
        super().__init__(str(error))


def output(given: str) -> Path:
    """`parser` of the option, which sees the text before a `Path` could join the slashes of a URL."""
    try:
        return output_path(given)
    except UsageError as error:
        raise NotAnOutput(error) from error
