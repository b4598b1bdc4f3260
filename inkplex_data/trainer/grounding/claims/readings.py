"""What a stretch of speech can mean: amounts, dates, times, numbers, names, flags and outcomes, and when two are the same.

Pure; English. A stretch may have several readings ("three thirty" is a time, an amount and a number), so that what is
said is the same as what a result carries where any of their readings are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["amount", "date", "time", "number", "name", "flag", "outcome"]


@dataclass(frozen=True)
class Amount:
    """Hundredths of a currency, None where nobody says which."""

    hundredths: int
    currency: str | None = None


@dataclass(frozen=True)
class Date:
    """As much of a date as is said. weekday: 0 is Monday. near: `today`, `tomorrow` …"""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None
    near: str | None = None


@dataclass(frozen=True)
class Time:
    """Minutes since midnight or noon, 0 to 719. half: `am` or `pm`, None where nobody says which."""

    minutes: int
    half: str | None = None


@dataclass(frozen=True)
class Number:
    """Decimal digits as they are written: identifiers keep their leading zeros."""

    digits: str


@dataclass(frozen=True)
class Name:
    """Lower-case words without punctuation."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Flag:
    """Yes or no of something, named by lower-case words."""

    about: tuple[str, ...]
    holds: bool


@dataclass(frozen=True)
class Outcome:
    """What became of a request as a whole."""

    state: Literal["pending", "done", "failed"]


Reading = Amount | Date | Time | Number | Name | Flag | Outcome

KINDS: dict[type, Kind] = {
    Amount: "amount",
    Date: "date",
    Time: "time",
    Number: "number",
    Name: "name",
    Flag: "flag",
    Outcome: "outcome",
}


def kind_of(reading: Reading) -> Kind:
    return KINDS[type(reading)]


def same(one: Reading, other: Reading) -> bool | None:
    """Whether two readings agree; None where they cannot be compared, such as a weekday with a day of a month.

    >>> same(Amount(8_450, "dollar"), Number("84.5")), same(Time(210), Time(210, "pm"))
    (True, True)
    >>> same(Date(weekday=4), Date(month=3, day=14)), same(Date(month=3, day=15), Date(2026, 3, 14, 5))
    (None, False)
    """
    if isinstance(one, Number) and isinstance(other, Amount):
        one, other = other, one
    result: bool | None = None
    match one, other:
        case Amount(), Amount():
            result = one.hundredths == other.hundredths and len({one.currency, other.currency} - {None}) < 2
        case Amount(), Number():
            result = one.hundredths == _hundredths(other)
        case Date(), Date():
            result = _same_date(one, other)
        case Time(), Time():
            result = one.minutes == other.minutes and len({one.half, other.half} - {None}) < 2
        case Number(), Number():
            result = _plain(one.digits) == _plain(other.digits)
        case Flag(), Flag():
            result = one.holds == other.holds if one.about == other.about else None
        case (Name(), Name()) | (Outcome(), Outcome()):
            result = one == other
    return result


def agree(said: tuple[Reading, ...], carried: tuple[Reading, ...]) -> bool | None:
    """Whether any reading of one is the same as any of the other; None where none can be compared."""
    found = {same(one, other) for one in said for other in carried}
    return True if True in found else False if False in found else None


def _same_date(one: Date, other: Date) -> bool | None:
    fields = ("year", "month", "day", "weekday", "near")
    both = [
        (getattr(one, name), getattr(other, name))
        for name in fields
        if getattr(one, name) is not None and getattr(other, name) is not None
    ]
    return all(a == b for a, b in both) if both else None


def _hundredths(number: Number) -> int | None:
    whole, _, fraction = number.digits.partition(".")
    return int(whole or "0") * 100 + int((fraction + "00")[:2]) if len(fraction) <= 2 else None


def _plain(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
