"""Where a build spends its CPU time: the share spent inside Mimi when ten minutes of calls are built."""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from inkplex_data.config.recipe import CodecConfig, load_recipe
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.run import build_store

RATE_HZ = 24_000


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def make_corpus(folder: Path, minutes: float, calls: int) -> Path:
    """Stereo FLAC of noise that swells and fades with a word every third of a second: as much work as speech is."""
    folder.mkdir(parents=True)
    seconds = minutes * 60 / calls
    lines = []
    for call in range(calls):
        random = np.random.default_rng(call)
        samples = int(seconds * RATE_HZ)
        level = 0.1 * np.abs(np.sin(np.arange(samples) / 9_000))[:, None]
        stereo = level * random.standard_normal((samples, 2))
        soundfile.write(folder / f"{call}.flac", stereo, RATE_HZ)
        words = [
            [f"word{n % 50}", [n / 3, n / 3 + 0.25], "SPEAKER_MAIN"] for n in range(int(seconds * 3) - 1)
        ]
        (folder / f"{call}.json").write_text(json.dumps({"alignments": words}))
        lines.append(json.dumps({"id": str(call), "path": f"{call}.flac"}) + "\n")
    (folder / "manifest.jsonl").write_text("".join(lines))
    return folder / "manifest.jsonl"


@contextmanager
def counted_encoding(codec: Any) -> Iterator[list[float]]:
    """CPU seconds inside `MimiModel.encode`."""
    spent = [0.0]
    encode = codec.model.encode

    def timed(*arguments: Any, **options: Any) -> Any:
        before = cpu_s()
        result = encode(*arguments, **options)
        spent[0] += cpu_s() - before
        return result

    codec.model.encode = timed
    try:
        yield spent
    finally:
        codec.model.encode = encode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    recipe = load_recipe("moshi_stereo", {"codec.id": "untrained:0"})
    codec = tools.codec(CodecConfig(id="untrained:0"), "cpu")
    with tempfile.TemporaryDirectory() as folder:
        corpus = make_corpus(Path(folder) / "corpus", options.minutes, options.calls)
        with counted_encoding(codec) as spent:
            before, start = cpu_s(), time.perf_counter()
            build_store(corpus, Path(folder) / "store", recipe=recipe, workers=1)
            total, wall_s = cpu_s() - before, time.perf_counter() - start
    result = {
        "minutes": options.minutes,
        "build_cpu_s": total,
        "mimi_cpu_s": spent[0],
        "mimi_over_build": spent[0] / total,
        "audio_over_wall": options.minutes * 60 / wall_s,
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"{options.minutes:g} minutes of stereo: {total:.1f} s of CPU, {spent[0]:.1f} s of it in Mimi "
            f"({spent[0] / total:.1%}); {result['audio_over_wall']:.1f} times real time"
        )


if __name__ == "__main__":
    main()
