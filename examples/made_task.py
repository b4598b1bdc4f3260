"""Make the corpus of a made task: calls in which the agent's first word is what a tool has returned.

    python examples/made_task.py OUT --train 28 --validation 12

A caller asks which day it is; meanwhile a scripted reasoning model looks it up; the agent says the day. Nothing
else in a call reveals the day: to say it, a model must read the memory. The voices are buzzing sounds, not speech,
so the corpus needs no synthesiser; it can teach a model to read the memory, but nothing about voices. Some
validation calls have a counterfactual twin, identical until the tool returns another day.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))

from corpus_maker.call import Call, Side, Turn
from corpus_maker.files import write_corpus
from corpus_maker.scene import Scene, assistant
from corpus_maker.studio import Word
from corpus_maker.work import Part, Work

from inkplex_data.clock import SAMPLE_RATE_HZ, us_to_samples

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
"""Their first pieces differ in the small tokenizer."""
FAILED = "Failed."
"""What the agent says where the tool fails."""
WORD_US = 320_000
METHOD = "the script of the made task"


def buzz(words: list[Word], pitch_hz: float, seed: int) -> NDArray[np.float32]:
    """One harmonic sound a word, with a rise and a fall: float32 [n] at 24 kHz, from the first word's start."""
    draw = np.random.default_rng(seed)
    begin, end = words[0].start_us, words[-1].end_us
    samples = np.zeros(us_to_samples(end - begin), np.float64)
    for word in words:
        first, last = us_to_samples(word.start_us - begin), us_to_samples(word.end_us - begin)
        t = np.arange(last - first) / SAMPLE_RATE_HZ
        pitch = pitch_hz * draw.uniform(0.9, 1.1)
        sound = sum(np.sin(2 * np.pi * pitch * k * t) / k for k in range(1, 12))
        samples[first:last] = 0.12 * sound * np.sin(np.pi * t * SAMPLE_RATE_HZ / max(last - first, 1))
    return samples.astype(np.float32)


def say(call: Call, side: Side, text: str, at_us: int, *, pitch_hz: float, seed: int) -> Turn:
    """Put a turn of buzzing words into a call."""
    spelled = text.split()
    words = [
        Word(word, at_us + index * WORD_US, at_us + index * WORD_US + WORD_US - 60_000)
        for index, word in enumerate(spelled)
    ]
    turn = Turn(
        side=side,
        text=text,
        start_us=words[0].start_us,
        end_us=words[-1].end_us,
        planned_end_us=words[-1].end_us,
        words=tuple(words),
        samples=buzz(words, pitch_hz, seed),
    )
    call.turns.append(turn)
    return turn


def made_scene(
    name: str, family: str, split: str, day: str | None, *, seed: int, later_day: str | None = None
) -> Scene:
    """One call and the work behind it. Calls of one seed are the same until the tool returns `day`, or fails where that
    is None. `later_day`: what a second result says, which takes the place of the first before the agent speaks."""
    draw = np.random.default_rng(seed)
    call, work = Call("made", "made"), Work(name)
    scene = Scene(
        id=name, family=family, split=split, role=None, voice=None, call=call, work=work, starts_us=1_000_000
    )
    # Few tokens: what matters is one of thirty here, and one of up to 40,000 in a task that is not made.
    prepared = work.request([Part("setup", "<|start|>system<|message|>Say the day.<|end|>", 0)], 100_000)
    question = say(call, "caller", "Which day?", int(draw.integers(10, 30)) * 10_000, pitch_hz=190, seed=seed)
    asked = scene.heard(question)
    first = work.request([asked, assistant(asked.available_us)], asked.available_us, after=prepared)
    first.generate("tool_call", "get_day<|call|>")
    found_us = first.clock_us + int(draw.integers(5, 25)) * 10_000
    second = work.request([_told(day, found_us)], found_us, after=first)
    found = second.segments["request-2.tool_result"]
    if day is None:
        scene.failed.add(found.id)
    if later_day is not None:
        third = work.request([_told(later_day, second.clock_us)], second.clock_us, after=second)
        scene.superseded[found.id] = "request-3.tool_result"
        found = third.segments["request-3.tool_result"]
    said = later_day or day or FAILED
    scene.response = say(call, "agent", said, scene.after(found, 300_000), pitch_hz=110, seed=seed + 1)
    return scene.finish(tail_us=250_000)


def _told(day: str | None, at_us: int) -> Part:
    return Part("tool_result", f"<|start|>get_day<|message|> {day or 'error'} <|end|>", at_us)


def _days(train: int, validation: int, draw: np.random.Generator) -> Iterator[tuple[int, str, int]]:
    """Number, split and day of each call: every day as often as every other, in an order that tells nothing."""
    for number in range(train + validation):
        if number % len(DAYS) == 0:
            order = draw.permutation(len(DAYS))
        yield number, "train" if number < train else "validation", int(order[number % len(DAYS)])


def branch_scenes(train: int, validation: int, *, seed: int = 0) -> list[Scene]:
    """Calls of every kind of branch. Of seven training calls five are told a day, one is told another afterwards, and of
    one the tool fails; each validation call has a twin of each kind: another day, failed, and superseded."""
    draw = np.random.default_rng(seed)
    scenes = []
    for number, split, day in _days(train, validation, draw):
        own, other, third = (
            DAYS[(day + step) % len(DAYS)] for step in (0, 1 + number % 4, 1 + (number + 1) % 4)
        )
        name, call_seed = f"day-{number:03}", seed * 10_000 + number
        if split == "train":
            kind = number % 7
            scenes.append(
                made_scene(
                    name,
                    name,
                    split,
                    None if kind == 6 else own,
                    seed=call_seed,
                    later_day=other if kind == 5 else None,
                )
            )
            continue
        scenes.append(made_scene(name, name, split, own, seed=call_seed))
        for kind, result, later in (
            ("other", other, None),
            ("failed", None, None),
            ("superseded", own, third),
        ):
            twin = made_scene(f"{name}-{kind}", name, split, result, seed=call_seed, later_day=later)
            # Told the same first, the superseded one differs from the second result on.
            request = twin.work.requests[3 if later else 2]
            twin.work.branch_of = (name, request.tokens[0].arrival_us)
            scenes.append(twin)
    return scenes


def made_scenes(train: int, validation: int, twins: int, *, seed: int = 0) -> list[Scene]:
    """Training calls, then validation calls, of which the first `twins` have a twin of their family."""
    draw = np.random.default_rng(seed)
    scenes = []
    for number, split, day in _days(train, validation, draw):
        name = f"day-{number:03}"
        scene = made_scene(name, name, split, DAYS[day], seed=seed * 10_000 + number)
        scenes.append(scene)
        if train <= number < train + twins:
            other = DAYS[(day + 1 + int(draw.integers(len(DAYS) - 1))) % len(DAYS)]
            twin = made_scene(f"{name}-twin", name, split, other, seed=seed * 10_000 + number)
            fork = scene.work.requests[2].tokens[0]
            twin.work.branch_of = (name, fork.at_us)
            scenes.append(twin)
    return scenes


def write_made_task(
    out: Path, *, train: int = 30, validation: int = 10, twins: int = 4, seed: int = 0, branches: bool = False
) -> Path:
    """Write the corpus under `out`, with twins of every kind where `branches`; returns its manifest."""
    scenes = (
        branch_scenes(train, validation, seed=seed)
        if branches
        else made_scenes(train, validation, twins, seed=seed)
    )
    write_corpus(scenes, out, method=METHOD)
    return out / "manifest.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", type=int, default=30)
    parser.add_argument("--validation", type=int, default=10)
    parser.add_argument("--twins", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    manifest = write_made_task(
        options.out,
        train=options.train,
        validation=options.validation,
        twins=options.twins,
        seed=options.seed,
    )
    print(f"wrote {manifest}")


if __name__ == "__main__":
    main()
