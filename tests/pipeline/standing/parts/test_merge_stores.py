"""Parts of a corpus, joined, are what one build of it gives."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import inkplex_data as ink
from inkplex_data.config.recipe import load_recipe
from inkplex_data.errors import InkplexError, StoreCorruptError, UsageError
from inkplex_data.pipeline.parts.merge_stores import merge_stores
from inkplex_data.pipeline.run import build_store
from inkplex_data.store.frame_streams import stored_in
from inkplex_data.store.verify.whole_store import verify_store
from tests.pipeline.conftest import tree
from tests.pipeline.standing.conftest import Parted, Standing, build_part
from tests.quick_codec import QUICK

PLACES = [
    "shard",
    "frame_offset",
    *(f"{name}_offset" for name in ("word", "version", "evidence", "claim", "token")),
]
"""Where rows lie in their shards: a part ends a shard where one build would go on."""


def same_content(one: Path, other: Path) -> None:
    ours, theirs = ink.open_store(one), ink.open_store(other)
    for table in (
        "calls",
        "recordings",
        "prefixes",
        "problems",
        "splits",
        "words",
        "versions",
        "evidence",
        "claims",
        "tokens",
    ):
        left, right = (getattr(store, table)().collect() for store in (ours, theirs))
        assert left.drop(PLACES, strict=False).equals(right.drop(PLACES, strict=False)), table
    assert ours.frames().collect().equals(theirs.frames().collect())
    for call_id in ours.call_ids:
        for stream in stored_in("calls"):
            assert np.array_equal(
                ours.call(call_id).stream(stream.name), theirs.call(call_id).stream(stream.name)
            )
    for recording_id in ours.recordings().collect()["recording_id"]:
        rows = [store.recording_row(recording_id) for store in (ours, theirs)]
        states = [
            store.states(row["shard"]).read_rows(row["token_offset"], row["token_offset"] + row["tokens"])
            for store, row in zip((ours, theirs), rows, strict=True)
        ]
        assert np.array_equal(*states), recording_id


def test_parts_joined_equal_one_build(parted: Parted, joined: Path) -> None:
    same_content(parted.whole.store, joined)
    assert not verify_store(joined) and not (joined / ".build").exists()


def test_a_rerun_changes_nothing_and_files_are_links(parted: Parted, joined: Path) -> None:
    before = tree(joined)
    merge_stores(parted.parts, joined)
    assert tree(joined) == before
    arrays = [path for path in (joined / "calls").rglob("arrays.zarr/**/*") if path.is_file()]
    assert len(arrays) > 20 and all(path.stat().st_nlink > 1 for path in arrays)
    assert all(
        path.stat().st_nlink == 1 for name in ("calls", "words") for path in joined.glob(f"{name}.parquet")
    )


def test_where_no_link_can_be_made_files_are_copied(
    parted: Parted, joined: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def no_link(source: Path, place: Path) -> None:
        if "parted" in str(source):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        real(source, place)

    monkeypatch.setattr(os, "link", no_link)
    merge_stores(parted.parts, tmp_path / "copies")
    assert tree(joined) == tree(tmp_path / "copies")
    assert all(path.stat().st_nlink == 1 for path in (tmp_path / "copies").rglob("*") if path.is_file())


def test_other_stores_follow_each_other_with_new_numbers(made: Standing, tmp_path: Path) -> None:
    """Stores that are no parts, and have the same numbers."""
    stores = []
    for name, calls in (("first", "bdf"), ("second", "ace")):
        manifest = made.folder / f"{name}.jsonl"
        manifest.write_text("".join(f"{json.dumps(one)}\n" for one in made.lines if one["id"] in calls))
        stores.append(tmp_path / name)
        build_store(manifest, stores[-1], recipe=made.recipe, workers=1)
    summary = merge_stores(stores, tmp_path / "store")
    assert summary.exit_code == 0, summary.text()
    joined, whole = ink.open_store(tmp_path / "store"), ink.open_store(made.store)
    assert joined.call_ids == list("bdface") and not verify_store(tmp_path / "store")
    calls = joined.calls().collect()
    assert calls["call_ix"].to_list() == list(range(6))
    assert joined.recordings().collect()["recording_ix"].to_list() == list(range(4))
    assert joined.words().collect()["call_ix"].unique(maintain_order=True).to_list() == list(range(6))
    assert joined.tokens().collect()["recording_ix"].unique(maintain_order=True).to_list() == list(range(4))
    partners = ["call_id", "wrong_memory_of"]
    assert (
        calls.select(partners)
        .sort("call_id")
        .equals(whole.calls().select(partners).collect().sort("call_id"))
    )
    for call_id in "abcdef":
        ours, theirs = joined.call(call_id), whole.call(call_id)
        assert np.array_equal(ours.codes, theirs.codes)
        for table in ("words", "versions"):
            assert (
                getattr(ours, table)
                .drop("call_ix", strict=False)
                .equals(getattr(theirs, table).drop("call_ix", strict=False))
            )
    for recording_id in ("red", "blue", "green", "pink"):
        row, other = (store.recording_row(recording_id) for store in (joined, whole))
        own, same = (
            store.states(one["shard"]).read_rows(one["token_offset"], one["token_offset"] + one["tokens"])
            for store, one in ((joined, row), (whole, other))
        )
        assert np.array_equal(own, same)


def test_the_same_audio_in_two_families_leaves_one_out(made: Standing, tmp_path: Path) -> None:
    """What a part cannot know: the later call goes, also with its channels exchanged, and the prefix that has its voice;
    the rest of its shard stays, each array read back."""
    known = {one["id"]: one for one in made.lines}
    exchanged = {"id": "a3", "family": "other", "voice": None, "channels": {"agent": 1, "caller": 0}}
    corpora = []
    for name, lines in (
        ("one", [known["a"], known["c"]]),
        (
            "two",
            [
                *({**known[one], "id": f"{one}2", "family": "other"} for one in "ab"),
                {**known["a"], **exchanged},
            ],
        ),
    ):
        manifest = made.folder / f"same-{name}.jsonl"
        manifest.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
        recipe = load_recipe(None, {"codec.id": QUICK})
        corpora.append(tmp_path / name)
        build_store(manifest, corpora[-1], recipe=recipe, workers=1)
    summary = merge_stores(corpora, tmp_path / "store")
    assert summary.exit_code == 3
    assert [(problem.call_id, problem.code) for problem in summary.refused] == [
        ("a2", "audio-in-two-families"),
        ("a3", "audio-in-two-families"),
    ]
    assert not verify_store(tmp_path / "store")
    store, before = ink.open_store(tmp_path / "store"), ink.open_store(corpora[1])
    assert store.call_ids == ["a", "c", "b2"]
    own = before.call("b2").row["prefix_id"]
    assert before.prefix_by_id(own).row["voice_source"].startswith("call:a2@")
    assert own not in store.prefixes().collect()["prefix_id"]
    assert store.call("b2").row["prefix_id"] is None
    [note] = store.problems().filter(call_id="b2", code="prefix-no-voice").collect()["message"]
    assert "from 'a2', which is left out" in note
    assert np.array_equal(store.call("b2").codes, before.call("b2").codes)
    assert store.problems().filter(call_id="a2").collect()["code"].to_list() == ["audio-in-two-families"]
    assert store.recordings().collect()["recording_id"].to_list() == ["red", "blue"]
    again = tree(tmp_path / "store")
    merge_stores(corpora, tmp_path / "store")
    assert tree(tmp_path / "store") == again


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("lacking", "of 3 parts these are not named: 2"),
        ("twice", "is part 1 again"),
        ("foreign", "is no part of the corpus"),
        ("unfinished", "its build has not finished"),
        ("inside", "is one of the stores to be joined"),
        ("other", "holds another store"),
        ("recipe", "store.shard_bytes: 4000 and"),
        ("ids", "calls are in two of the stores: a "),
    ],
)
def test_what_cannot_be_joined(fault: str, said: str, parted: Parted, tmp_path: Path) -> None:
    one, two, three = parted.parts
    out, whole = tmp_path / "store", parted.whole.store
    stores = {"lacking": [one, three], "twice": [one, one], "foreign": [one, two, whole]}.get(
        fault, [one, two, three]
    )
    if fault == "unfinished":
        shutil.copytree(three, tmp_path / "three")
        shutil.rmtree(tmp_path / "three/snapshots")
        (tmp_path / "three/newest.json").unlink()
        stores[2] = tmp_path / "three"
    if fault == "inside":
        out = three / "joined"
    if fault == "other":
        shutil.copytree(whole, out)
    if fault == "ids":
        shutil.copytree(whole, tmp_path / "again")
        stores = [whole, tmp_path / "again"]
    if fault == "recipe":
        manifest = parted.whole.folder / "e.jsonl"
        manifest.write_text("".join(f"{json.dumps(one)}\n" for one in parted.whole.lines if one["id"] == "f"))
        build_store(manifest, tmp_path / "e", recipe=load_recipe(None, {"codec.id": QUICK}), workers=1)
        stores = [whole, tmp_path / "e"]
    before = tree(out) if out.exists() else {}
    with pytest.raises(InkplexError, match=re.escape(said)):
        merge_stores(stores, out)
    assert (tree(out) if out.exists() else {}) == before


def test_a_link_that_leaves_its_store_is_not_followed(parted: Parted, tmp_path: Path) -> None:
    shutil.copytree(parted.parts[0], tmp_path / "one")
    words = tmp_path / "one/calls/000000/words.parquet"
    words.rename(tmp_path / "words.parquet")
    words.symlink_to(tmp_path / "words.parquet")
    with pytest.raises(StoreCorruptError, match="a link that leaves its store"):
        merge_stores([tmp_path / "one", *parted.parts[1:]], tmp_path / "store")


def test_a_stores_part_is_kept_to(parted: Parted, tmp_path: Path) -> None:
    """A store of one part takes no other part, not the whole corpus, and no other corpus."""
    store = tmp_path / "store"
    shutil.copytree(parted.parts[0], store)
    with pytest.raises(UsageError, match="holds part 1/3, not 2/3"):
        build_part(parted.whole, store, 2)
    with pytest.raises(UsageError, match="holds part 1/3 of one"):
        build_store(parted.whole.manifest, store, recipe=parted.whole.recipe, workers=1)
    fewer = dataclasses.replace(parted.whole, manifest=parted.whole.folder / "fewer.jsonl")
    fewer.write([one for one in parted.whole.lines if one["id"] != "f"])
    with pytest.raises(UsageError, match="calls of the corpus are others than when part 1/3 was begun"):
        build_part(fewer, store, 1)
    assert build_part(parted.whole, store, 1).already == 2
