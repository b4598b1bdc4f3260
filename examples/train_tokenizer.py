"""Train the small text tokenizer that comes with the package, from the text in examples/tokenizer.

    python examples/train_tokenizer.py [-o small.model] [--pieces 4000] [--text FILE …]

The text is generated: lines of service calls with slots filled at random (from a fixed seed), and sentences of
common words with their endings, so that ordinary English does not fall apart into letters. `--text` adds text of
your own, one sentence per line. With one release of SentencePiece, the same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from inkplex_data.speech.tokenizer import SMALL_MODEL, TextTokenizer
from inkplex_data.speech.tokenizer_train import train_tokenizer

FOLDER = Path(__file__).parent / "tokenizer"
TRAINED_WITH = "0.2.3"
"""Release of SentencePiece that made the committed model."""
SEED = 12_500
PIECES = 4_000
COMPANIES = (
    "Platinum Motors|North West Energy|Blue River Bank|Swift Appliances|Green Hill Insurance|Star Mobile"
)
COMPANIES += "|First City Travel|Harbor Water|Silver Lake Hotels|Open Door Rentals|Orange Tree Clinic|Sun Air"


def read_classes(path: Path) -> dict[str, list[str]]:
    """Word classes of words.txt: name to words, most useful first."""
    classes = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, words = line.split(": ", maxsplit=1)
            classes[name] = words.split()
    return classes


def read_lines(path: Path) -> list[str]:
    return [
        line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]


def with_ending(word: str, ending: str) -> str:
    """A word with a regular English ending: stop → stopping, carry → carries, bake → baked."""
    if ending == "s":
        if re.search(r"(s|x|z|ch|sh)$", word):
            return word + "es"
        return word[:-1] + "ies" if re.search(r"[^aeiou]y$", word) else word + "s"
    if ending == "ly":
        return word[:-1] + "ily" if word.endswith("y") else word + "ly"
    if word.endswith("e"):
        return word[:-1] + ending
    if word.endswith("y") and ending != "ing" and not re.search(r"[aeiou]y$", word):
        return word[:-1] + "i" + ending
    if re.fullmatch(r"[^aeiou]*[aeiou][bdgmnprt]", word):
        return word + word[-1] + ending
    return word + ending


def fillers(rng: random.Random, classes: dict[str, list[str]]) -> dict[str, Callable[[], str]]:
    """What a slot of lines.txt can hold."""

    def of(name: str) -> Callable[[], str]:
        return lambda: rng.choice(classes[name])

    def digits(low: int, high: int) -> str:
        return "".join(str(rng.randrange(10)) for _ in range(rng.randint(low, high)))

    def money() -> str:
        return rng.choice(("£", "$", "€")) + rng.choice(
            (str(rng.randint(1, 400)), f"{rng.randint(1, 99)}.{digits(2, 2)}")
        )

    def clock() -> str:
        return rng.choice(
            (
                f"{rng.randint(1, 12)} o'clock",
                f"{rng.randint(1, 12)}:{rng.choice(('00', '15', '30', '45'))}",
                f"{rng.randint(1, 12)} {rng.choice(('AM', 'PM'))}",
            )
        )

    def letters(count: int) -> list[str]:
        return [rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(count)]

    days, months = classes["calendar"][:7], classes["calendar"][7:]
    return {
        "company": lambda: rng.choice(COMPANIES.split("|")),
        "name": of("name"),
        "place": of("place"),
        "noun": of("noun"),
        "adjective": of("adjective"),
        "verb": of("verb"),
        "number": of("number"),
        "day": lambda: rng.choice(days),
        "month": lambda: rng.choice(months),
        "date": lambda: f"{rng.choice(months)} {rng.randint(1, 31)}",
        "daytime": lambda: rng.choice(("morning", "afternoon", "evening")),
        "time": lambda: (
            f"{rng.choice(classes['number'])} {rng.choice(('days', 'weeks', 'months', 'hours', 'years'))}"
        ),
        "person": lambda: rng.choice(("wife", "husband", "boss", "landlord", "brother", "mother", "doctor")),
        "digits": lambda: digits(3, 9),
        "code": lambda: "".join(letters(2)) + digits(1, 2) + " " + digits(1, 1) + "".join(letters(2)),
        "spelled": lambda: "-".join(letters(rng.randint(3, 6))),
        "lower": lambda: f" {rng.choice(classes['noun'])} ",
        "money": money,
        "clock": clock,
        "percent": lambda: f"{rng.randint(1, 19) * 5}%",
    }


def call_lines(rng: random.Random, classes: dict[str, list[str]], count: int) -> Iterator[str]:
    """Lines of service calls."""
    fill = fillers(rng, classes)
    lines = read_lines(FOLDER / "lines.txt")

    def one(match: re.Match[str]) -> str:
        word = fill[match["slot"]]()
        return with_ending(word, match["ending"]) if match["ending"] else word

    for number in range(count):
        text = re.sub(r"\{(?P<slot>\w+)\}(?P<ending>ing|ed|est|s\b)?", one, lines[number % len(lines)])
        yield text[0].upper() + text[1:] if rng.random() < 0.9 else text.lower()


def word_lines(rng: random.Random, classes: dict[str, list[str]], count: int) -> Iterator[str]:
    """Sentences of common words, the first of a class more often, with endings and punctuation."""
    endings = {
        "verb": ("", "", "s", "ed", "ing", "er"),
        "noun": ("", "", "s"),
        "adjective": ("", "", "ly", "er", "est"),
    }
    order = (
        "function",
        "adjective",
        "noun",
        "function",
        "verb",
        "function",
        "noun",
        "spoken",
        "short",
        "verb",
        "name",
    )
    for _ in range(count):
        words = []
        for name in rng.sample(order, rng.randint(3, len(order))):
            known = classes[name]
            word = known[int(len(known) * rng.random() ** 1.5)]
            words.append(
                with_ending(word, rng.choice(endings[name]))
                if rng.random() < 0.5 and name in endings
                else word
            )
            if rng.random() < 0.15:
                words[-1] += rng.choice(",,,;:")
        text = " ".join(words).rstrip(",;:") + rng.choice("...?!")
        yield text[0].upper() + text[1:]


def made_text() -> list[str]:
    """The whole training text."""
    rng = random.Random(SEED)
    classes = read_classes(FOLDER / "words.txt")
    return [*call_lines(rng, classes, 8_000), *word_lines(rng, classes, 14_000)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small text tokenizer.")
    parser.add_argument("-o", "--out", type=Path, default=SMALL_MODEL)
    parser.add_argument("--pieces", type=int, default=PIECES)
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="more text, one sentence per line")
    options = parser.parse_args()
    sentences = made_text()
    for path in options.text:
        sentences += [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(train_tokenizer(sentences, pieces=options.pieces))
    tokenizer = TextTokenizer.load(options.out)
    words = [word for sentence in sentences[:2_000] for word in sentence.split()]
    pieces = sum(map(len, tokenizer.encode_words(words)))
    print(
        f"{options.out}: {len(tokenizer)} pieces, {options.out.stat().st_size:,} bytes, sha256 {tokenizer.sha256}"
    )
    print(f"{pieces / len(words):.2f} pieces per word over {len(words):,} words of the training text")


if __name__ == "__main__":
    main()
