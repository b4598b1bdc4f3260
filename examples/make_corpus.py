"""Make the example corpus: six short stereo calls, their words, sidecars and task recordings.

    python examples/make_corpus.py            write examples/corpus again
    python examples/make_corpus.py --check    compare examples/corpus byte by byte with a fresh copy

Needs espeak-ng (Debian: `apt-get install espeak-ng`) and the extra `memory` (for the o200k tokens). The files
in the repository were made with espeak-ng 1.51, soxr 1.1 and soundfile 0.14; other versions make an equally
good corpus, with different bytes and slightly different word times.
"""

from __future__ import annotations

import argparse
import filecmp
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from corpus_maker.files import write_corpus
from corpus_maker.scenes import all_scenes
from corpus_maker.studio import espeak_version

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"


def differences(made: Path, committed: Path) -> list[str]:
    """Names, relative to the corpus, of files that are not byte for byte the same in both folders."""
    names = {
        str(path.relative_to(folder))
        for folder in (made, committed)
        for path in folder.rglob("*")
        if path.is_file()
    }
    _, mismatched, missing = filecmp.cmpfiles(made, committed, sorted(names), shallow=False)
    return sorted(mismatched + missing)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=CORPUS, help="folder to write (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if --out differs")
    options = parser.parse_args()
    version = espeak_version()
    method = f"word events of espeak-ng {version}"
    if not options.check:
        write_corpus(all_scenes(), options.out, method=method)
        size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
        print(f"wrote {options.out} ({size / 1e6:.2f} MB) with espeak-ng {version}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(all_scenes(), Path(folder), method=method)
        differing = differences(Path(folder), options.out)
    for name in differing:
        print(f"differs: {name}")
    print(
        f"{len(differing)} files differ (espeak-ng {version})"
        if differing
        else f"{options.out} is up to date"
    )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
