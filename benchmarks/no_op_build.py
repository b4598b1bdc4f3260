"""A rerun of `build` over a finished store, which finds that nothing is to be done, against looking at its files alone.

The store is made of one call's arrays under many names, so that making it takes seconds and no codec.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.shards import EXTRA_COLUMNS
from inkplex_data.pipeline.standing.copied_members import Copies
from inkplex_data.pipeline.standing.file_digests import FileDigests
from inkplex_data.pipeline.standing.inputs import call_inputs
from inkplex_data.pipeline.target import open_target
from inkplex_data.store.publish import withdraw
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.shard import CallShardWriter
from tests.quick_codec import QUICK, register

SHARD_CALLS = 100


def write_corpus(folder: Path, calls: int) -> Path:
    """A manifest of calls with one sound, each a file of its own name, and words."""
    folder.mkdir()
    noise = np.random.default_rng(0).normal(0, 0.1, (12_000, 2))
    soundfile.write(folder / "0.wav", noise, 24_000)
    (folder / "0.json").write_text(json.dumps({"alignments": [["hello", [0.1, 0.3], "SPEAKER_MAIN"]]}))
    for number in range(1, calls):
        for ending in ("wav", "json"):
            os.link(folder / f"0.{ending}", folder / f"{number}.{ending}")
    lines = [{"id": f"call-{number}", "path": f"{number}.wav", "family": "one"} for number in range(calls)]
    manifest = folder / "calls.jsonl"
    manifest.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return manifest


def write_store(manifest: Path, store: Path, recipe: Recipe) -> None:
    """The store that a build of all calls would leave, but for the codes."""
    first = manifest.with_name("first.jsonl")
    first.write_text(manifest.read_text().partition("\n")[0] + "\n")
    summary = build_store(first, store, recipe=recipe, workers=1)
    assert summary.exit_code == 0, summary.text()
    entries, digests = read_corpus(manifest).entries, FileDigests(store)
    target = open_target(store, recipe)
    copies = Copies.of(target)
    [row] = target.calls.iter_rows(named=True)
    part = copies.call(row, prefix_id=row["prefix_id"], partner=None, notes=None).part()
    copies.close()
    for folder in ("snapshots", "calls"):
        for path in sorted((store / folder).iterdir()):
            withdraw(path) if path.is_dir() else path.unlink()
    (store / "newest.json").unlink()
    for at in range(0, len(entries), SHARD_CALLS):
        with CallShardWriter(store, at // SHARD_CALLS, extra_columns=EXTRA_COLUMNS) as writer:
            for ix, entry in enumerate(entries[at : at + SHARD_CALLS], at):
                given = CallInput.of(entry)
                own = {
                    "call_id": entry.call_id,
                    "call_ix": ix,
                    "source": entry.source,
                    "inputs": call_inputs(given.entry, given.turns, digests),
                }
                writer.add(replace(part, row={**part.row, **own}, problems=[]))
            writer.publish()
    publish_snapshot(store)


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    register()
    recipe = load_recipe(None, {"codec.id": QUICK})
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = f"{scratch}/cache"
        store = Path(scratch) / "store"
        manifest = write_corpus(Path(scratch) / "corpus", options.calls)
        write_store(manifest, store, recipe)
        time.sleep(2.5)  # files that changed just now are hashed once more

        def rerun() -> None:
            summary = build_store(manifest, store, recipe=recipe, workers=1)
            assert summary.exit_code == 0 and summary.already == options.calls, summary.text()

        rerun()
        if options.profile:
            with cProfile.Profile() as profile:
                rerun()
            pstats.Stats(profile).sort_stats("cumulative").print_stats(35)
        rerun_s = seconds(rerun)
        look_s = seconds(lambda: [path.stat() for path in manifest.parent.iterdir()])
    result = {"calls": options.calls, "rerun_s": rerun_s, "rerun_over_look": rerun_s / look_s}
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"{options.calls:,} calls: rerun {rerun_s:.2f} s, looking at their files {look_s:.3f} s: "
            f"{rerun_s / look_s:.0f} times as long"
        )


if __name__ == "__main__":
    main()
