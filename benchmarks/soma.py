"""soma on one pass over a corpus, beside order-0, order-2, gzip, a GRU of the same size and a byte-level soma of the same width.

Every model reads each byte once and tells its cost before it learns it, so that bits a byte are code lengths of one pass.
All run on one thread, one after another; soma and the GRU read the same tokens in the same batches, densely. Then: what the
closed form of the trace bank saves over ticking, and the peak memory of a short corpus and of one ten times as long.

    python benchmarks/soma.py STORE|FILE… [--bands 4] [--depth 2] [--batch 128] [--most-bytes N]
                              [--memory-mb 1 10] [--quick] [--only tables|speed|memory]

The default model of soma is `--bands 16 --depth 4`. Orders, gzip and the byte-level soma read the text alone, without the
protocol pieces that part a store's turns. Of a JSON document, such as a transcript or a task trace, what is read are its
sentences: its strings that hold a space.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from inkplex_data.soma.app.corpora import open_corpus
from inkplex_data.soma.learner.learner import Learner
from inkplex_data.soma.learner.soma_config import SomaConfig
from inkplex_data.soma.learner.soma_network import WIDTH, SomaNetwork
from inkplex_data.soma.learner.trace_bands import TraceBands
from inkplex_data.soma.learner.trace_bank import TraceBank
from inkplex_data.soma.tokens.soma_tokenizer import SHA256, VOCABULARY, SomaTokenizer
from inkplex_data.soma.tokens.token_stream import TokenBatch, TokenStream

Cost = tuple[float, int]
"""Nats and source bytes of one batch."""

GRU_START = 50
"""Batches over which the GRU's learning rate rises."""

_PERCEIVED = 4096
"""Tokens that are taken in together where nothing is learned."""

BACKOFF = 4.0
"""Weight of the shorter context in an order's counts."""


class Gru(nn.Module):
    """Tied dictionary, one recurrent layer, readout of the dictionary's width: as many parameters as it is given."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        left = parameters - VOCABULARY * (WIDTH + 1)
        # 3 h (256 + h) of the layer, 6 h of its biases, 256 h of the readout
        b = 4 * WIDTH + 6
        hidden = int((-b + math.sqrt(b * b + 12 * left)) / 6)
        self.dictionary = nn.Parameter(torch.randn(VOCABULARY, WIDTH) / math.sqrt(WIDTH))
        self.layer = nn.GRU(WIDTH, hidden)
        self.language = nn.Linear(hidden, WIDTH, bias=False)
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))

    def forward(self, before: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        out, state = self.layer(nn.functional.embedding(before, self.dictionary), state)
        return nn.functional.linear(self.language(out), self.dictionary, self.bias), state


def sentences(value: object) -> Iterator[str]:
    """All strings of a JSON document that hold a space: what is said in a transcript or a trace, without its keys and words."""
    if isinstance(value, str) and " " in value:
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from sentences(part)


def as_text(source: str, folder: Path) -> str:
    """The file itself, or of a JSON document a file of its sentences."""
    if not source.endswith(".json"):
        return source
    target = folder / f"{len(list(folder.iterdir()))}.txt"
    target.write_text("\n".join(sentences(json.loads(Path(source).read_bytes()))) + "\n", encoding="utf-8")
    return str(target)


def soma_costs(learner: Learner, batches: Sequence[TokenBatch]) -> Iterator[Cost]:
    for batch in batches:
        report = learner.learn(batch)
        yield report.nats, report.source_bytes


def gru_costs(model: Gru, batches: Sequence[TokenBatch]) -> Iterator[Cost]:
    """Backpropagation through the tokens of a batch; the state goes on from batch to batch. Without a slow start it diverges."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002, weight_decay=0, fused=True)
    state, last = None, torch.zeros(1, dtype=torch.int64)
    for number, batch in enumerate(batches):
        optimizer.param_groups[0]["lr"] = 0.002 * min(1.0, (number + 1) / GRU_START)
        ids, weights = torch.from_numpy(batch.ids), torch.from_numpy(batch.weights)
        logits, state = model(torch.cat([last, ids[:-1]]), state)
        nats = nn.functional.cross_entropy(logits, ids, reduction="none") * weights
        state, last = state.detach(), ids[-1:]
        optimizer.zero_grad()
        (nats.sum() / (weights > 0).sum().clamp_min(1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield nats.sum(dtype=torch.float64).item(), int(batch.source_bytes[batch.weights > 0].sum())


def order_costs(text: bytes, order: int) -> Iterator[Cost]:
    """Adaptive counts of bytes in the context of the `order` bytes before, each backed by the next shorter context."""
    counts: list[dict[bytes, dict[int, int]]] = [
        defaultdict(lambda: defaultdict(int)) for _ in range(order + 1)
    ]
    totals: list[dict[bytes, int]] = [defaultdict(int) for _ in range(order + 1)]
    for at, byte in enumerate(text):
        chance = 1 / 256
        for length in range(order + 1):
            context = text[max(0, at - length) : at]
            here = counts[length][context]
            chance = (here[byte] + BACKOFF * chance) / (totals[length][context] + BACKOFF)
            here[byte] += 1
            totals[length][context] += 1
        yield -math.log(chance), 1


def gzip_costs(text: bytes) -> Iterator[Cost]:
    """Of each tenth: what the file grows by with it."""
    before = 0
    for tenth in range(1, 11):
        end = len(text) * tenth // 10
        size = len(gzip.compress(text[:end], 9))
        yield (size - before) * math.log(256), end - len(text) * (tenth - 1) // 10
        before = size


def byte_soma(config: SomaConfig) -> Learner:
    network = SomaNetwork(256, config.bands, config.width, config.depth)
    network.begin(torch.Generator().manual_seed(0))
    return Learner(config, "bytes", network)


def byte_batches(text: bytes, batch: int) -> list[TokenBatch]:
    ids = np.frombuffer(text, np.uint8).astype(np.int64)
    parts = [ids[at : at + batch] for at in range(0, len(ids), batch)]
    return [TokenBatch(part, np.ones(len(part), np.float32), np.ones(len(part), np.int64)) for part in parts]


def tenths(costs: Iterator[Cost]) -> tuple[list[float], float, float]:
    """(bits a byte of each tenth of the bytes, of all, seconds)."""
    began = time.perf_counter()
    table = np.array(list(costs))
    seconds = time.perf_counter() - began
    nats, ends = table[:, 0], np.cumsum(table[:, 1])
    part = ((ends - table[:, 1] / 2) * 10 // ends[-1]).clip(0, 9).astype(int)
    sums = [np.bincount(part, column, 10) for column in (nats, table[:, 1])]
    return list(sums[0] / np.maximum(sums[1], 1) / math.log(2)), nats.sum() / ends[-1] / math.log(2), seconds


def tables(sources: Sequence[str], config: SomaConfig, most_bytes: int, *, quick: bool) -> None:
    tokenizer, batches, read = SomaTokenizer.load(), [], 0
    with (
        tempfile.TemporaryDirectory() as folder,
        open_corpus([as_text(source, Path(folder)) for source in sources]) as corpus,
    ):
        stream = TokenStream(corpus.documents, tokenizer)
        while read < most_bytes and (batch := stream.take(config.batch)) is not None:
            batches.append(batch)
            read += int(batch.source_bytes.sum())
    text = b"".join(tokenizer.decode(batch.ids) for batch in batches)
    learner = Learner.fresh(config, SHA256)
    parameters = sum(value.numel() for value in learner.network.parameters())
    gru, by_byte = Gru(parameters), byte_soma(config)
    print(
        f"{len(text):,} bytes, {sum(map(len, batches)):,} tokens; soma {parameters:,} parameters, "
        f"GRU {sum(value.numel() for value in gru.parameters()):,} (hidden {gru.layer.hidden_size})\n"
    )
    print(f"{'bits a byte':<12} {'whole':>6} {'last tenth':>10} {'bytes/s':>9}   tenth by tenth")
    speeds = {}
    rows: list[tuple[str, Callable[[], Iterator[Cost]]]] = [
        ("order-0", lambda: order_costs(text, 0)),
        ("order-2", lambda: order_costs(text, 2)),
        ("gzip -9", lambda: gzip_costs(text)),
        ("soma", lambda: soma_costs(learner, batches)),
        ("GRU", lambda: gru_costs(gru, batches)),
        ("soma, bytes", lambda: soma_costs(by_byte, byte_batches(text, config.batch))),
    ]
    for name, costs in rows[: 4 if quick else 6]:
        parts, whole, seconds = tenths(costs())
        speeds[name] = len(text) / seconds
        shown = " ".join(f"{part:.2f}" for part in parts)
        print(f"{name:<12} {whole:6.3f} {parts[-1]:10.3f} {speeds[name]:9,.0f}   {shown}", flush=True)
    if not quick:
        print(f"\nsource bytes a second, soma by GRU: {speeds['soma'] / speeds['GRU']:.2f}")


def speed(config: SomaConfig) -> None:
    """The presents of a block of tokens, by the closed form and by ticking."""
    ids = torch.randint(VOCABULARY, (256,), generator=torch.Generator().manual_seed(0))
    dictionary = torch.randn(VOCABULARY, WIDTH)
    block, literal = (TraceBank(VOCABULARY, TraceBands(config.bands, config.base)) for _ in range(2))
    began = time.perf_counter()
    for _ in range(4):
        block.presents(dictionary, ids)
        block.advance(ids)
    closed_s = (time.perf_counter() - began) / 4
    began = time.perf_counter()
    for token in ids.tolist():
        literal.project(dictionary)
        literal.tick(token)
    ticked_s = time.perf_counter() - began
    print(
        f"presents of {len(ids)} tokens: closed form {closed_s * 1e3:.1f} ms, ticking {ticked_s * 1e3:.1f} ms, {ticked_s / closed_s:.0f} ×"
    )


def memory(config: SomaConfig, sizes_mb: Sequence[int]) -> None:
    """Each size in a process of its own: all is read and perceived, and eight batches are learned on the way."""
    for megabytes in sizes_mb:
        command = [sys.executable, __file__, "--one-pass-mb", str(megabytes), "--bands", str(config.bands)]
        command += ["--depth", str(config.depth), "--batch", str(config.batch)]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        print(f"peak memory over {megabytes} MB: {told.stdout.strip()}", flush=True)


def one_pass(config: SomaConfig, megabytes: int) -> None:
    """Prints the peak memory of this process after a corpus of made words."""
    random = np.random.default_rng(0)
    words = [bytes(random.integers(97, 123, random.integers(2, 9), dtype=np.uint8)) for _ in range(5000)]
    learner = Learner.fresh(config, SHA256)
    with tempfile.TemporaryDirectory() as folder:
        path, written = Path(folder) / "made.txt", 0
        with path.open("wb") as file:
            while written < megabytes * 1_000_000:
                written += file.write(b" ".join(words[n] for n in random.integers(5000, size=10_000)) + b"\n")
        began = time.perf_counter()
        with open_corpus([str(path)]) as corpus:
            stream, learned = TokenStream(corpus.documents, SomaTokenizer.load()), 0
            while (batch := stream.take(_PERCEIVED)) is not None:
                if stream.cursor.source_bytes >= learned * written / 8:
                    learner.learn(batch)
                    learned += 1
                else:
                    learner.perceive(batch.ids)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{peak_mib:,.0f} MiB ({stream.cursor.source_bytes:,} bytes read in {time.perf_counter() - began:.0f} s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--bands", type=int, default=4)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--most-bytes", type=int, default=10**12)
    parser.add_argument("--memory-mb", type=int, nargs="*", default=[1, 10])
    parser.add_argument("--quick", action="store_true", help="without the GRU and the byte-level soma")
    parser.add_argument("--only", choices=["tables", "speed", "memory"])
    parser.add_argument("--one-pass-mb", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = SomaConfig(bands=options.bands, depth=options.depth, batch=options.batch, decimation=0)
    if options.one_pass_mb:
        one_pass(config, options.one_pass_mb)
        return
    if options.sources and options.only in (None, "tables"):
        tables(options.sources, config, options.most_bytes, quick=options.quick)
    if options.only in (None, "speed"):
        speed(config)
    if options.only in (None, "memory"):
        memory(config, options.memory_mb)


if __name__ == "__main__":
    main()
