"""A rough pronunciation for a word that the dictionary lacks: letters to the dictionary's phones. Pure; English.

It only has to be as long as the word and about as voiced: alignment then finds the place from the words around.
"""

from __future__ import annotations

from typing import Final

RULES: Final = {
    "tion": "SH AH N",
    "igh": "AY",
    "sch": "S K",
    "tch": "CH",
    "ch": "CH",
    "sh": "SH",
    "th": "TH",
    "ph": "F",
    "wh": "W",
    "ck": "K",
    "ng": "NG",
    "qu": "K W",
    "ee": "IY",
    "ea": "IY",
    "oo": "UW",
    "ou": "AW",
    "ow": "OW",
    "oi": "OY",
    "oy": "OY",
    "ai": "EY",
    "ay": "EY",
    "au": "AO",
    "er": "ER",
    "ir": "ER",
    "ur": "ER",
    "ar": "AA R",
    "or": "AO R",
    "a": "AE",
    "b": "B",
    "c": "K",
    "d": "D",
    "e": "EH",
    "f": "F",
    "g": "G",
    "h": "HH",
    "i": "IH",
    "j": "JH",
    "k": "K",
    "l": "L",
    "m": "M",
    "n": "N",
    "o": "OW",
    "p": "P",
    "q": "K",
    "r": "R",
    "s": "S",
    "t": "T",
    "u": "AH",
    "v": "V",
    "w": "W",
    "x": "K S",
    "y": "IY",
    "z": "Z",
}


def phones(word: str) -> list[str]:
    """Phones of the CMU set without stress, by the longest rule at each place; doubled letters sound once."""
    out: list[str] = []
    place = 0
    while place < len(word):
        if place and word[place] == word[place - 1] and word[place] not in "eo":
            place += 1
            continue
        if word[place] == "e" and place == len(word) - 1 and len(out) > 1:
            break
        length = next((n for n in (4, 3, 2, 1) if word[place : place + n] in RULES), 0)
        if length:
            out += RULES[word[place : place + length]].split()
        place += max(length, 1)
    return out or ["AH"]
