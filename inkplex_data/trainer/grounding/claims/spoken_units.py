"""Written words as the units that one says: number words, and numbers, dates and times in digits. Pure; English."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from inkplex_data.speech.spoken_form import ONES, TENS, spoken
from inkplex_data.trainer.grounding.claims.readings import Date, Reading, Time

_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})\S*)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?(?:\s*([ap])\.?m\.?)?", re.IGNORECASE)
_HOUR = re.compile(r"(\d{1,2})\s*([ap])\.?m\.?", re.IGNORECASE)
_WRITTEN = re.compile(r"\d{1,12}(?:\.\d+)?|\d{1,3}(?:,\d{3}){1,3}(?:\.\d+)?")
_STOPS = (",", ";", ":", "—", ".", "?", "!")
_HALF = re.compile(r"([ap])\.?\s*m\.?", re.IGNORECASE)
DIGIT_WORDS = {name: value for value, name in enumerate(ONES)} | {"oh": 0}
TENS_WORDS = {name: 10 * value for value, name in enumerate(TENS) if name}
_SIZES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}


@dataclass(frozen=True)
class Unit:
    """One spoken word of written word `word`, or a value that the written word spells (`exact`)."""

    text: str
    word: int
    capital: bool = False
    exact: tuple[Reading, ...] = ()
    ends: bool = False
    """Whether a comma or the like stands after it: a date may go on behind it, an amount or a number does not."""
    digits: str = ""
    """The number that it writes in digits."""


def written_units(word: str, index: int) -> list[Unit]:
    plain = word.strip("\"'()[]“”,.;:!?")
    exact = _exact(plain)
    if exact is not None:
        return [Unit("", index, exact=(reading,)) for reading in exact]
    if half := _HALF.fullmatch(plain):
        return [Unit(f"{half[1].lower()}m", index)]
    if written := _WRITTEN.fullmatch(plain):
        return [Unit("", index, ends=word[-1:] in _STOPS, digits=written[0].replace(",", ""))]
    capital = plain[:1].isupper()
    pieces = [piece for piece in re.split(r"(?<=[A-Za-z])-(?=[A-Za-z])", word) if piece]
    units = [Unit(unit, index, capital) for piece in pieces for unit in spoken(piece)]
    if units and word[-1:] in _STOPS:
        units[-1] = Unit(units[-1].text, index, capital, ends=True)
    return units


def unit_text(units: Sequence[Unit], at: int) -> str:
    return units[at].text if 0 <= at < len(units) else ""


def decimal_at(units: Sequence[Unit], at: int) -> tuple[str, int] | None:
    """A number in digits, with a fraction where one is said, and the unit after it."""
    if at < len(units) and units[at].digits and unit_text(units, at + 1) not in _SIZES:
        return units[at].digits, at + 1
    step = whole_at(units, at)
    if step is None:
        return None
    value, end = step
    if unit_text(units, end) == "point" and not units[end - 1].ends:
        digits = []
        after = end + 1
        while (digit := DIGIT_WORDS.get(unit_text(units, after), 10)) < 10:
            digits.append(str(digit))
            after += 1
        if digits:
            return f"{value}.{''.join(digits)}", after
    return str(value), end


def whole_at(units: Sequence[Unit], at: int, *, largest: int | None = None) -> tuple[int, int] | None:
    """A whole number in words or digits, as far as it goes, and the unit after it; None where none begins here, or where it
    is above `largest`."""
    step = _written_whole(units, at) if at < len(units) and units[at].digits else _spoken_whole(units, at)
    return None if step is None or (largest is not None and step[0] > largest) else step


def _written_whole(units: Sequence[Unit], at: int) -> tuple[int, int] | None:
    if not units[at].digits.isdigit():
        return None
    value, end = int(units[at].digits), at + 1
    while not units[end - 1].ends and (size := _SIZES.get(unit_text(units, end))):
        value, end = value * size, end + 1
    return value, end


def _spoken_whole(units: Sequence[Unit], at: int) -> tuple[int, int] | None:
    total = group = 0
    last = 10**12  # what the last word counts: ones go behind tens, and both behind hundreds and more
    end = at
    while end < len(units) and not (end > at and units[end - 1].ends):
        text = units[end].text
        if text in _SIZES and end > at:
            size = _SIZES[text]
            if size > 100:
                total, group = total + group * size, 0
            elif 0 < group < 100:
                group *= 100
            else:
                break
            last = size
        elif _follows(text, last, begun=end > at):
            group += TENS_WORDS.get(text, DIGIT_WORDS.get(text, 0))
            last = 10 if text in TENS_WORDS else 1
        elif not (text == "and" and last == 100 and unit_text(units, end + 1) in {*TENS_WORDS, *DIGIT_WORDS}):
            break
        end += 1
    return (total + group, end) if end > at else None


def _follows(text: str, last: int, *, begun: bool) -> bool:
    """Whether a number word can stand behind one that counts `last`."""
    if text not in TENS_WORDS and text not in DIGIT_WORDS:
        return False
    value = TENS_WORDS.get(text, DIGIT_WORDS.get(text, 0))
    return not begun or (value > 0 and last >= (10 if value < 10 else 100))


def said_time(hour: int, minutes: int, half: str | None) -> Time:
    return Time((hour % 12 * 60 + minutes) % 720, half)


def time24(hour: int, minute: int) -> Time:
    return Time(hour % 12 * 60 + minute, "pm" if hour >= 12 else "am")


def _clock(hour: str, minute: str, half: str | None) -> Time:
    if half is None and (int(hour) > 12 or hour.startswith("0")):
        return time24(int(hour) % 24, int(minute))
    return said_time(int(hour), int(minute), None if half is None else f"{half.lower()}m")


def _exact(plain: str) -> list[Reading] | None:
    """The date, time or both that a word writes in digits, none where it is no real one; None for other words."""
    if iso := _ISO.fullmatch(plain):
        year, month, day = (int(part) for part in iso.group(1, 2, 3))
        try:
            found: list[Reading] = [Date(year, month, day, date(year, month, day).weekday())]
        except ValueError:
            return []
        if iso[4] is not None and int(iso[4]) < 24 and int(iso[5]) < 60:
            found.append(time24(int(iso[4]), int(iso[5])))
        return found
    if (clock := _CLOCK.fullmatch(plain)) and int(clock[1]) < 25 and int(clock[2]) < 60:
        return [_clock(clock[1], clock[2], clock[3])]
    if (hour := _HOUR.fullmatch(plain)) and 0 < int(hour[1]) < 13:
        return [_clock(hour[1], "00", hour[2])]
    return None
