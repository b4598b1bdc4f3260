"""Amounts, dates, times and numbers in words, with the words that say them. Pure; English.

Written and spoken forms give the same readings: `$84.50`, "eighty-four dollars and fifty cents" and "eighty-four
fifty". Words are spelled out by `speech.spoken_form`, as in the speech check.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from inkplex_data.speech.check.facts import DAYS, MONTHS
from inkplex_data.speech.spoken_form import CURRENCIES, ONES, ORDINALS, TENS, spoken
from inkplex_data.trainer.grounding.readings import Amount, Date, Number, Reading, Time, kind_of

_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})\S*)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?(?:\s*([ap])\.?m\.?)?", re.IGNORECASE)
_HOUR = re.compile(r"(\d{1,2})\s*([ap])\.?m\.?", re.IGNORECASE)
_WRITTEN = re.compile(r"\d{1,12}(?:\.\d+)?|\d{1,3}(?:,\d{3}){1,3}(?:\.\d+)?")
_STOPS = (",", ";", ":", "—", ".", "?", "!")
_HALF = re.compile(r"([ap])\.?\s*m\.?", re.IGNORECASE)
_UNITS = {name: value for value, name in enumerate(ONES)} | {"oh": 0}
_TENS = {name: 10 * value for value, name in enumerate(TENS) if name}
_SIZES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_ORDINAL = {ORDINALS.get(name, f"{name}th"): value for value, name in enumerate(ONES) if value} | {
    "twentieth": 20,
    "thirtieth": 30,
}
_LARGE: Final = {one: "dollar" for one in ("dollar", "dollars", "buck", "bucks")} | {
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


@dataclass(frozen=True)
class _Unit:
    """One spoken word of written word `word`, or a value that the written word spells (`exact`)."""

    text: str
    word: int
    capital: bool = False
    exact: tuple[Reading, ...] = ()
    ends: bool = False
    """Whether a comma or the like stands after it: a date may go on behind it, an amount or a number does not."""
    digits: str = ""
    """The number that it writes in digits."""


def find_values(words: Sequence[str]) -> list[Found]:
    """Every amount, date, time and number of a text, in order; none overlaps another.

    >>> [(one.kind, one.first, one.last) for one in find_values("It is $9 on Friday, May 1st.".split())]
    [('amount', 2, 2), ('date', 4, 6)]
    """
    units = [unit for index, word in enumerate(words) for unit in _units(word, index)]
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


_Step = tuple[tuple[Reading, ...], int] | None
"""Readings, and the unit after them."""


def _units(word: str, index: int) -> list[_Unit]:
    plain = word.strip("\"'()[]“”,.;:!?")
    if iso := _ISO.fullmatch(plain):
        year, month, day, hour, minute = (None if part is None else int(part) for part in iso.groups())
        assert year is not None and month is not None and day is not None
        try:
            weekday = date(year, month, day).weekday()
        except ValueError:
            return []
        units = [_Unit("", index, exact=(Date(year, month, day, weekday),))]
        if hour is not None and minute is not None and hour < 24 and minute < 60:
            units.append(_Unit("", index, exact=(_time24(hour, minute),)))
        return units
    if (clock := _CLOCK.fullmatch(plain)) and int(clock[1]) < 25 and int(clock[2]) < 60:
        return [_Unit("", index, exact=(_clock(clock[1], clock[2], clock[3]),))]
    if (hour_only := _HOUR.fullmatch(plain)) and 0 < int(hour_only[1]) < 13:
        return [_Unit("", index, exact=(_clock(hour_only[1], "00", hour_only[2]),))]
    if half := _HALF.fullmatch(plain):
        return [_Unit(f"{half[1].lower()}m", index)]
    if written := _WRITTEN.fullmatch(plain):
        return [_Unit("", index, ends=word[-1:] in _STOPS, digits=written[0].replace(",", ""))]
    capital = plain[:1].isupper()
    pieces = [piece for piece in re.split(r"(?<=[A-Za-z])-(?=[A-Za-z])", word) if piece]
    units = [_Unit(unit, index, capital) for piece in pieces for unit in spoken(piece)]
    if units and word[-1:] in _STOPS:
        units[-1] = _Unit(units[-1].text, index, capital, ends=True)
    if plain[:1] in CURRENCIES and units:
        step = _amount(units, 0)
        if step is not None and step[1] == len(units):
            return [_Unit("", index, exact=step[0], ends=units[-1].ends)]
    return units


def _exact(units: Sequence[_Unit], at: int) -> _Step:
    readings = units[at].exact
    if not readings:
        return None
    end = at + 1
    if isinstance(readings[0], Time) and readings[0].half is None:
        half, end = _half_after(units, end)
        readings = (Time(readings[0].minutes, half),)
    return readings, end


def _date(units: Sequence[_Unit], at: int) -> _Step:
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


def _date_part(units: Sequence[_Unit], at: int, *, lone: bool) -> tuple[Date, int] | None:
    unit = units[at]
    if unit.text in DAYS:
        return Date(weekday=DAYS.index(unit.text)), at + 1
    if unit.text.removesuffix("s") in DAYS and unit.text.endswith("s"):
        return Date(weekday=DAYS.index(unit.text.removesuffix("s"))), at + 1
    if unit.text in _NEAR and lone:
        return Date(near="today" if unit.text == "tonight" else unit.text), at + 1
    month = _month(unit)
    if month is not None:
        after = at + 1 + (_text(units, at + 1) == "the")
        day = _ordinal(units, after) or _day_number(units, after)
        if day is None:
            return (Date(month=month), at + 1) if unit.text not in ("may", "march") else None
        year = _year(units, day[1])
        return (Date(year[0], month, day[0]), year[1]) if year else (Date(month=month, day=day[0]), day[1])
    number = _day_number(units, at)
    if number is not None and number[1] < len(units) and (month := _month(units[number[1]])) is not None:
        return Date(month=month, day=number[0]), number[1] + 1
    begin = at + (unit.text == "the")
    day = _ordinal(units, begin)
    if day is None or (begin == at and not (at + 1 < len(units) and _text(units, day[1]) in ("of", *MONTHS))):
        return None
    after = day[1] + (_text(units, day[1]) == "of")
    month = _month(units[after]) if after < len(units) else None
    if month is not None:
        return Date(month=month, day=day[0]), after + 1
    # "the first" and "the second" are more often something else than a day of a month.
    dated = (
        not lone or (at > 0 and units[at - 1].text == "on") or (day[0] > 3 and _ends_phrase(units, day[1]))
    )
    return (Date(day=day[0]), day[1]) if begin > at and dated else None


def _ends_phrase(units: Sequence[_Unit], at: int) -> bool:
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


def _month(unit: _Unit) -> int | None:
    if unit.text not in MONTHS or (unit.text in ("may", "march") and not unit.capital):
        return None
    return MONTHS.index(unit.text) + 1


def _ordinal(units: Sequence[_Unit], at: int) -> tuple[int, int] | None:
    """Day of a month as an ordinal: fourteenth, twenty first."""
    text = _text(units, at)
    if text in _ORDINAL:
        return _ORDINAL[text], at + 1
    tens = _TENS.get(text)
    ones = _ORDINAL.get(_text(units, at + 1), 10)
    return (tens + ones, at + 2) if tens in (20, 30) and ones < 10 and tens + ones < 32 else None


def _day_number(units: Sequence[_Unit], at: int) -> tuple[int, int] | None:
    step = _whole(units, at, largest=31)
    return step if step is not None and step[0] > 0 else None


def _year(units: Sequence[_Unit], at: int) -> tuple[int, int] | None:
    first = _whole(units, at, largest=99)
    second = None if first is None else _whole(units, first[1], largest=99)
    if first is not None and second is not None and first[0] in (19, 20) and second[0] > 9:
        return first[0] * 100 + second[0], second[1]
    whole = _whole(units, at, largest=2_100)
    return whole if whole is not None and whole[0] >= 1_900 else None


def _time(units: Sequence[_Unit], at: int) -> _Step:
    text = _text(units, at)
    if text in ("noon", "midday", "midnight"):
        return (Time(0, "am" if text == "midnight" else "pm"),), at + 1
    if text in ("half", "quarter"):
        word, minutes = _text(units, at + 1), 30 if text == "half" else 15
        hour = _whole(units, at + 2, largest=12)
        if hour is None or word not in ("past", "to", "after") or not hour[0]:
            return None
        half, end = _half_after(units, hour[1])
        return (_said_time(hour[0], minutes if word != "to" else -minutes, half),), end
    minutes_of = _whole(units, at, largest=29)
    if minutes_of is not None and minutes_of[0] and _text(units, minutes_of[1]) in ("past", "to"):
        of = _whole(units, minutes_of[1] + 1, largest=12)
        if minutes_of[0] % 5 == 0 and of is not None and of[0]:
            half, end = _half_after(units, of[1])
            sign = 1 if _text(units, minutes_of[1]) == "past" else -1
            return (_said_time(of[0], sign * minutes_of[0], half),), end
    hour = _whole(units, at, largest=12)
    if hour is None or not hour[0]:
        return None
    if _text(units, hour[1]) == "o'clock":
        half, end = _half_after(units, hour[1] + 1)
        return (_said_time(hour[0], 0, half),), end
    minute = None if units[hour[1] - 1].ends else _minute(units, hour[1])
    end = minute[1] if minute else hour[1]
    half, after = _half_after(units, end)
    if after == end and not (at and units[at - 1].text in _BEFORE_TIME and _may_end_time(units, end)):
        return None
    time = _said_time(hour[0], minute[0] if minute else 0, half)
    if after > end:
        return (time,), after
    digits = f"{hour[0]}{minute[0]:02}" if minute else str(hour[0])
    return (time, *((Amount(hour[0] * 100 + minute[0]),) if minute else ()), Number(digits)), end


def _may_end_time(units: Sequence[_Unit], at: int) -> bool:
    """Whether what follows leaves a bare hour a time: not a noun that is counted."""
    after = _text(units, at)
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


def _minute(units: Sequence[_Unit], at: int) -> tuple[int, int] | None:
    if _text(units, at) in ("oh", "zero"):
        ones = _whole(units, at + 1, largest=9)
        return None if ones is None or ones[0] == 0 else (ones[0], ones[1])
    step = _whole(units, at, largest=59)
    return step if step is not None and step[0] > 9 else None


def _half_after(units: Sequence[_Unit], at: int) -> tuple[str | None, int]:
    text = _text(units, at)
    if text in ("am", "pm") and not units[at - 1].ends:
        return text, at + 1
    if text == "in" and _text(units, at + 1) == "the" and _text(units, at + 2) in _DAY_PARTS:
        return _DAY_PARTS[_text(units, at + 2)], at + 3
    if text == "at" and _text(units, at + 1) == "night":
        return "pm", at + 2
    return None, at


def _said_time(hour: int, minutes: int, half: str | None) -> Time:
    return Time((hour % 12 * 60 + minutes) % 720, half)


def _time24(hour: int, minute: int) -> Time:
    return Time(hour % 12 * 60 + minute, "pm" if hour >= 12 else "am")


def _clock(hour: str, minute: str, half: str | None) -> Time:
    if half is None and (int(hour) > 12 or hour.startswith("0")):
        return _time24(int(hour) % 24, int(minute))
    return _said_time(int(hour), int(minute), None if half is None else f"{half.lower()}m")


def _amount(units: Sequence[_Unit], at: int) -> _Step:
    step = _decimal(units, at)
    if step is None:
        return None
    value, end = step
    text = _text(units, end)
    if text in _SMALL:
        return (Amount(int(float(value)), _SMALL[text]),), end + 1
    if text not in _LARGE:
        return None
    hundredths, end = round(float(value) * 100), end + 1
    after = end + (_text(units, end) == "and")
    cents = None if units[end - 1].ends else _whole(units, after, largest=99)
    if cents is not None and (_text(units, cents[1]) in _SMALL or (after == end and cents[0] > 9)):
        hundredths += cents[0]
        end = cents[1] + (_text(units, cents[1]) in _SMALL)
    return (Amount(hundredths, _LARGE[text]),), end


def _number(units: Sequence[_Unit], at: int) -> _Step:
    """A number, or several in a row that spell one out: four four seven one, eighty-four fifty."""
    if units[at].text in _ONE_WORDS and not _counts(units, at):
        return None
    parts: list[str] = []
    end = at
    while end < len(units):
        step = _decimal(units, end)
        if step is None or (parts and units[end - 1].ends and not _goes_on(parts, step[0])):
            break
        parts.append(step[0])
        end = step[1]
    if not parts:
        return None
    readings: list[Reading] = [Number("".join(parts) if "." not in "".join(parts) else parts[0])]
    if "." in "".join(parts) and len(parts) > 1:
        return (Number(parts[0]),), _decimal(units, at)[1]  # type: ignore[index]
    if len(parts) == 2 and len(parts[1]) == 2:
        readings.append(Amount(int(parts[0]) * 100 + int(parts[1])))
        if 0 < int(parts[0]) < 13 and int(parts[1]) < 60:
            readings.append(_said_time(int(parts[0]), int(parts[1]), None))
        elif 12 < int(parts[0]) < 24 and int(parts[1]) < 60:
            readings.append(_time24(int(parts[0]), int(parts[1])))
    return tuple(readings), end


def _goes_on(parts: Sequence[str], following: str) -> bool:
    """Whether single digits go on behind a comma: five five five, zero one."""
    return len(parts) > 1 and len(following) == 1 and all(len(part) == 1 for part in parts)


def _counts(units: Sequence[_Unit], at: int) -> bool:
    """Whether an ambiguous word is part of a number that is spelled out, or follows what it numbers."""
    numbered = {"number", "gate", "room", "platform", "line", "option", "desk", "terminal", "point"}
    return (
        _decimal(units, at + 1) is not None
        or (at > 0 and units[at - 1].text in numbered)
        or (at > 0 and units[at - 1].text in _UNITS)
    )


def _decimal(units: Sequence[_Unit], at: int) -> tuple[str, int] | None:
    """A number in digits, with a fraction where one is said, and the unit after it."""
    if at < len(units) and units[at].digits and _text(units, at + 1) not in _SIZES:
        return units[at].digits, at + 1
    step = _whole(units, at)
    if step is None:
        return None
    value, end = step
    if _text(units, end) == "point" and not units[end - 1].ends:
        digits = []
        after = end + 1
        while (digit := _UNITS.get(_text(units, after), 10)) < 10:
            digits.append(str(digit))
            after += 1
        if digits:
            return f"{value}.{''.join(digits)}", after
    return str(value), end


def _whole(units: Sequence[_Unit], at: int, *, largest: int | None = None) -> tuple[int, int] | None:
    """A whole number in words, as far as it goes, and the unit after it; None where none begins here."""
    total = group = 0
    last = 10**12
    end, began = at, False
    while end < len(units) and not (began and units[end - 1].ends):
        text = units[end].text
        if units[end].digits:
            if began or not units[end].digits.isdigit():
                break
            group, last = int(units[end].digits), 1
        elif text in _SIZES and began:
            size = _SIZES[text]
            if size == 100:
                if group == 0 or group > 99:
                    break
                group *= 100
            else:
                total, group = total + group * size, 0
            last = size
        elif text in _TENS or text in _UNITS:
            value = _TENS.get(text, _UNITS.get(text, 0))
            room = 100 if text in _TENS else 10 if value < 10 else 100
            if began and not (last >= room and (value > 0)):
                break
            if began and last == 10 and value >= 10:
                break
            group += value
            last = 10 if text in _TENS else 1
        elif text == "and" and began and last == 100 and _text(units, end + 1) in {*_TENS, *_UNITS}:
            end += 1
            continue
        else:
            break
        began = True
        end += 1
    if not began or (largest is not None and total + group > largest):
        return None
    return total + group, end


def _text(units: Sequence[_Unit], at: int) -> str:
    return units[at].text if 0 <= at < len(units) else ""
