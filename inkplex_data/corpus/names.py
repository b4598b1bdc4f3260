"""Whether what a corpus says of a call can be written down: its names, and the texts that go with it."""

from __future__ import annotations

import json
import re
from typing import Final

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.faults import Fault, FaultError, short
from inkplex_data.printable import is_unicode

UNNAMABLE: Final = "call-unnamable"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def name_fault(name: str) -> str | None:
    """The rule that `name` breaks as an id or path: that of `fields.Name`, which every reader has."""
    if not name:
        return "is empty"
    if not is_unicode(name):
        return "is not UTF-8"
    return "holds a control character" if _CONTROL.search(name) else None


def check_names(entry: CallEntry, line_code: str) -> None:
    """Raise FaultError under `call-unnamable` for the call's own name, else under `line_code`."""
    for name in (entry.call_id, entry.source):
        if rule := name_fault(name):
            raise FaultError(Fault(f"its name {rule}", short(name), code=UNNAMABLE))
    faults = [
        Fault(rule, short(name), f"/{field}", code=line_code)
        for field, name in (("family", entry.family), ("voice", entry.voice))
        if name is not None and (rule := name_fault(name))
    ]
    for field, text in (("role", entry.role or ""), ("text_conditions", entry.text_conditions)):
        if not is_unicode(json.dumps(text, ensure_ascii=False)):
            faults.append(Fault("holds half a surrogate pair", short(text), f"/{field}", code=line_code))
    if faults:
        raise FaultError(*faults)
