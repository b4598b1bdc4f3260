"""The report on a store as files: one page, or a folder with a page for each drawn call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from inkplex_data.atomic import new_folder, replacing
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.report.call_section import DrawnCall
from inkplex_data.report.gather import store_summary, view_of
from inkplex_data.report.histograms import DrawnMeasures
from inkplex_data.report.html import INDEX, render_call, render_index, render_page

if TYPE_CHECKING:
    import polars as pl

    from inkplex_data.report.call_sound import SoundOf
    from inkplex_data.store.reader import Store

ONE_PAGE: Final = 20
"""Most calls that are drawn on one page: with sound it has some 15 kB for each second of them."""

Told = Callable[[int, int], None]
"""Is told how many of the calls are drawn."""


def write_report(
    store: Store,
    out: Path,
    *,
    draw: int = ONE_PAGE,
    calls: Sequence[str] = (),
    sound: SoundOf | None = None,
    silent_because: str = "",
    scores: pl.DataFrame | None = None,
    progress: Told = lambda done, total: None,
) -> Path:
    """Write the report to `out` and return the page to open first.

    `out` that ends in `.html` is one page; anything else is a folder, new or empty, with `index.html` and a page for each
    drawn call. `calls`: the calls to draw; the first `draw` without them. `sound` makes the sound of a call; without it
    `silent_because` says why there is none. `scores`: see `html.render_page`.

    Raises UsageError for an unknown call, for more calls on one page than `ONE_PAGE`, and for a folder that is not empty;
    OutputError for a full disk.
    """
    known = store.call_ids
    if unknown := [call_id for call_id in calls if call_id not in known]:
        raise UsageError(
            f"there is no call {unknown[0]!r}",
            where=store.root,
            next_step="Name one that `inkplex-data inspect` lists.",
        )
    chosen = list(dict.fromkeys(calls)) or list(known)[:draw]
    drawn = _drawn(store, chosen, sound, silent_because, progress)
    if out.suffix.lower() == ".html":
        if len(chosen) > ONE_PAGE:
            raise UsageError(
                f"one page holds {ONE_PAGE} calls, not {len(chosen):,}",
                where=str(out),
                next_step="Give a folder (`-o report`), or fewer calls.",
            )
        page = render_page(
            store_summary(store),
            store.calls().collect(),
            drawn,
            problems=store.problems().collect(),
            scores=scores,
        )
        with replacing(out) as file:
            file.writelines(piece.encode() for piece in page)
        return out
    with new_folder(out) as folder:
        _write_folder(store, folder, drawn, scores)
    return out / INDEX


def _write_folder(
    store: Store, folder: Path, drawn: Iterable[DrawnCall], scores: pl.DataFrame | None
) -> None:
    summary = store_summary(store)
    links: dict[str, str] = {}
    measures = DrawnMeasures()
    (folder / "calls").mkdir()
    for number, call in enumerate(drawn):
        measures.add(call.view)
        name = f"calls/{number:06d}.html"
        links[call.view.call_id] = name
        _write(folder / name, render_call(call, summary.title))
    page = render_index(
        summary,
        store.calls().collect(),
        links,
        problems=store.problems().collect(),
        measures=measures,
        scores=scores,
    )
    _write(folder / INDEX, page)


def _write(path: Path, pieces: Iterable[str]) -> None:
    with path.open("wb") as file:
        file.writelines(piece.encode() for piece in pieces)


def _drawn(
    store: Store, chosen: Sequence[str], sound: SoundOf | None, silent_because: str, progress: Told
) -> Iterator[DrawnCall]:
    for done, call_id in enumerate(chosen):
        progress(done, len(chosen))
        call = store.call(call_id)
        view = view_of(store, call)
        if sound is None:
            yield DrawnCall(view, None, silent_because)
            continue
        try:
            yield DrawnCall(view, sound(call))
        except CallRefused as error:
            yield DrawnCall(view, None, f"No sound: {error}")
    progress(len(chosen), len(chosen))
