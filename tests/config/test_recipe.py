"""Recipes: found by name or path, overridden, and all faults told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.config.augment import AugmentConfig
from inkplex_data.config.recipe import Recipe, load_recipe, recipe_names
from inkplex_data.errors import ConfigError
from inkplex_data.trainer.run.train_config import load_train_recipe


def test_every_shipped_recipe_loads() -> None:
    assert "demo" in recipe_names()
    for name in recipe_names():
        assert load_recipe(name).name == name


def test_the_recipes_of_moshi_and_personaplex_say_what_their_sources_do() -> None:
    """seeds/002, stages 2 to 4, and the caller's augmentation of stage 5."""
    simulated, fisher, personaplex = map(load_recipe, ("moshi_simulated", "moshi_fisher", "personaplex"))
    assert (simulated.audio.mono, simulated.audio.main_speaker) == ("diarize", "random")
    assert (simulated.audio.inactive, simulated.text.delay_s, simulated.augment) == ("zero", 0.0, None)
    assert fisher.audio.swap_roles and fisher.words.source == "whisper" and fisher.augment is None
    assert personaplex.prefix is not None and personaplex.augment == AugmentConfig()
    single = load_recipe("moshi_single")
    assert single.audio.streams == "single" and single.augment is not None
    assert (single.augment.text_delay_s, single.augment.text_mask, single.augment.text_mask_unit) == (
        0.6,
        0.3,
        "piece",
    )
    assert fisher.words.whisper == load_recipe("moshi_stereo").words.whisper == ("medium", "packaged:tiny.en")
    assert single.words.whisper == simulated.words.whisper == ("large-v3", "packaged:tiny.en")


def test_all_faults_of_a_file_are_told_together(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("codec: {id: 3}\ntext: {polcy: kyutai}\nsplits: {validation: 2}\n")
    with pytest.raises(ConfigError) as caught:
        load_recipe(str(path))
    assert len(caught.value.faults) == 3
    for part in ("bad.yaml", "codec.id", "text.polcy", "splits.validation", "got 2"):
        assert part in str(caught.value)


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "!!python/object/apply:os.system ['true']"])
def test_what_is_no_recipe_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"bad\.yaml"):
        load_recipe(str(path))


def test_the_digest_covers_what_changes_the_bytes_and_not_the_name() -> None:
    recipe = Recipe()
    assert recipe.digest() == Recipe(name="other").digest()
    assert load_recipe(None, {"codec.id": "untrained:1"}).digest() != recipe.digest()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="demo"):
        load_recipe("demoo")


@pytest.mark.parametrize("name", ["demo", "train_stage1"])
def test_a_recipe_is_found_by_its_name_whatever_lies_beside(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    load = load_recipe if name == "demo" else load_train_recipe
    Path(name).mkdir()
    assert load(name).name == name
    with pytest.raises(ConfigError, match=rf"'\./{name}' is a folder, not a"):
        load(f"./{name}")
    Path(name).rmdir()
    Path(name).write_text("name: own\nmodel: {weights: seeded:1}\n" if name != "demo" else "name: own\n")
    assert (load(name).name, load(f"./{name}").name) == (name, "own")
    with pytest.raises(ConfigError, match=f"there is no .*recipe file '{name}.yaml'"):
        load(f"{name}.yaml")
