"""The times of a logged request, under the names that logs give them."""

from __future__ import annotations

from typing import Any, Final

_STARTS: Final = ("start_time", "startTime", "started_at", "start", "request_time", "requested_at")
_FIRSTS: Final = ("first_token_time", "completionStartTime", "completion_start_time", "first_token_at")
_ENDS: Final = ("end_time", "endTime", "completed_at", "ended_at", "finished_at", "end", "response_time")


def entry_times(entry: dict[str, Any], created: object = None) -> dict[str, Any]:
    """`start`, `first` and `end` of an entry, as it has them, None where it does not.

    `created` is the whole second in which the interface made its response: the request was there when it was over.
    """
    start, first, end = (
        next((entry[name] for name in names if entry.get(name) is not None), None)
        for names in (_STARTS, _FIRSTS, _ENDS)
    )
    if start is None and isinstance(created, (int, float)) and not isinstance(created, bool):
        start = created + 1
    return {"start": start, "first": first, "end": end}
