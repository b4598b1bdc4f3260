"""Where results go: a local folder of any name, and no URL, for every verb that writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.main import get_command

from inkplex_data.cli.app import app, main
from inkplex_data.errors import UsageError
from inkplex_data.output_path import output_path
from inkplex_data.store.files import open_files
from inkplex_data.store.parquet import TableReader, TableWriter


def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, child in getattr(command, "commands", {}).items():
        yield from verbs(child, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


WRITING = {
    path: sum(parameter.param_type_name == "argument" and parameter.required for parameter in verb.params)
    for path, verb in verbs(get_command(app))
    if any("-o" in parameter.opts for parameter in verb.params)
}


NEEDED = {("crop",): ("--from", "0", "--to", "1"), ("soma", "score"): ("-m", "m.pt")}
"""Options without which a verb does not begin."""


def test_the_verbs_that_write_are_found() -> None:
    assert len(WRITING) == 25 and WRITING["import", "states"] == 2


@pytest.mark.parametrize("verb", WRITING, ids=" ".join)
@pytest.mark.parametrize("url", ["s3://bucket/store", "https://host/x.npy"])
def test_a_url_is_refused_before_any_work(
    verb: tuple[str, ...],
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main([*verb, *["nowhere"] * WRITING[verb], *NEEDED.get(verb, ()), "-o", url])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert f"{url}: this is a URL" in said and "→ Name a local folder" in said
    assert not list(tmp_path.iterdir())


def test_what_is_a_url_and_what_is_a_folder_with_a_colon() -> None:
    assert output_path("run-2024-05-01T10:30/store") == Path("run-2024-05-01T10:30/store")
    assert output_path("2024:/x") == Path("2024:/x")
    assert output_path("file:///tmp/x") == Path("/tmp/x") and output_path("file://x") == Path("x")
    for url in ("s3://bucket/store", "memory://x", Path("s3://bucket/store")):
        with pytest.raises(UsageError, match="is a URL"):
            output_path(url)
    with pytest.raises(UsageError, match="no name"):
        output_path("file://")


@pytest.mark.parametrize("name", ["run-10:30", "a::b", "caf\udce9"])
def test_tables_are_written_and_read_in_a_folder_of_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir()
    with TableWriter(Path(name) / "x.parquet", {"a": pl.Int64()}) as writer:
        writer.write(pl.DataFrame({"a": [1, 2]}))
    assert TableReader(open_files(name), "x.parquet").read()["a"].to_list() == [1, 2]
