"""Train the tokenizer of soma, soma-8k-v1, which comes with the package.

    mkdir text && cd text
    apt-get download python3.11-doc wordnet-base && for deb in *.deb; do dpkg-deb -x "$deb" .; done
    pip download --no-deps chatterbot-corpus && unzip -q chatterbot_corpus*.whl
    cd .. && python examples/train_soma_tokenizer.py text [-o soma-8k-v1.model]

The text: WordNet's definitions and example sentences (9 MB of general English; WordNet licence) and the sources of Python's
documentation without its change log (9 MB of prose and code; PSF licence), as Debian packages them, the English dialogues of
the Python package chatterbot-corpus (BSD), and the made calls that the small speech tokenizer is trained on too. None of it is
in the repository. With one release of SentencePiece, the same text gives the same bytes. A model that learned with
another tokenizer is of another species: the committed file is never replaced, only joined by one of another name.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import sentencepiece

sys.path.insert(0, str(Path(__file__).parent))
from train_tokenizer import made_text

from inkplex_data.soma.tokens.soma_tokenizer import MODEL, PROTOCOL, VOCABULARY

SOURCES = ("*.rst.txt", "wordnet/data.*", "english/*.yml")
LEFT_OUT = ("whatsnew", "c-api", "license")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u2581]+")
"""What no piece may hold. A line ends where one of these stands, so that each of them is spelled in bytes."""


def lines_of(folder: Path) -> Iterator[str]:
    """Every line of every source once, in the order of names; of WordNet what stands behind its pointers."""
    seen = set()
    for path in sorted(path for pattern in SOURCES for path in folder.rglob(pattern) if path.is_file()):
        if any(name in path.parts or path.name.startswith(name) for name in LEFT_OUT):
            continue
        for line in CONTROL.split(path.read_text(encoding="utf-8", errors="replace")):
            text = line.partition(" | ")[2] if path.parent.name == "wordnet" else line
            if text.strip() and text not in seen:
                seen.add(text)
                yield text


def train(lines: Iterator[str]) -> bytes:
    """The serialized model: as soma's specification has it, in one thread and without shuffling."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines,
        model_writer=model,
        model_type="bpe",
        vocab_size=VOCABULARY,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        split_by_whitespace=True,
        split_digits=True,
        byte_fallback=True,
        character_coverage=0.9995,
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        control_symbols=list(PROTOCOL),
        max_sentence_length=65_536,
        shuffle_input_sentence=False,
        num_threads=1,
        minloglevel=1,
    )
    return model.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train soma's tokenizer.")
    parser.add_argument("text", type=Path, help="folder with the unpacked packages")
    parser.add_argument("-o", "--out", type=Path, default=MODEL)
    options = parser.parse_args()
    lines = [*lines_of(options.text), *made_text()]
    serialized = train(iter(lines))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(serialized)
    told = f"{len(serialized):,} bytes, sha256 {hashlib.sha256(serialized).hexdigest()}"
    print(f"{options.out}: {told}, from {sum(map(len, lines)):,} characters")


if __name__ == "__main__":
    main()
