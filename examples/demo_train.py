"""From nothing to a model that reads its memory, on a CPU: corpus, store, training, and the comparison that matters.

    python examples/demo_train.py                     everything, in out/demo-train; a rerun continues where it stopped
    python examples/demo_train.py --train 12 --set data.passes=4     smaller
    python examples/demo_train.py --branches          does it say what it could know, when it could know it?

The agent of the made task (examples/made_task.py) says the day that a tool has returned. The script trains the
memory writer and readers on a frozen, untrained speech model and prints the loss of first pieces with the call's own
memory, with another task's, and with none. It exits with 1 unless own memory is better than both by a margin
whose lower bound, from a bootstrap over families, is above zero.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))

from made_task import write_made_task

from inkplex_data.config.recipe import load_recipe
from inkplex_data.errors import InkplexError
from inkplex_data.pipeline.progress import reporter_for
from inkplex_data.pipeline.run import build_store
from inkplex_data.store.reader import open_store
from inkplex_data.torch_settings import torch_threads
from inkplex_data.trainer.evaluate.evaluate import Evaluation, evaluate, write_evaluation
from inkplex_data.trainer.evaluate.generate import Generator
from inkplex_data.trainer.evaluate.render import store_codec
from inkplex_data.trainer.evaluate.replay import ReplayOptions
from inkplex_data.trainer.grounding.ground import Grounding, ground, write_grounding
from inkplex_data.trainer.run.logs.run_progress import ProgressLine
from inkplex_data.trainer.run.loop import train
from inkplex_data.trainer.run.run_files import load_trained
from inkplex_data.trainer.run.run_options import RunOptions
from inkplex_data.trainer.run.train_config import load_train_recipe

FREE_SECONDS = 3.2
DELAY_US = 800_000
SPEAKS: dict[str, object] = {
    "data.passes": 20,
    "objective.weights.epad": 1.0,
    "objective.weights.pad": 0.1,
    "objective.weights.acoustic": 0.0,
    "objective.weights.semantic": 0.01,
    "checks": None,
}
"""Of the second run of `--branches`: when to begin to speak counts as much as what is said, or free speech stays silent."""

WINDOW = 4
"""Live tokens of the memory. With so few to search through, minutes are enough; a real task has 40,000."""


def run_demo(
    out: Path,
    *,
    train_calls: int = 30,
    validation_calls: int = 10,
    twins: int = 4,
    settings: dict[str, object] | None = None,
    workers: int | None = 1,
) -> Evaluation:
    """All steps in the folder `out`; those that are done are not done again."""
    manifest = out / "corpus" / "manifest.jsonl"
    if not manifest.is_file():
        fresh = out / "corpus.new"
        shutil.rmtree(fresh, ignore_errors=True)
        write_made_task(fresh, train=train_calls, validation=validation_calls, twins=twins)
        fresh.rename(out / "corpus")
    reporter = reporter_for()
    summary = build_store(
        manifest,
        out / "store",
        recipe=load_recipe("demo", {"memory.window": WINDOW}),
        workers=workers,
        reporter=reporter,
    )
    reporter.finish()
    print(summary.text())
    with torch_threads(1):  # so small a model gains nothing from sharing its sums
        trained = train(
            load_train_recipe("train_demo", settings),
            out / "store",
            out / "run",
            RunOptions(device="cpu", workers=1, allow_untrained_codec=True, resume=True),
            ProgressLine(),
        )
        with open_store(out / "store") as store:
            model = load_trained(trained.checkpoint, store, split="validation")
            found = evaluate(model, store, split="validation")
    write_evaluation(out / "evaluation", found, about={"checkpoint": str(trained.checkpoint)})
    return found


def run_branches(
    out: Path, *, train_calls: int = 28, validation_calls: int = 4, workers: int | None = 1
) -> Grounding:
    """The made task with every kind of branch: trained as `run_demo` does, then on when to speak, then judged."""
    manifest = out / "corpus" / "manifest.jsonl"
    if not manifest.is_file():
        fresh = out / "corpus.new"
        shutil.rmtree(fresh, ignore_errors=True)
        write_made_task(fresh, train=train_calls, validation=validation_calls, branches=True)
        fresh.rename(out / "corpus")
    reporter = reporter_for()
    recipe = load_recipe("demo", {"memory.window": WINDOW})
    build_store(manifest, out / "store", recipe=recipe, workers=workers, reporter=reporter)
    reporter.finish()
    begin = None
    with torch_threads(1):
        for name, settings in (("run", {"data.passes": 30}), ("speaks", SPEAKS)):
            options = RunOptions(
                device="cpu", workers=1, allow_untrained_codec=True, resume=True, begin_from=begin
            )
            train(
                load_train_recipe("train_demo", settings), out / "store", out / name, options, ProgressLine()
            )
            begin = out / name
        with open_store(out / "store") as store:
            model = load_trained(out / "speaks", store, split="validation")
            generator = Generator(model, store, store_codec(store), ReplayOptions(seconds=FREE_SECONDS))
            # Twins are branches of these calls; as calls of their own they would only say the same again.
            calls = [f"day-{number:03}" for number in range(train_calls, train_calls + validation_calls)]
            found = ground(generator, calls=calls, delay_us=DELAY_US)
    write_grounding(out / "grounding", found, about={"checkpoint": str(out / "speaks")}, more={})
    return found


def grounded(found: Grounding) -> bool:
    """Whether the trained model is above every other but the oracle, which is always right, with bounds above zero."""
    both = found.summary.filter(kind="both")
    bounds = both.filter(~both["system"].is_in(["trained", "oracle"]))["trained_minus_lower"]
    return bool((bounds > 0).all()) and both.filter(system="oracle")["right"].item() == 1.0


def verdict(found: Evaluation) -> tuple[bool, str]:
    """Whether own memory is better than both others for certain, and a sentence that says so."""
    row = found.summary.row(0, named=True)
    better = all(
        row[f"{other}_minus_own_lower"] is not None and row[f"{other}_minus_own_lower"] > 0
        for other in ("baseline", "wrong")
    )
    return better, (
        f"first piece: {row['own']:.3f} nats with the call's own memory, {row['wrong']:.3f} with another task's, "
        f"{row['baseline']:.3f} with none\n"
        f"own memory is {'better than both' if better else 'NOT better than both'}: wrong − own is at least "
        f"{row['wrong_minus_own_lower']:+.3f}, none − own at least {row['baseline_minus_own_lower']:+.3f} "
        f"(95%, {row['families']} families)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/demo-train"))
    parser.add_argument("--train", type=int, default=30, help="training calls")
    parser.add_argument("--validation", type=int, default=10, help="validation calls, one family each")
    parser.add_argument(
        "--workers", type=int, default=None, help="number of encoding processes; all cores by default"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a recipe key"
    )
    parser.add_argument(
        "--branches", action="store_true", help="calls of every kind of branch, judged by what is said when"
    )
    options = parser.parse_args()
    settings = {key: yaml.safe_load(value) for key, _, value in (one.partition("=") for one in options.set)}
    try:
        if options.branches:
            judged = run_branches(
                options.out.with_name(f"{options.out.name}-branches"), workers=options.workers
            )
            print(judged.text())
            return 0 if grounded(judged) else 1
        found = run_demo(
            options.out,
            train_calls=options.train,
            validation_calls=options.validation,
            settings=settings,
            workers=options.workers,
        )
    except InkplexError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(found.text())
    better, sentence = verdict(found)
    print(sentence)
    return 0 if better else 1


if __name__ == "__main__":
    sys.exit(main())
