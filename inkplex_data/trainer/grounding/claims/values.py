"""Amounts, dates, times and numbers in words, with the words that say them. Pure; English.

Written and spoken forms give the same readings: `$84.50`, "eighty-four dollars and fifty cents" and "eighty-four
fifty". Words are spelled out by `speech.spoken_form`, as in the speech check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inkplex_data.speech.check.facts import DAYS, MONTHS
from inkplex_data.speech.spoken_form import CURRENCIES, ONES, ORDINALS
from inkplex_data.trainer.grounding.claims.readings import Amount, Date, Number, Reading, Time, kind_of
from inkplex_data.trainer.grounding.claims.spoken_units import (
    DIGIT_WORDS,
    TENS_WORDS,
    Unit,
    decimal_at,
    said_time,
    time24,
    unit_text,
    whole_at,
    written_units,
)

_ORDINAL = {ORDINALS.get(name, f"{name}th"): value for value, name in enumerate(ONES) if value} | {
    "twentieth": 20,
    "thirtieth": 30,
}
_LARGE: Final = dict.fromkeys(("dollar", "dollars", "buck", "bucks"), "dollar") | {
    "pound": "pound", "pounds": "pound", "euro": "euro", "euros": "euro",
}  # fmt: skip
_SMALL: Final = {"cent": None, "cents": None, "penny": "pound", "pence": "pound"}
_BEFORE_TIME: Final = frozenset(
    {"at", "by", "until", "till", "from", "around", "before", "after", "past", "to"}
)
_DAY_PARTS: Final = {"morning": "am", "afternoon": "pm", "evening": "pm", "night": "pm"}
_NEAR: Final = frozenset({"today", "tonight", "tomorrow", "yesterday"})
_ONE_WORDS: Final = frozenset({"one", "second", "oh"})


@dataclass(frozen=True)
class Found:
    """Words [first, last] of a text, and what they can mean: the first reading is the likeliest."""

    readings: tuple[Reading, ...]
    first: int
    last: int

    @property
    def kind(self) -> str:
        return kind_of(self.readings[0])


def find_values(words: Sequence[str]) -> list[Found]:
    """Every amount, date, time and number of a text, in order; none overlaps another.

    >>> [(one.kind, one.first, one.last) for one in find_values("It is $9 on Friday, May 1st.".split())]
    [('amount', 2, 2), ('date', 4, 6)]
    """
    units = [
        unit for index, word in enumerate(words) for unit in _with_currency(word, written_units(word, index))
    ]
    found: list[Found] = []
    at = 0
    while at < len(units):
        for read in (_exact, _date, _time, _amount, _number):
            step = read(units, at)
            if step is not None:
                readings, end = step
                found.append(Found(readings, units[at].word, units[end - 1].word))
                at = end
                break
        else:
            at += 1
    return found


def _with_currency(word: str, units: list[Unit]) -> list[Unit]:
    """The units of a written word; what a currency sign makes an amount is one of its own, whatever follows."""
    if units and word.lstrip("\"'(“")[:1] in CURRENCIES:
        step = _amount(units, 0)
        if step is not None and step[1] == len(units):
            return [Unit("", units[0].word, exact=step[0], ends=units[-1].ends)]
    return units


_Step = tuple[tuple[Reading, ...], int] | None
"""Readings, and the unit after them."""


def _exact(units: Sequence[Unit], at: int) -> _Step:
    readings = units[at].exact
    if not readings:
        return None
    end = at + 1
    if isinstance(readings[0], Time) and readings[0].half is None:
        half, end = _half_after(units, end)
        readings = (Time(readings[0].minutes, half),)
    return readings, end


def _date(units: Sequence[Unit], at: int) -> _Step:
    """A weekday, a day of a month, or both, one after the other."""
    parts: list[Date] = []
    end = at
    while end < len(units):
        step = _date_part(units, end, lone=not parts)
        if step is None or any(_both(step[0], part) for part in parts):
            break
        parts.append(step[0])
        end = step[1]
    if not parts:
        return None
    fields = {name: value for part in parts for name, value in vars(part).items() if value is not None}
    return (Date(**fields),), end


def _both(one: Date, other: Date) -> bool:
    return any(
        a is not None and b is not None for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


def _date_part(units: Sequence[Unit], at: int, *, lone: bool) -> tuple[Date, int] | None:
    text = units[at].text
    if (weekday := text.removesuffix("s")) in DAYS:
        return Date(weekday=DAYS.index(weekday)), at + 1
    if text in _NEAR and lone:
        return Date(near="today" if text == "tonight" else text), at + 1
    return _month_day(units, at) or _day_month(units, at, lone=lone)


def _month_day(units: Sequence[Unit], at: int) -> tuple[Date, int] | None:
    """March, March 14th, March the fourteenth, March 14, 2026."""
    month = _month(units[at])
    if month is None:
        return None
    after = at + 1 + (unit_text(units, at + 1) == "the")
    day = _ordinal(units, after) or _day_number(units, after)
    if day is None:
        return (Date(month=month), at + 1) if units[at].text not in ("may", "march") else None
    year = _year(units, day[1])
    return (Date(year[0], month, day[0]), year[1]) if year else (Date(month=month, day=day[0]), day[1])


def _day_month(units: Sequence[Unit], at: int, *, lone: bool) -> tuple[Date, int] | None:
    """14 March, fourteenth of March, the fourteenth."""
    begin = at + (units[at].text == "the")
    ordinal = _ordinal(units, begin)
    day = ordinal or (_day_number(units, at) if begin == at else None)
    if day is None:
        return None
    after = day[1] + (ordinal is not None and unit_text(units, day[1]) == "of")
    month = _month(units[after]) if after < len(units) else None
    if month is not None:
        return Date(month=month, day=day[0]), after + 1
    # "the first" and "the second" are more often something else than a day of a month.
    on = at > 0 and units[at - 1].text == "on"
    dated = not lone or on or (day[0] > 3 and _ends_phrase(units, day[1]))
    return (Date(day=day[0]), day[1]) if begin > at and dated else None


def _ends_phrase(units: Sequence[Unit], at: int) -> bool:
    stops = {
        "at",
        "is",
        "works",
        "was",
        "and",
        "or",
        "for",
        "in",
        "but",
        "if",
        "then",
        "will",
        "would",
        "between",
    }
    return at >= len(units) or units[at - 1].ends or units[at].text in stops


def _month(unit: Unit) -> int | None:
    if unit.text not in MONTHS or (unit.text in ("may", "march") and not unit.capital):
        return None
    return MONTHS.index(unit.text) + 1


def _ordinal(units: Sequence[Unit], at: int) -> tuple[int, int] | None:
    """Day of a month as an ordinal: fourteenth, twenty first."""
    text = unit_text(units, at)
    if text in _ORDINAL:
        return _ORDINAL[text], at + 1
    tens = TENS_WORDS.get(text)
    ones = _ORDINAL.get(unit_text(units, at + 1), 10)
    return (tens + ones, at + 2) if tens in (20, 30) and ones < 10 and tens + ones < 32 else None


def _day_number(units: Sequence[Unit], at: int) -> tuple[int, int] | None:
    step = whole_at(units, at, largest=31)
    return step if step is not None and step[0] > 0 else None


def _year(units: Sequence[Unit], at: int) -> tuple[int, int] | None:
    first = whole_at(units, at, largest=99)
    second = None if first is None else whole_at(units, first[1], largest=99)
    if first is not None and second is not None and first[0] in (19, 20) and second[0] > 9:
        return first[0] * 100 + second[0], second[1]
    whole = whole_at(units, at, largest=2_100)
    return whole if whole is not None and whole[0] >= 1_900 else None


def _time(units: Sequence[Unit], at: int) -> _Step:
    text = unit_text(units, at)
    if text in ("noon", "midday", "midnight"):
        return (Time(0, "am" if text == "midnight" else "pm"),), at + 1
    return _around_the_hour(units, at) or _hour_and_minutes(units, at)


def _around_the_hour(units: Sequence[Unit], at: int) -> _Step:
    """Half past three, quarter to four, twenty to eleven."""
    text = unit_text(units, at)
    minutes = (
        (30 if text == "half" else 15, at + 1)
        if text in ("half", "quarter")
        else whole_at(units, at, largest=29)
    )
    if minutes is None or not minutes[0] or minutes[0] % 5:
        return None
    side = unit_text(units, minutes[1])
    hour = whole_at(units, minutes[1] + 1, largest=12)
    if side not in ("past", "to") or hour is None or not hour[0]:
        return None
    half, end = _half_after(units, hour[1])
    return (said_time(hour[0], minutes[0] if side == "past" else -minutes[0], half),), end


def _hour_and_minutes(units: Sequence[Unit], at: int) -> _Step:
    """Three o'clock, three thirty pm, at three."""
    hour = whole_at(units, at, largest=12)
    if hour is None or not hour[0]:
        return None
    if unit_text(units, hour[1]) == "o'clock":
        half, end = _half_after(units, hour[1] + 1)
        return (said_time(hour[0], 0, half),), end
    minute = None if units[hour[1] - 1].ends else _minute(units, hour[1])
    end = minute[1] if minute else hour[1]
    half, after = _half_after(units, end)
    if after == end and not (at and units[at - 1].text in _BEFORE_TIME and _may_end_time(units, end)):
        return None
    time = said_time(hour[0], minute[0] if minute else 0, half)
    if after > end:
        return (time,), after
    digits = f"{hour[0]}{minute[0]:02}" if minute else str(hour[0])
    return (time, *((Amount(hour[0] * 100 + minute[0]),) if minute else ()), Number(digits)), end


def _may_end_time(units: Sequence[Unit], at: int) -> bool:
    """Whether what follows leaves a bare hour a time: not a noun that is counted."""
    after = unit_text(units, at)
    follows = {
        "on",
        "in",
        "and",
        "or",
        "to",
        "until",
        "if",
        "for",
        "with",
        "works",
        "is",
        "then",
        *DAYS,
        *_NEAR,
    }
    return units[at - 1].ends or not after or after in follows or after in MONTHS


def _minute(units: Sequence[Unit], at: int) -> tuple[int, int] | None:
    if unit_text(units, at) in ("oh", "zero"):
        ones = whole_at(units, at + 1, largest=9)
        return None if ones is None or ones[0] == 0 else (ones[0], ones[1])
    step = whole_at(units, at, largest=59)
    return step if step is not None and step[0] > 9 else None


def _half_after(units: Sequence[Unit], at: int) -> tuple[str | None, int]:
    text = unit_text(units, at)
    if text in ("am", "pm") and not units[at - 1].ends:
        return text, at + 1
    if text == "in" and unit_text(units, at + 1) == "the" and unit_text(units, at + 2) in _DAY_PARTS:
        return _DAY_PARTS[unit_text(units, at + 2)], at + 3
    if text == "at" and unit_text(units, at + 1) == "night":
        return "pm", at + 2
    return None, at


def _amount(units: Sequence[Unit], at: int) -> _Step:
    step = decimal_at(units, at)
    if step is None:
        return None
    value, end = step
    text = unit_text(units, end)
    if text in _SMALL:
        return (Amount(int(float(value)), _SMALL[text]),), end + 1
    if text not in _LARGE:
        return None
    hundredths, end = round(float(value) * 100), end + 1
    after = end + (unit_text(units, end) == "and")
    cents = None if units[end - 1].ends else whole_at(units, after, largest=99)
    if cents is not None and (unit_text(units, cents[1]) in _SMALL or (after == end and cents[0] > 9)):
        hundredths += cents[0]
        end = cents[1] + (unit_text(units, cents[1]) in _SMALL)
    return (Amount(hundredths, _LARGE[text]),), end


def _number(units: Sequence[Unit], at: int) -> _Step:
    """A number, or several in a row that spell one out: four four seven one, eighty-four fifty."""
    if units[at].text in _ONE_WORDS and not _counts(units, at):
        return None
    parts: list[str] = []
    end = at
    while end < len(units):
        step = decimal_at(units, end)
        if step is None or (parts and units[end - 1].ends and not _goes_on(parts, step[0])):
            break
        parts.append(step[0])
        end = step[1]
    if not parts:
        return None
    readings: list[Reading] = [Number("".join(parts) if "." not in "".join(parts) else parts[0])]
    if "." in "".join(parts) and len(parts) > 1:
        return (Number(parts[0]),), decimal_at(units, at)[1]  # type: ignore[index]
    if len(parts) == 2 and len(parts[1]) == 2:
        readings.append(Amount(int(parts[0]) * 100 + int(parts[1])))
        if 0 < int(parts[0]) < 13 and int(parts[1]) < 60:
            readings.append(said_time(int(parts[0]), int(parts[1]), None))
        elif 12 < int(parts[0]) < 24 and int(parts[1]) < 60:
            readings.append(time24(int(parts[0]), int(parts[1])))
    return tuple(readings), end


def _goes_on(parts: Sequence[str], following: str) -> bool:
    """Whether single digits go on behind a comma: five five five, zero one."""
    return len(parts) > 1 and len(following) == 1 and all(len(part) == 1 for part in parts)


def _counts(units: Sequence[Unit], at: int) -> bool:
    """Whether an ambiguous word is part of a number that is spelled out, or follows what it numbers."""
    numbered = {"number", "gate", "room", "platform", "line", "option", "desk", "terminal", "point"}
    return (
        decimal_at(units, at + 1) is not None
        or (at > 0 and units[at - 1].text in numbered)
        or (at > 0 and units[at - 1].text in DIGIT_WORDS)
    )
