"""How well soma's scores find what is wrong with transcripts: 100 made calls, of which some are spoiled, each in a known way.

    python benchmarks/soma_scores.py [--bands 4] [--calls 100] [--spoiled 3]

One model reads the store once, spoiled calls and all, and then scores it. Printed for each way of spoiling: the ranks of its
calls by distance from the median, and the area under the ROC curve of that distance against the calls that are not spoiled. The
baseline, measured on the same calls, is the distance of the mean length of their words.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from train_tokenizer import FOLDER, SEED, fillers, read_classes, read_lines

from inkplex_data.soma.app.corpora import open_corpus
from inkplex_data.soma.app.made_learner import made_learner
from inkplex_data.soma.app.train_run import TrainOptions, train_pass
from inkplex_data.soma.score_store import score_store
from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.reader import open_store
from inkplex_data.text_scores import call_surprise
from tests.soma.dialogues import dialogue_part
from tests.store.made import add_calls, make_store

Said = list[tuple[str, str]]
"""(speaker, word) in order."""
AGENT, CALLER = "SPEAKER_MAIN", "SPEAKER_OTHER"
TURNS = 14
GERMAN = (
    "Guten Tag, wie kann ich Ihnen heute helfen? Ich habe ein Problem mit meiner letzten Rechnung. Einen Augenblick bitte, ich sehe "
    "gleich nach. Der Betrag wurde zweimal von meinem Konto abgebucht, und das war nicht vereinbart. Das tut mir wirklich leid, wir "
    "überweisen Ihnen das Geld in den nächsten Tagen zurück. Vielen Dank, das wäre sehr freundlich von Ihnen. Haben Sie sonst noch "
    "eine Frage? Nein, das war alles für heute, auf Wiederhören."
)


def made_call(rng: random.Random) -> Said:
    """A service call in which both sides speak of the same few things: each slot has two values in a call."""
    fill = fillers(rng, read_classes(FOLDER / "words.txt"))
    values = {name: [draw() for _ in range(2)] for name, draw in fill.items()}
    lines = read_lines(FOLDER / "lines.txt")
    chosen = [rng.choice(lines[:4]), *rng.sample(lines[4:], TURNS - 1)]
    said = []
    for number, line in enumerate(chosen):
        for name, pair in values.items():
            while f"{{{name}}}" in line:
                line = line.replace(f"{{{name}}}", rng.choice(pair), 1)  # noqa: PLW2901
        said += [((AGENT, CALLER)[number % 2], word) for word in line.split()]
    return said


def shuffled(call: Said, other: Said, rng: random.Random) -> Said:
    words = [word for _, word in call]
    rng.shuffle(words)
    return [(speaker, word) for (speaker, _), word in zip(call, words, strict=True)]


def german(call: Said, other: Said, rng: random.Random) -> Said:
    sentences = GERMAN.split(". ")
    rng.shuffle(sentences)
    words = ". ".join(sentences).split() * 4
    return [(speaker, word) for (speaker, _), word in zip(call, words, strict=False)]


def repeated(call: Said, other: Said, rng: random.Random) -> Said:
    words = ["Thank", "you", "for", "watching."] * len(call)
    return [(speaker, word) for (speaker, _), word in zip(call, words, strict=False)]


def of_another_call(call: Said, other: Said, rng: random.Random) -> Said:
    """The whole transcript is that of another call of the store, which has it too."""
    return other


def of_another_store(call: Said, other: Said, rng: random.Random) -> Said:
    """The transcript of a call of examples/corpus."""
    paths = sorted((FOLDER.parent / "corpus" / "calls").glob("*.json"))
    path = rng.choice([path for path in paths if not path.name.endswith(".sidecar.json")])
    words = json.loads(path.read_text())["alignments"]
    return [(AGENT if speaker == AGENT else CALLER, word) for word, _, speaker in words]


def agent_of_another(call: Said, other: Said, rng: random.Random) -> Said:
    """The agent's words are those of another call of the store; the caller's are the call's own."""
    foreign = iter([word for speaker, word in other if speaker == AGENT] * 3)
    return [(speaker, next(foreign) if speaker == AGENT else word) for speaker, word in call]


SPOILED: dict[str, Callable[[Said, Said, random.Random], Said]] = {
    "shuffled words": shuffled,
    "wrong language": german,
    "one phrase": repeated,
    "another store": of_another_store,
    "another call": of_another_call,
    "another agent": agent_of_another,
}


def made_calls(count: int, spoiled: int, rng: random.Random) -> dict[str, Said]:
    """Calls by id, which begins with how the call was spoiled."""
    calls = [made_call(rng) for _ in range(count)]
    ways = [way for way in SPOILED for _ in range(spoiled)]
    places = dict(zip(rng.sample(range(count), len(ways)), ways, strict=True))
    whole = [number for number in range(count) if number not in places]
    named: dict[str, Said] = {}
    twins: list[int] = []
    for number, call in enumerate(calls):
        way = places.get(number)
        other = rng.choice(whole)
        said = call if way is None else SPOILED[way](call, calls[other], rng)
        named[f"{way or 'whole'} {number:03}"] = said
        if way == "another call":
            twins.append(other)
    # A transcript that two calls have is strange in both: the one that it is of counts for neither side.
    return {f"twin {name[-3:]}" if int(name[-3:]) in twins else name: said for name, said in named.items()}


def made_store(root: Path, calls: dict[str, Said]) -> None:
    """A store of these words, 300 ms each."""
    made = make_store(root)
    add_calls(made, 100, [dialogue_part(call_id, said) for call_id, said in calls.items()])
    publish_snapshot(root)


def auc(spoiled: np.ndarray, whole: np.ndarray) -> float:
    """How often a spoiled call lies farther out than a whole one; a tie counts half."""
    return float((np.sign(spoiled[:, None] - whole[None]) / 2 + 0.5).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="AUC of soma's scores for spoiled transcripts.")
    parser.add_argument("--bands", type=int, default=4)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--spoiled", type=int, default=3, help="calls spoiled in each way")
    parser.add_argument(
        "--read-first", type=Path, nargs="*", default=[], help="text that the model reads before"
    )
    options = parser.parse_args()
    calls = made_calls(options.calls, options.spoiled, random.Random(SEED))
    tokenizer = SomaTokenizer.load()
    with tempfile.TemporaryDirectory() as folder:
        root, model = Path(folder) / "store", Path(folder) / "model.pt"
        made_store(root, calls)
        learner = made_learner(model, {"bands": options.bands}, decimation=0.0)
        begun_s = time.perf_counter()
        for sources in ([str(path) for path in options.read_first], [str(root)]):
            if sources:
                with open_corpus(sources) as corpus:
                    if sources == [str(root)]:
                        corpus.documents[:] = [
                            d for d in corpus.documents if getattr(d, "call_id", None) in calls
                        ]
                    told = train_pass(
                        learner, model, corpus, tokenizer, TrainOptions(1e9), tell=lambda *_: None
                    ).figures
                    print(
                        f"read {told.source_bytes:,} bytes at {told.bits_per_byte:.3f} bits/byte "
                        f"in {time.perf_counter() - begun_s:.0f} s"
                    )
        with open_store(root) as store:
            scores = score_store(learner, store, tokenizer)
    found = call_surprise(scores.filter(pl.col("call_id").is_in(list(calls))))
    away = dict(zip(found["call_id"], found["deviation"].abs(), strict=True))
    lengths = {name: float(np.mean([len(word) for _, word in said])) for name, said in calls.items()}
    middle = float(np.median(list(lengths.values())))
    baseline = {name: abs(length - middle) for name, length in lengths.items()}
    signed = dict(zip(found["call_id"], found["deviation"], strict=True))
    order = sorted(calls, key=lambda name: -away[name])
    for way in SPOILED:
        named = [name for name in calls if name.startswith(way)]
        ranks = ", ".join(str(order.index(name) + 1) for name in named)
        print(f"{way:15} deviations {', '.join(f'{signed[name]:+.1f}' for name in named)}")
        print(
            f"{way:15} AUC {_auc(away, named):.3f} (word length {_auc(baseline, named):.3f})  ranks {ranks} of {len(calls)}"
        )
    everything = [name for name in calls if not name.startswith(("whole", "twin"))]
    print(f"{'all':15} AUC {_auc(away, everything):.3f} (word length {_auc(baseline, everything):.3f})")


def _auc(away: dict[str, float], named: list[str]) -> float:
    whole = np.array([value for name, value in away.items() if name.startswith("whole")])
    return auc(np.array([away[name] for name in named]), whole)


if __name__ == "__main__":
    main()
