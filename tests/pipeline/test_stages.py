"""No stage can be stale: all that can change its result is in its stamp, and nothing else makes it work again."""

from __future__ import annotations

import dataclasses
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from pydantic import BaseModel

from inkplex_data.audio.call_audio import ChannelRef, open_files, resolve_channels
from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import Clip
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.sidecars.model_check import ReadModel
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.pipeline.calls.agent_side import AGENT_SIDE, AgentSideJob
from inkplex_data.pipeline.calls.build_call import CALL, CallJob, MemoryRef
from inkplex_data.pipeline.calls.clip_files import ClipJob
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import SCAN, ScanJob
from inkplex_data.pipeline.calls.speech_check import SpeechCheckJob
from inkplex_data.pipeline.calls.spoken_words import SpokenWordsJob
from inkplex_data.pipeline.calls.two_streams import TWO_STREAMS, TwoStreamsJob
from inkplex_data.pipeline.ledger import Ledger
from inkplex_data.pipeline.planning.prefix_voices import PrefixPlan, VoiceSample
from inkplex_data.pipeline.prefixes import PREFIX, PrefixJob
from inkplex_data.pipeline.recipe_keys import FILE_KEYS, RecipeKeys, recipe_files, recipe_value
from inkplex_data.pipeline.recordings import RECORDING, FoundRecording, RecordingJob
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.stage import Build, Job, Stage
from inkplex_data.pipeline.stages import STAGES, stage_named
from tests.pipeline.conftest import tree, voice, write_call, write_manifest
from tests.quick_codec import QUICK

FULL = {
    "codec.id": QUICK,
    "memory.capture": {},
    "check_speech": {},
    "augment": {"noise": {"folder": "noise"}},
}
"""Every section of a recipe switched on."""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two calls of one voice, the second with a sidecar, a recording and turns beside a one-channel file."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for seed, name in enumerate(("one", "two")):
        write_call(folder, name, seed)
    soundfile.write(folder / "mono.wav", voice(5, 2.0, 150), 24_000, subtype="PCM_16")
    (folder / "mono.rttm").write_text(
        "SPEAKER mono 1 0.0 1.0 <NA> <NA> A <NA> <NA>\nSPEAKER mono 1 1.0 1.0 <NA> <NA> B <NA> <NA>\n"
    )
    (folder / "two.sidecar.json").write_text(
        '{"schema": "inkplex/sidecar@1", "identity": {"clip_id": "two"}}'
    )
    (folder / "task.recording.jsonl").write_text(
        '{"schema": "inkplex/recording@1", "recording": "task"}\n'
        '{"call": 0, "cached": null, "tokens": [{"id": 5, "kind": "user", "text": " a", "at": 1.0}]}\n'
    )
    return write_manifest(
        folder,
        [
            {"id": "one", "path": "one.wav", "voice": "amy", "split": "train", "family": "one"},
            {
                "id": "two",
                "path": "two.wav",
                "voice": "amy",
                "split": "train",
                "family": "two",
                "sidecar": "two.sidecar.json",
                "recording": "task.recording.jsonl",
                "recording_starts_at": 0.5,
            },
        ],
    )


def build_of(corpus: Path, recipe: Recipe) -> Build:
    return Build(recipe, corpus.parent.parent / "store", corpus.parent, recipe_files(recipe))


def mono_job(folder: Path, build: Build) -> TwoStreamsJob:
    return TwoStreamsJob(
        build=build,
        call_id="mono",
        audio=folder / "mono.wav",
        channel=ChannelRef(open_audio(folder / "mono.wav")),
        sidecar=folder / "two.sidecar.json",
        turns=folder / "mono.rttm",
        swapped=False,
        source="mono.wav",
    )


def sample_jobs(corpus: Path, build: Build) -> dict[str, Job]:
    """One job of each stage, with something in every field."""
    folder = corpus.parent
    entry = read_corpus(corpus).entries[1]
    given = CallInput(entry, folder / "mono.rttm")
    scanned = ScanJob(build=build, given=given)
    text = CallText.of(entry)
    return {
        "clips": ClipJob(
            build=build, entry=dataclasses.replace(entry, clip=Clip(0, 500_000)), turns=folder / "mono.rttm"
        ),
        "two-streams": mono_job(folder, build),
        "agent-side": AgentSideJob(build=build, text=text, files=open_files(entry.audio), transcribe=True),
        "spoken-words": SpokenWordsJob(
            build=build,
            entry=entry,
            audio=resolve_channels(entry.audio),
            text=folder / "two.json",
            rule=text.rule,
        ),
        "speech-check": SpeechCheckJob(
            build=build,
            call_id="two",
            audio=resolve_channels(folder / "two.wav"),
            audio_sha256="0",
            channel=("two.wav", 0),
            is_single=False,
            words=(TimedWord("a", 0, 1, "SPEAKER_MAIN", 0.5, "given"),),
        ),
        "scan": scanned,
        "recordings": RecordingJob(build=build, path=folder / "task.recording.jsonl"),
        "prefixes": PrefixJob(
            build=build,
            plan=PrefixPlan("p", VoiceSample("amy", "train", "two", "x.wav", 0, 80_000), "Be kind."),
            source=given,
            voice_file=folder / "one.wav",
        ),
        "encode": CallJob(
            build=build,
            scanned=scanned,
            scan=SCAN.perform(scanned),
            call_ix=0,
            family="two",
            split="train",
            prefix_id="p",
            memory=MemoryRef("task", folder, "0", ReadModel("m", "t", 3, files=("f",))),
        ),
    }


@pytest.fixture
def full(corpus: Path) -> Build:
    return build_of(corpus, load_recipe(None, FULL))


def test_stages_stand_in_the_order_of_the_data() -> None:
    names = [stage.name for stage in STAGES]
    assert len(set(names)) == len(names)
    for stage in STAGES:
        assert stage_named(stage.name) is stage
        assert pickle.loads(pickle.dumps(stage.perform)).__self__ is stage
        assert all(names.index(before.name) < names.index(stage.name) for before in stage.after)


def test_every_field_of_a_job_is_in_its_stamp(corpus: Path, full: Build) -> None:
    jobs = sample_jobs(corpus, dataclasses.replace(full, recipe=load_recipe(None, {"codec.id": QUICK})))
    assert list(jobs) == [stage.name for stage in STAGES]
    for stage in STAGES:
        job = jobs[stage.name]
        before = stage.stamp(job)
        assert before == stage.stamp(job)
        changes = list(changed(job))
        assert changes
        for place, other in changes:
            assert stage.stamp(other) != before, f"{stage.name} does not stamp {place}"


def changed(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """`value` with each of its fields changed in turn, however deep it lies."""
    for field in dataclasses.fields(value):
        if not field.compare:
            continue
        inner, at = getattr(value, field.name), f"{place}.{field.name}"
        if dataclasses.is_dataclass(inner):
            for deep, other in changed(inner, at):
                yield deep, dataclasses.replace(value, **{field.name: other})
        else:
            yield at, dataclasses.replace(value, **{field.name: another(inner)})


def another(value: Any) -> Any:
    if isinstance(value, Path):
        return value.with_name("another")
    return [value, "another"]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_exactly_the_declared_recipe_keys_are_in_a_stamp_and_can_be_read(corpus: Path, full: Build) -> None:
    jobs = sample_jobs(corpus, dataclasses.replace(full, recipe=load_recipe(None, {"codec.id": QUICK})))
    leaves = list(leaf_keys(full.recipe))
    assert "text.delay_s" in leaves and "augment.seed" in leaves
    for stage in STAGES:
        job = dataclasses.replace(jobs[stage.name], build=full)
        before = stage.stamp(job)
        view = RecipeKeys(full.recipe, stage.recipe_keys, stage=stage.name)
        for key in leaves:
            other = dataclasses.replace(full, recipe=with_value(full.recipe, key, "another"))
            is_declared = any(key == own or key.startswith(f"{own}.") for own in stage.recipe_keys)
            assert (stage.stamp(dataclasses.replace(job, build=other)) != before) == is_declared, (
                stage.name,
                key,
            )
            if is_declared:
                assert recipe_value(view, key) == recipe_value(full.recipe, key)
            else:
                with pytest.raises(RuntimeError, match="does not declare it"):
                    recipe_value(view, key)


def leaf_keys(section: BaseModel, at: str = "") -> Iterator[str]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from leaf_keys(value, f"{at}{name}.")
        else:
            yield f"{at}{name}"


def with_value(section: Any, key: str, value: Any) -> Any:
    first, _, rest = key.partition(".")
    return section.model_copy(
        update={first: with_value(getattr(section, first), rest, value) if rest else value}
    )


def test_files_that_a_recipe_names_are_in_the_stamps_of_the_stages_that_read_them(
    corpus: Path, tmp_path: Path
) -> None:
    """A model, a noise recording or a voice that is replaced under the same name is another one."""
    noise = tmp_path / "noise"
    noise.mkdir()
    (noise / "a.wav").write_bytes(b"1")
    model = tmp_path / "model.bin"
    model.write_bytes(b"1")
    named = {key: str(model) for key in FILE_KEYS if key not in ("augment.noise.folder", "prefix.voices")}
    named |= {"audio.bandwidth": f"{model}:widen"}
    named |= {"augment.noise.folder": str(noise), "prefix.voices": {"v": str(model)}}  # type: ignore[dict-item]
    recipe = load_recipe(None, {**FULL, **named})
    jobs = sample_jobs(corpus, build_of(corpus, load_recipe(None, {"codec.id": QUICK})))
    for written in (model, noise / "b.wav"):
        before = recipe_files(recipe)
        assert set(before) == set(FILE_KEYS)
        written.write_bytes(b"22")
        after = recipe_files(recipe)
        touched = {key for key in FILE_KEYS if before[key] != after[key]}
        assert ("augment.noise.folder" in touched) == (written.parent == noise) and touched
        for stage in STAGES:
            old, new = (
                stage.stamp(
                    dataclasses.replace(
                        jobs[stage.name],
                        build=dataclasses.replace(build_of(corpus, recipe), recipe_files=found),
                    )
                )
                for found in (before, after)
            )
            reads = any(
                key == own or key.startswith(f"{own}.") for own in stage.recipe_keys for key in touched
            )
            assert (old != new) == reads, (stage.name, touched)


OPENED: list[str] = []
"""What the interpreter opens while a test watches."""
_watching = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event == "open" and isinstance(arguments[0], str | os.PathLike):
        OPENED.append(os.fspath(arguments[0]))


sys.addaudithook(_hook)


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Names of the files that are opened from here on."""
    global _watching  # noqa: PLW0603 - a hook of the interpreter cannot be taken out again
    OPENED.clear()
    _watching = True
    yield OPENED
    _watching = False


def real_jobs(corpus: Path) -> dict[str, tuple[Stage[Any, Any], Callable[[], Job]]]:
    """Jobs that are cheap to do for real, each made anew from the corpus as it lies there."""
    unsure = {"audio.agent": "auto", "audio.agent_confidence": 0.5}
    build = build_of(corpus, load_recipe(None, {"codec.id": QUICK, **unsure}))
    folder = corpus.parent
    entries = {entry.call_id: entry for entry in read_corpus(corpus).entries}
    two = CallInput.of(entries["two"])
    task = RecordingJob(build=build, path=folder / "task.recording.jsonl")

    def encode() -> Job:
        found: FoundRecording = RECORDING.perform(task)
        scanned = ScanJob(build=build, given=two)
        return CallJob(
            build=build,
            scanned=scanned,
            scan=SCAN.perform(scanned),
            call_ix=0,
            family="two",
            split="train",
            prefix_id=None,
            memory=MemoryRef("task", RECORDING.folder(task), found.sha256, found.read_model()),
        )

    voice_plan = PrefixPlan("p", VoiceSample("amy", "train", "two", None, 0, 400_000), None)
    return {
        "two-streams": (
            TWO_STREAMS,
            lambda: mono_job(folder, build),
        ),
        "agent-side": (
            AGENT_SIDE,
            lambda: AgentSideJob(
                build=build,
                text=CallText.of(two.entry),
                files=open_files(two.entry.audio),
                transcribe=False,
            ),
        ),
        "scan": (SCAN, lambda: ScanJob(build=build, given=two)),
        "recordings": (RECORDING, lambda: task),
        "prefixes": (
            PREFIX,
            lambda: PrefixJob(build=build, plan=voice_plan, source=two, voice_file=None),
        ),
        "encode": (CALL, encode),
    }


def paths_in(value: Any) -> set[Path]:
    """Every path in the fields of a job that its stamp covers."""
    if isinstance(value, Path):
        return {value}
    if dataclasses.is_dataclass(value):
        return set().union(
            *(paths_in(getattr(value, field.name)) for field in dataclasses.fields(value) if field.compare)
        )
    return set().union(*map(paths_in, value)) if isinstance(value, list | tuple) else set()


@pytest.mark.parametrize("name", ["two-streams", "agent-side", "scan", "recordings", "prefixes", "encode"])
def test_a_stage_opens_no_file_of_the_corpus_that_it_does_not_stamp(
    name: str, corpus: Path, opened: list[str]
) -> None:
    stage, make = real_jobs(corpus)[name]
    job = make()
    opened.clear()
    stage.perform(job)
    inside = {path for path in map(Path, opened) if path.is_relative_to(corpus.parent)}
    stamped = paths_in(job)
    if isinstance(job, CallJob):
        stamped.add(corpus.parent / "task.recording.jsonl")  # its digest stands for it
    assert inside and inside <= stamped, f"{sorted(inside - stamped)} are read and not in the stamp"


@pytest.mark.parametrize("name", ["two-streams", "agent-side", "scan", "recordings", "prefixes", "encode"])
def test_each_input_changed_is_redone_and_nothing_else_is(
    name: str, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Change nothing, see nothing redone; touch each file in turn, see the stage redone."""
    made: list[str] = []
    real = Ledger.result

    def counted(self: Ledger, kind: str, key: str, stamp: str) -> Any:
        made.append(kind)
        return real(self, kind, key, stamp)

    stage, make = real_jobs(corpus)[name]
    first = make()
    stage.perform(first)
    monkeypatch.setattr(Ledger, "result", counted)
    stage.perform(make())
    assert made == []
    files = {path for path in paths_in(first) if path.is_relative_to(corpus.parent)}
    assert files
    for path in sorted(files):
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000))
        made.clear()
        stage.perform(real_jobs(corpus)[name][1]())
        assert stage.name in made, f"{path.name} was replaced, and {name} did not notice"
        made.clear()
        stage.perform(real_jobs(corpus)[name][1]())
        assert made == []


def test_a_voice_that_is_replaced_between_two_runs_gives_another_prefix(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prefix is cut from another call's audio; a run that was stopped after it must not keep the old voice."""
    from inkplex_data.pipeline import run

    recipe = load_recipe(None, {"codec.id": QUICK, "prefix.role": False})

    def stopped(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(run, "CallShards", stopped)
        build_store(corpus, tmp_path / "store", recipe=recipe, workers=1)
    samples, rate_hz = soundfile.read(corpus.parent / "one.wav", dtype="int16")
    soundfile.write(corpus.parent / "one.wav", np.roll(samples, 480, axis=0), rate_hz, subtype="PCM_16")
    build_store(corpus, tmp_path / "store", recipe=recipe, workers=1)
    build_store(corpus, tmp_path / "fresh", recipe=recipe, workers=1)
    assert tree(tmp_path / "store") == tree(tmp_path / "fresh")
