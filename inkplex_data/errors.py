"""The one error family. An error says what was wrong, where, and what to do next.

Each class is also the matching builtin, so that `except ValueError` and the like keep working.
`exit_code` is what the command line ends with: 1 failed as a whole, 2 wrong usage or configuration.
"""

from __future__ import annotations

from collections.abc import Sequence


class InkplexError(Exception):
    """Base of every error that this package raises on purpose."""

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, next_step: str | None = None) -> None:
        self.what = what
        self.where = where
        self.next_step = next_step
        super().__init__(what)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  → {self.next_step}" if self.next_step else text


class ConfigError(InkplexError, ValueError):
    """Wrong configuration; lists every fault of a file at once."""

    exit_code = 2

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        faults: Sequence[str] = (),
        next_step: str | None = None,
    ) -> None:
        self.faults = tuple(faults)
        super().__init__("\n  - ".join([what, *self.faults]), where=where, next_step=next_step)


class UsageError(InkplexError, ValueError):
    """A command or function was called with arguments that make no sense together."""

    exit_code = 2


class CorpusError(InkplexError, ValueError):
    """A manifest, transcript, sidecar or recording that cannot be read as what it claims to be."""


class CallRefused(CorpusError):
    """One call cannot be built. `code` is a key of `inkplex_data.problems.CODES`."""

    def __init__(
        self, code: str, what: str, *, where: str | None = None, next_step: str | None = None
    ) -> None:
        self.code = code
        super().__init__(what, where=where, next_step=next_step)

    # Exceptions with more than one constructor argument do not survive a process boundary by default.
    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_refusal, (type(self), self.code, self.what, self.where, self.next_step))


def _rebuild_refusal(
    kind: type[CallRefused], code: str, what: str, where: str | None, next_step: str | None
) -> CallRefused:
    return kind(code, what, where=where, next_step=next_step)


class RecordingError(CallRefused):
    """A task recording that contradicts itself or cannot be read."""


class OutputError(InkplexError, OSError):
    """Results cannot be written where they belong: the disk is full (`is_full`), or another process writes there."""

    is_full = False

    def __str__(self) -> str:
        return InkplexError.__str__(self)


class StoreError(InkplexError, OSError):
    """A store that is not there, not ours, or of another format."""

    def __str__(self) -> str:
        return InkplexError.__str__(self)


class StoreCorruptError(StoreError):
    """Stored bytes differ from what was published: a flipped bit, a missing chunk, a truncated shard."""


class Interrupted(InkplexError):
    """Work was stopped from outside, by Ctrl-C or a signal; `next_step` says how it goes on."""

    exit_code = 130


class MachineFault(InkplexError, RuntimeError):
    """The machine stopped the work, not the data: a full disk, no memory, a worker or scheduler that is gone.

    `is_final`: a second try would meet it again.
    """

    exit_code = 130
    is_final = False


class CausalityError(InkplexError, ValueError):
    """A frame would see something before it had arrived, would miss what it should see, or contradicts its words."""


class CheckpointError(InkplexError, ValueError):
    """A checkpoint that cannot be read or does not fit the model, codec, tokenizer or store."""


class MissingLibraryError(InkplexError, ImportError):
    """An optional library is absent; the message names the pip line."""

    exit_code = 2

    def __init__(self, library: str, *, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the Python package {library!r}, which is not installed",
            next_step=f'Install it with `pip install "inkplex-data[{extra}]"`.',
        )
