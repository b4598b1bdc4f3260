"""`import trace`: every dialogue of a file becomes a recording of its own."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inkplex_data import __version__
from inkplex_data.atomic import only_writer, replacing
from inkplex_data.clock import us_to_seconds
from inkplex_data.corpus.assemble import RECORDING_SUFFIX
from inkplex_data.corpus.jsontext import read_document
from inkplex_data.corpus.recordings.recording_models import HEADER_SCHEMA
from inkplex_data.corpus.recordings.vocabulary import BYTES, O200K, load_vocabulary
from inkplex_data.corpus.traces import TraceFile, read_traces
from inkplex_data.corpus.traces.arrival_schedule import Timed, TraceSchedule, time_requests
from inkplex_data.corpus.traces.dialogue import Dialogue, Moment, bad_message
from inkplex_data.corpus.traces.dialogue_requests import Encoder, InklingEncoder, Spelled
from inkplex_data.corpus.traces.template import TemplateEncoder
from inkplex_data.errors import CallRefused, CorpusError
from inkplex_data.plural import counted
from inkplex_data.printable import in_unicode
from inkplex_data.problems import Problem, ProblemLog
from inkplex_data.reading import read_bounded

Progress = Callable[[int, int], None]
"""Called with the dialogues done and to do."""

_UNSAFE: Final = re.compile(r"[^\w.-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class ImportedTrace:
    """One recording that was written."""

    path: Path
    recording: str
    requests: int
    tokens: int
    end_us: int
    times: str


@dataclass(frozen=True)
class TraceImport:
    """What became of a file. `refused` are dialogues that could not be read, by their place in it; `unread`: each field
    and role of those that were written that is not understood, with how often it stands there."""

    format: str
    tokenizer: str
    written: tuple[ImportedTrace, ...]
    refused: tuple[Problem, ...]
    unread: tuple[Problem, ...] = ()


def import_traces(
    path: Path,
    out: Path,
    *,
    tokenizer: str | None = None,
    schedule: TraceSchedule | None = None,
    format_name: str | None = None,
    moments: Moment = "end",
    progress: Progress | None = None,
) -> TraceImport:
    """Write `OUT/ID.recording.jsonl` for every dialogue of the trace file `path`.

    `tokenizer`: see `encoder_for`. `schedule` stands in for times that the trace does not have; a recording
    with a time of it says `times: constructed`. `moments`: what a message's time is where it has only one. The same file gives the same bytes. A dialogue that cannot
    be read is refused, and the others are written.

    Raises CorpusError for a file that is no trace, ConfigError and UsageError for a tokenizer or format
    that is not there, OutputError as `only_writer` does.
    """
    traces = read_traces(path, format_name)
    encoder = encoder_for(tokenizer)
    schedule = schedule or TraceSchedule()
    provenance = {
        "importer": f"inkplex-data {__version__}",
        "format": traces.format.name,
        "file": in_unicode(path.name),
        "sha256": hashlib.sha256(read_bounded(path)).hexdigest(),
        "message_times": moments,
    }
    unread: Counter[tuple[str, str]] = Counter()
    written: list[ImportedTrace] = []
    refused = [ProblemLog(path.name).refuse(fault) for fault in traces.faults]
    names = recording_ids(traces)
    with only_writer(out, command="import trace"):
        for index, (found, name) in enumerate(zip(traces.found, names, strict=True)):
            try:
                dialogue = traces.format.parse(found).with_moments(moments)
                timed = _timed(dialogue, encoder, schedule)
            except CallRefused as error:
                refused.append(ProblemLog(name).refuse(error))
            else:
                target = out / f"{_UNSAFE.sub('_', name)}{RECORDING_SUFFIX}"
                header = _header(name, encoder.identity, dialogue, timed, provenance)
                if not timed.recorded:
                    header["schedule"] = schedule.model_dump(mode="json")
                _write(target, header, timed)
                written.append(_imported(target, name, timed))
                unread += dialogue.unread
            if progress is not None:
                progress(index + 1, len(traces.found))
    lost = [
        Problem.of(
            code,
            path.name,
            f"{in_unicode(name)!r} stands in {counted(places, 'place')} and is not understood",
            item=in_unicode(name),
        )
        for (code, name), places in sorted(unread.items())
    ]
    return TraceImport(traces.format.name, encoder.identity, tuple(written), tuple(refused), tuple(lost))


def encoder_for(tokenizer: str | None) -> Encoder:
    """What renders and tokenises: a tokenizer's own chat template, or Inkling's framing.

    `tokenizer`: a folder, `tokenizer.json` or hub id, whose chat template is applied where it has one;
    `o200k` (the default) or `bytes` for an offline vocabulary. Raises ConfigError and UsageError.
    """
    if tokenizer is None or tokenizer in (O200K, BYTES):
        return InklingEncoder(load_vocabulary(tokenizer))
    path = Path(tokenizer)
    if path.exists():
        folder = path if path.is_dir() else path.parent
        return (
            TemplateEncoder(folder) if _has_template(folder) else InklingEncoder(load_vocabulary(tokenizer))
        )
    if re.fullmatch(r"[\w.-]+/[\w.-]+", tokenizer) and path.suffix != ".json":
        return TemplateEncoder(tokenizer)
    return InklingEncoder(load_vocabulary(tokenizer))


def recording_ids(traces: TraceFile) -> list[str]:
    """Ids of the recordings: the file's name with each dialogue's own id, or with its number.

    The number is taken for all where two have one id, or would get one file name.
    """
    stem = _CONTROL.sub("_", traces.path.name.split(".")[0] or "trace")
    own = [_CONTROL.sub("_", found.id) for found in traces.found]
    files = {_UNSAFE.sub("_", name).lower() for name in own}
    if not all(own) or len(files) < len(own):
        width = max(4, len(str(len(own) - 1)))
        own = [f"{index:0{width}d}" for index in range(len(own))]
    return [f"{stem}-{name}" for name in own]


def _has_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file():
        return True
    try:
        config = read_document(folder / "tokenizer_config.json")
    except (OSError, CorpusError):
        return False
    return isinstance(config, dict) and bool(config.get("chat_template"))


def _timed(dialogue: Dialogue, encoder: Encoder, schedule: TraceSchedule) -> Timed:
    try:
        timed = time_requests(dialogue, encoder.requests(dialogue), schedule)
        if not timed.requests:
            raise bad_message(dialogue.place, "holds nothing that a model could read")
        return timed
    except UnicodeError as error:
        raise bad_message(dialogue.place, f"holds text that is not Unicode ({error})") from error


def _header(
    name: str, tokenizer: str, dialogue: Dialogue, timed: Timed, provenance: dict[str, Any]
) -> dict[str, Any]:
    details: dict[str, Any] = {**provenance, "place": dialogue.place or "/", **dialogue.details}
    # Of a recorded session nobody measured how long its prompts took: their rows count from their last message, or
    # from the beginning of the answer where that is known.
    details["prefill"] = "not measured" if timed.recorded else "by the schedule"
    if dialogue.unread:
        details["not_understood"] = {name: places for (_, name), places in sorted(dialogue.unread.items())}
    if timed.starts_at_us:
        details["session_starts_at_s"] = us_to_seconds(timed.starts_at_us)
    return {
        "schema": HEADER_SCHEMA,
        "recording": name,
        "tokenizer": tokenizer,
        "times": "recorded" if timed.recorded else "constructed",
        "provenance": details,
    }


def _write(path: Path, header: dict[str, Any], timed: Timed) -> None:
    with replacing(path) as file:
        for line in (header, *_lines(timed)):
            text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
            # Half a pair in the text of a token was refused; names and notes of the trace may have one.
            file.write(in_unicode(text).encode() + b"\n")


def _lines(session: Timed) -> Iterator[dict[str, Any]]:
    for number, timed in enumerate(session.requests):
        request = timed.request
        tokens = [
            _token(token, at_us, timed.ready_at_us, session.events_us[token.message])
            for token, at_us in zip(request.prompt, timed.prompt_at_us, strict=True)
        ]
        tokens += [
            _token(token, at_us, at_us)
            for token, at_us in zip(request.generated, timed.generated_at_us, strict=True)
        ]
        cached = {"call": number - 1, "tokens": request.cached} if request.cached else None
        yield {"call": number, "cached": cached, "tokens": tokens}


def _token(token: Spelled, at_us: int, ready_at_us: int, event_us: int | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": token.id, "kind": token.kind}
    if token.media is None:
        try:
            fields["text"] = token.spelled.decode()
        except UnicodeDecodeError:
            fields["bytes_b64"] = base64.b64encode(token.spelled).decode()
    fields["at"] = us_to_seconds(at_us)
    if ready_at_us > at_us:
        fields["ready_at"] = us_to_seconds(ready_at_us)
    # Two clocks of a trace may disagree: what is said to have happened after it was known says nothing.
    if event_us is not None and event_us <= at_us:
        fields["event_at"] = us_to_seconds(event_us)
    if token.special:
        fields["special"] = True
    if token.media is not None:
        fields["media"] = token.media
    return fields


def _imported(path: Path, name: str, timed: Timed) -> ImportedTrace:
    tokens = sum(len(one.request.prompt) + len(one.request.generated) for one in timed.requests)
    times = "recorded" if timed.recorded else "constructed"
    return ImportedTrace(path, name, len(timed.requests), tokens, timed.end_us, times)
