"""The `inkplex-data` command: assembles the groups of verbs and turns errors into exit codes.

Exit codes: 0 all done; 1 failed as a whole; 2 wrong usage or configuration; 3 done, but some calls failed;
130 stopped by Ctrl-C, a signal, or a machine that gave out, and to be gone on with.
"""

from __future__ import annotations

import inspect
import re
import sys

import typer

from inkplex_data import __version__
from inkplex_data.cli import (
    bench,
    build,
    channels,
    check,
    corpus,
    exchange,
    imports,
    look,
    record,
    soma,
    speech,
    stages,
    train,
)
from inkplex_data.cli.interrupts import StoppableVerbs, catch_signals
from inkplex_data.cli.output import NotAnOutput
from inkplex_data.cli.say import complain, fit_streams, say
from inkplex_data.errors import InkplexError
from inkplex_data.machine import machine_fault

EXIT_FAILED = 1
EXIT_PARTLY = 3

app = typer.Typer(
    name="inkplex-data",
    cls=StoppableVerbs,
    help="Turn recorded two-speaker calls, and a reasoning model's recorded work, into training data.\n\n"
    "Start with `inkplex-data demo`, or with your own calls: `inkplex-data build CORPUS -o STORE`, "
    "then `inkplex-data inspect STORE`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        say(f"inkplex-data {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


for group in (
    build,
    speech,
    channels,
    stages,
    check,
    look,
    corpus,
    exchange,
    imports,
    record,
    train,
    soma,
    bench,
):
    group.register(app)


def _unwrap_help(verbs: typer.Typer) -> None:
    """Help is wrapped to the terminal, not where the lines of a docstring happen to end."""
    for command in verbs.registered_commands:
        command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(command.callback) or "")
    for group in verbs.registered_groups:
        if group.typer_instance is not None:
            _unwrap_help(group.typer_instance)


_unwrap_help(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake ends in a sentence and an exit code, never in a traceback."""
    fit_streams()
    catch_signals()
    try:
        app(args=arguments, standalone_mode=True)
    except InkplexError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except NotAnOutput as carried:
        complain(str(carried.error))
        sys.exit(carried.error.exit_code)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone, which is not a failure.
        sys.stderr.close()
        sys.exit(0)
    except (OSError, MemoryError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename:
            text = f"{error.strerror or error}: {error.filename}"
        complain(str(machine_fault(error) or text))
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
