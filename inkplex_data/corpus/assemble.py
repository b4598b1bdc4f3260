"""From what a corpus says about a call to a `CallEntry`: paths, neighbours, sidecar, ids, splits.

The three readers (manifest, Moshi inventory, folder) differ only in how they make drafts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.entry import AgentCaller, CallEntry, ChannelSpec, Clip, CorpusKind, VoiceSegment
from inkplex_data.corpus.families.joined import marks_of
from inkplex_data.corpus.names import check_names
from inkplex_data.corpus.paths import Paths
from inkplex_data.corpus.sidecars.named_files import find_files
from inkplex_data.corpus.sidecars.sidecar import read_sidecar
from inkplex_data.corpus.sidecars.sidecar_models import Prompt, Sidecar
from inkplex_data.corpus.transcripts import word_suffixes
from inkplex_data.errors import CallRefused
from inkplex_data.faults import Fault, FaultError, short
from inkplex_data.problems import Problem, refusal

SIDECAR_SUFFIX = ".sidecar.json"
RECORDING_SUFFIX = ".recording.jsonl"
LINE_INVALID: Final = "corpus-line-invalid"


@dataclass(frozen=True)
class Beside:
    """Stands for: the file beside the audio, if there is one."""


LOOK_BESIDE: Final = Beside()
Named = str | None | Beside


@dataclass(frozen=True)
class Draft:
    """A call as its line or folder states it, nothing checked. `None` in a `Named` field means: there is none."""

    call_id: str
    audio: str | tuple[str, str]
    where: str
    line: int | None = None
    words: Named = LOOK_BESIDE
    sidecar: Named = LOOK_BESIDE
    recording: Named = LOOK_BESIDE
    recording_starts_at_us: int | None = None
    family: str | None = None
    split: str | None = None
    role: str | None = None
    voice: str | None = None
    channels: ChannelSpec | None = None
    text_conditions: dict[str, Any] | None = None
    duration_s: float | None = None
    marks: tuple[str, ...] = ()
    clips: tuple[Clip, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """A call that cannot be built, with every reason that one code covers. `where` is for messages."""

    call_id: str
    where: str
    faults: tuple[Fault, ...]

    def problem(self) -> Problem:
        what = "; ".join(map(str, self.faults))
        return Problem.of_refusal(self.call_id, refusal(self.faults[0].code, what, self.where))


@dataclass
class Listing:
    """A corpus as its folder or lines state it: its kind, the calls they name, and why some lines say nothing."""

    kind: CorpusKind
    drafts: list[Draft] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


@dataclass
class Assembly:
    """Entries in corpus order, refusals, and what is worth knowing of the entries."""

    entries: list[CallEntry] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


def assemble(drafts: Iterable[Draft], paths: Paths) -> Assembly:
    """Check every draft on its own, then what they say together. One bad draft never stops the others."""
    result = Assembly()
    first_by_id: dict[str, Draft] = {}
    for draft in drafts:
        try:
            first = first_by_id.setdefault(draft.call_id, draft)
            if first is not draft:
                # The first stays: with both refused, copying a line would cost a good call.
                rule = f"is already the id of {first.where}"
                raise FaultError(Fault(rule, short(draft.call_id), "/id", code="duplicate-id"))
            entry = _entry(draft, paths)
            check_names(entry, LINE_INVALID)
            result.entries.append(entry)
            result.notes += _not_taken(draft, entry, paths)
        except FaultError as error:
            result.refusals.append(_refusal(draft, *error.faults))
    _agree_on_splits(result, first_by_id)
    return result


def _refusal(draft: Draft, *faults: Fault) -> Refusal:
    return Refusal(draft.call_id, draft.where, tuple(replace(fault, line=draft.line) for fault in faults))


def _entry(draft: Draft, paths: Paths) -> CallEntry:
    if isinstance(draft.audio, str):
        beside = _file(paths, draft.audio, "/path")
        audio: Path | AgentCaller = beside
        source = draft.audio
    else:
        agent, caller = draft.audio
        beside = _file(paths, agent, "/path/agent")
        audio = AgentCaller(beside, _file(paths, caller, "/path/caller"))
        source = f"{agent} + {caller}"
    words = _named(paths, draft.words, beside, word_suffixes(), "/words")
    sidecar_path = _named(paths, draft.sidecar, beside, (SIDECAR_SUFFIX,), "/sidecar")
    recording = _named(paths, draft.recording, beside, (RECORDING_SUFFIX,), "/recording")
    if draft.recording_starts_at_us is not None and recording is None:
        rule = "is given, but the call has no recording"
        raise FaultError(Fault(rule, pointer="/recording_starts_at", code=LINE_INVALID))
    known: tuple[Path | None, ...] = ()
    prompt = Prompt()
    if sidecar_path is not None:
        sidecar = _sidecar(sidecar_path)
        known = find_files(sidecar, sidecar_path.parent, paths)
        draft, prompt = _with_sidecar(draft, sidecar), sidecar.prompt or prompt
    return CallEntry(
        call_id=draft.call_id,
        audio=audio,
        channels=draft.channels,
        words=words,
        sidecar=sidecar_path,
        recording=recording,
        recording_starts_at_us=(draft.recording_starts_at_us or 0) if recording else 0,
        family=draft.family or _default_family(draft.call_id, recording, paths),
        split=draft.split,
        role=draft.role,
        voice=draft.voice,
        text_conditions=draft.text_conditions,
        duration_s=draft.duration_s,
        clips=draft.clips,
        voice_prompt=_voice_prompt(prompt, sidecar_path, paths),
        voice_segment=_voice_segment(prompt),
        past=tuple((turn.speaker, turn.text) for turn in prompt.past),
        source=source,
        where=draft.where,
        marks=draft.marks,
        named=known,
    )


def _voice_prompt(prompt: Prompt, sidecar: Path | None, paths: Paths) -> Path | None:
    """The voice sample's file; None for one that is not there. Raises FaultError for one outside the corpus."""
    if prompt.voice_prompt is None or sidecar is None:
        return None
    beside = sidecar.parent / prompt.voice_prompt.path
    try:
        paths.check_inside(beside, prompt.voice_prompt.path)
    except FaultError as error:
        raise _pointed(error, "/sidecar") from error
    return beside if beside.is_file() else None


def _voice_segment(prompt: Prompt) -> VoiceSegment | None:
    segment = prompt.voice_segment
    if segment is None:
        return None
    return VoiceSegment(segment.call, seconds_to_us(segment.start_s), seconds_to_us(segment.end_s))


def _file(paths: Paths, spelled: str, pointer: str) -> Path:
    try:
        return paths.file(spelled)
    except FaultError as error:
        raise _pointed(error, pointer) from error


def _named(paths: Paths, named: Named, audio: Path, suffixes: tuple[str, ...], pointer: str) -> Path | None:
    if named is None:
        return None
    if isinstance(named, str):
        return _file(paths, named, pointer)
    try:
        return paths.beside(audio, suffixes)
    except FaultError as error:
        raise _pointed(error, pointer) from error


def _not_taken(draft: Draft, entry: CallEntry, paths: Paths) -> list[Problem]:
    """A note on files such as `CALL.wav.json`, where the call has no words: those are `CALL.json`."""
    if entry.words is not None or not isinstance(draft.words, Beside):
        return []
    audio = entry.audio_paths[0]
    found = paths.named(audio.parent, audio.name, word_suffixes())
    if not found:
        return []
    return [Problem.of("words-other-name", entry.call_id, ", ".join(found), item=entry.where)]


def _pointed(error: FaultError, pointer: str) -> FaultError:
    return FaultError(*(replace(fault, pointer=pointer) for fault in error.faults))


def _sidecar(path: Path) -> Sidecar:
    try:
        return read_sidecar(path)
    except CallRefused as error:
        raise FaultError(Fault(error.what, pointer="/sidecar", code=error.code)) from error


def _with_sidecar(draft: Draft, sidecar: Sidecar) -> Draft:
    """Fill in what the line leaves out. Family, split and start must agree where both speak."""
    identity, prompt, updates = sidecar.identity, sidecar.prompt, sidecar.private_updates
    starts_at_us = None
    if updates is not None and updates.mapping is not None:
        starts_at_us = seconds_to_us(updates.mapping.recording_starts_at_s)
    said: dict[str, tuple[object, object]] = {
        "family": (draft.family, identity.family),
        "split": (draft.split, identity.split),
        "recording_starts_at_us": (draft.recording_starts_at_us, starts_at_us),
    }
    channels = _sidecar_channels(draft, sidecar)
    voice = draft.voice or (prompt.voice if prompt is not None else None)
    agent_voice = sidecar.audio.agent.voice if sidecar.audio is not None else None
    said |= {"channels": (draft.channels, channels), "voice": (voice, agent_voice)}
    faults = [
        Fault(
            f"differs from the sidecar's {short(other)}",
            short(line),
            "/" + name.removesuffix("_us"),
            code="sidecar-contradicts",
        )
        for name, (line, other) in said.items()
        if line is not None and other is not None and line != other
    ]
    if faults:
        raise FaultError(*faults)
    return replace(
        draft,
        family=draft.family or identity.family,
        split=draft.split or identity.split,
        recording_starts_at_us=(
            starts_at_us if draft.recording_starts_at_us is None else draft.recording_starts_at_us
        ),
        role=draft.role if draft.role is not None or prompt is None else prompt.role,
        voice=voice or (agent_voice if prompt is None else None),
        channels=draft.channels or channels,
        marks=marks_of(identity),
    )


def _sidecar_channels(draft: Draft, sidecar: Sidecar) -> ChannelSpec | None:
    """The channels of one file where its sidecar names both."""
    audio = sidecar.audio
    if audio is None or not isinstance(draft.audio, str):
        return None
    agent, caller = audio.agent.index, audio.caller.index
    return (
        ChannelSpec(agent, caller) if agent is not None and caller is not None and agent != caller else None
    )


def _default_family(call_id: str, recording: Path | None, paths: Paths) -> str:
    """Calls over one recording share its evidence, so they default to one family; others are their own."""
    if recording is None:
        return call_id
    real = recording.resolve()
    shown = real.relative_to(paths.root) if real.is_relative_to(paths.root) else real
    return shown.as_posix().removesuffix(".jsonl").removesuffix(".recording")


def _agree_on_splits(result: Assembly, drafts: dict[str, Draft]) -> None:
    """Refuse the families whose calls name different splits; let the silent calls of the others follow."""
    named: dict[str, dict[str, str]] = {}
    for entry in result.entries:
        if entry.split is not None:
            named.setdefault(entry.family, {}).setdefault(entry.split, entry.where)
    kept = []
    for entry in result.entries:
        splits = named.get(entry.family, {})
        if len(splits) > 1:
            places = ", ".join(f"{split} in {where}" for split, where in splits.items())
            rule = f"is not the only split of family {entry.family!r}: {places}"
            fault = Fault(rule, short(entry.split), "/split", code="split-conflict")
            result.refusals.append(_refusal(drafts[entry.call_id], fault))
        else:
            kept.append(replace(entry, split=next(iter(splits), None)))
    result.entries = kept


def without_suffix(spelled: str) -> str:
    """A path without its last suffix, as the Moshi layout derives a word file's name: `a.b.wav` → `a.b`."""
    path = Path(spelled)
    return path.with_name(path.stem).as_posix() if path.name else spelled


def path_ids(spelled: list[str]) -> list[str]:
    """Ids of calls that have none: the path without its suffix, or with it where two would be equal."""
    stems = [without_suffix(path) for path in spelled]
    count: dict[str, set[str]] = {}
    for stem, path in zip(stems, spelled, strict=True):
        count.setdefault(stem, set()).add(path)
    return [stem if len(count[stem]) == 1 else path for stem, path in zip(stems, spelled, strict=True)]
