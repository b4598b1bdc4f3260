"""From calls to a speech model that speaks, on a CPU in minutes: store, full fine-tuning, and a call that it answers.

    python examples/demo_voice.py                     everything, in out/demo-voice; a rerun continues where it stopped
    python examples/demo_voice.py --passes 2          smaller

The same by hand:

    inkplex-data build examples/corpus -o out/demo-voice/store -p demo
    inkplex-data train out/demo-voice/store -p train_demo_voice -o out/demo-voice/run --allow-untrained-codec
    inkplex-data generate out/demo-voice/run out/demo-voice/store -o out/demo-voice/said --split train --limit 1

The model is small and begins with random weights, and so does the codec where Mimi's are not at hand: what is to be seen is
that the loss falls, and that a WAV comes out. It exits with 1 unless the last checks' text loss is below half the first's.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from inkplex_data.config.recipe import load_recipe
from inkplex_data.errors import InkplexError
from inkplex_data.pipeline.progress import reporter_for
from inkplex_data.pipeline.run import build_store
from inkplex_data.store.reader import open_store
from inkplex_data.torch_settings import torch_threads
from inkplex_data.trainer.evaluate.generate import Generator
from inkplex_data.trainer.evaluate.render import store_codec
from inkplex_data.trainer.evaluate.replay import ReplayOptions
from inkplex_data.trainer.run.logs.run_progress import ProgressLine
from inkplex_data.trainer.run.loop import train
from inkplex_data.trainer.run.run_files import load_trained
from inkplex_data.trainer.run.run_options import RunOptions
from inkplex_data.trainer.run.train_config import load_train_recipe

CORPUS = Path(__file__).resolve().parent / "corpus"


def train_losses(run: Path) -> list[float]:
    """Text loss of every update, nats a frame, from the run's metrics."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line["text_loss"] for line in lines if "text_loss" in line]


def run_demo(
    out: Path, *, passes: int | None = None, seconds: float = 5.0, workers: int | None = None
) -> list[Path]:
    """All steps in the folder `out`; those that are done are not done again. Returns the files of what was said."""
    reporter = reporter_for()
    summary = build_store(
        CORPUS, out / "store", recipe=load_recipe("demo"), workers=workers, reporter=reporter
    )
    reporter.finish()
    print(summary.text())
    settings = {} if passes is None else {"data.passes": passes}
    with torch_threads(1):  # so small a model gains nothing from sharing its sums
        trained = train(
            load_train_recipe("train_demo_voice", settings),
            out / "store",
            out / "run",
            RunOptions(device="cpu", workers=1, allow_untrained_codec=True, resume=True),
            ProgressLine(),
        )
        with open_store(out / "store") as store:
            model = load_trained(trained.checkpoint, store, split="train")
            options = ReplayOptions(seconds=seconds, seed=0)
            generator = Generator(model, store, store_codec(store), options)
            call = store.call_ids[0]
            return generator.write(generator.generate(call, "none"), out / "said")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/demo-voice"))
    parser.add_argument(
        "--passes", type=int, help="passes over the training calls; those of the recipe by default"
    )
    parser.add_argument("--workers", type=int, help="number of encoding processes; all cores by default")
    options = parser.parse_args()
    try:
        files = run_demo(options.out, passes=options.passes, workers=options.workers)
    except InkplexError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    losses = train_losses(options.out / "run")
    print(
        f"text loss: {losses[0]:.3f} nats a frame at the first update, {losses[-1]:.3f} at the last of {len(losses)}"
    )
    print("what it says of a call that it trained on:", *(f"  {path}" for path in files), sep="\n")
    return 0 if losses[-1] < losses[0] / 2 else 1


if __name__ == "__main__":
    sys.exit(main())
