"""YAML of recipes and options: every fault is one of configuration, told with its place, and at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inkplex_data.cli.key_value import key_values
from inkplex_data.config.recipe import load_recipe
from inkplex_data.config.yamltext import MOST_BYTES, parse_yaml, read_yaml
from inkplex_data.errors import ConfigError, UsageError

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 200))

FAULTS = [
    (BOMB, r"alias \(\*a0\) at line 2"),
    ("<<: {a: 1}\n<<: {b: 2}", "twice"),
    ("text:\n  delay_s: 0.1\n  delay_s: 0.2", "'delay_s' twice, again at line 3, column 3"),
    ("[" * 50_000, "nested more than 20 levels"),
    ("- " * 50_000, "nested more than 20 levels"),
    ("a: !!python/object/apply:os.system [x]", r"tag \(.*\) at line 1, column 4"),
    ("a: !!int '1'", "tag"),
    ("a: " + "9" * 5_000, "more than 40 digits"),
    ("a: 1:" + "59:" * 2_000 + "59", "more than 40 digits"),
    ("a: 2024-02-31", "cannot be read as YAML"),
    ("a: 0x_", "cannot be read as YAML"),
    ('a: "\\ud800"', "half a surrogate pair"),
    ("a: [1, 2", "is not YAML"),
    ("a: 1\n---\nb: 2", "is not YAML"),
    ("a: \x00", "is not YAML"),
    ("? [a]\n: 1\n", "is not YAML"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_faults_are_those_of_configuration(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        parse_yaml(text, where="recipe.yaml")
    assert str(refused.value).startswith("recipe.yaml: ")
    assert len(str(refused.value)) < 500
    with pytest.raises(UsageError, match=f"--set key takes a value as YAML spells it; this .*{message}"):
        key_values("--set", [f"key={text}"])
    (tmp_path / "own.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError, match=r"own\.yaml"):
        load_recipe(str(tmp_path / "own.yaml"))


def test_plain_values_pass(tmp_path: Path) -> None:
    text = "a: [1, 2.5, true, null, x]\nid: '" + "1" * 64 + "'\nb: {c: &anchor d}\n"
    assert parse_yaml(text) == {"a": [1, 2.5, True, None, "x"], "id": "1" * 64, "b": {"c": "d"}}
    (tmp_path / "mark.yaml").write_bytes(b"\xef\xbb\xbfname: x\n")
    assert read_yaml(tmp_path / "mark.yaml") == {"name": "x"}
    (tmp_path / "empty.yaml").write_bytes(b"")
    assert read_yaml(tmp_path / "empty.yaml") == {}


def test_what_is_no_small_text_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (MOST_BYTES + 1))
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    for name, message in (("pipe", "pipe"), ("large", "larger than"), ("latin", "UTF-8 at byte 9")):
        with pytest.raises(ConfigError, match=message):
            read_yaml(tmp_path / f"{name}.yaml")


def test_a_key_of_many_parts_is_no_key() -> None:
    with pytest.raises(ConfigError, match="no key of 5000 parts"):
        load_recipe(None, {".".join(["a"] * 5_000): 1})
