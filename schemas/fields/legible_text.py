"""Texts that people read: what nobody sees, and what shows a text otherwise than it is, is refused.

A mark of direction in a description turns the amount that follows it on a statement; a control character is obeyed by
a terminal. Texts that only machines compare (ids, keys, what a processor says) are bound by ``validation.clean_text``.
"""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = r"\u0000-\u001f\u007f-\u009f"
_LINE_ENDS: Final = r"\u2028\u2029"
_MARKS: Final = r"\u061c\u200e\u200f"
_DIRECTIONS: Final = r"\u202a-\u202e\u2066-\u2069"
_NO_CHARACTERS: Final = r"\ufdd0-\ufdef\ufffe\uffff"
#: those of the other planes; a pattern of JSON Schema does not name them, the check does
_FURTHER_NO_CHARACTERS: Final = "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(1, 17))
_SURROGATES: Final = r"\ud800-\udfff"

_OF_NO_LINE: Final = rf"{_CONTROLS}{_LINE_ENDS}{_MARKS}{_DIRECTIONS}{_NO_CHARACTERS}"
#: a legible line, as a pattern of JSON Schema has it
LEGIBLE: Final = rf"^[^{_OF_NO_LINE}]*$"
#: blanks of every width and of none, joiners, selectors of variants, fillers: alone they show nothing
_BLANKS: Final = (
    r"\u0020\u00a0\u00ad\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u202f\u205f-\u206f"
    r"\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
)
_FURTHER_BLANKS: Final = r"\U000e0000-\U000e0fff"
#: a legible line in which something can be seen
SAYS_SOMETHING: Final = rf"^[^{_OF_NO_LINE}]*[^{_BLANKS}{_OF_NO_LINE}][^{_OF_NO_LINE}]*$"

_CONTROL: Final = re.compile(rf"[{_CONTROLS}{_SURROGATES}]")
#: posts of real people hold C1, where something took their UTF-8 for another encoding on the way; lines end either way
_CONTROL_OF_PROSE: Final = re.compile(rf"(?!\r?\n|\t)[\u0000-\u001f\u007f{_SURROGATES}]")
_HIDDEN: Final = re.compile(rf"[{_LINE_ENDS}{_NO_CHARACTERS}{_FURTHER_NO_CHARACTERS}{_MARKS}{_DIRECTIONS}]")
#: where a paragraph ends, and every direction with it
_PARAGRAPH_END: Final = re.compile(r"[\n\u0085\u2029]")
#: what opens a direction, and what closes it (UAX #9)
_CLOSED_BY: Final = dict.fromkeys("\u202a\u202b\u202d\u202e", "\u202c") | dict.fromkeys("\u2066\u2067\u2068", "\u2069")
_CLOSING: Final = frozenset(_CLOSED_BY.values())
#: what two names may differ in that look the same
_UNSEEN: Final = re.compile(rf"^ | $|  |(?! )[{_BLANKS}{_FURTHER_BLANKS}]")
_SEEN: Final = re.compile(rf"[^{_BLANKS}{_FURTHER_BLANKS}{_OF_NO_LINE}]")
_NOT_CONTROLS: Final = "must not contain control characters"


def line_fault(text: str) -> str | None:
    """Why a line is refused, or None. Joiners (in emoji, Persian) and everything that is seen are the writer's own."""
    if text.isprintable():  # of all that is refused nothing is
        return None
    if _CONTROL.search(text):
        return _NOT_CONTROLS
    found = _HIDDEN.search(text)
    return None if found is None else f"must not contain U+{ord(found[0]):04X}, which nobody sees"


def says_something(text: str) -> bool:
    """Whether anything of a text can be seen."""
    return _SEEN.search(text) is not None


def is_told_apart(name: str) -> bool:
    """Whether all of a name is seen: none at its ends, and no blank but single ones, in which another might differ."""
    return _UNSEEN.search(name) is None


def prose_fault(text: str) -> str | None:
    """Why prose of several lines is refused, or None. Its writer's own is all that turns nothing beside it.

    Arabic and Hebrew need marks of direction and isolates: they may stand there, and what opens a direction is closed
    on its line.
    """
    if text.isprintable():
        return None
    if _CONTROL_OF_PROSE.search(text):
        return _NOT_CONTROLS
    return next(filter(None, map(_direction_fault, _PARAGRAPH_END.split(text))), None)


def _direction_fault(line: str) -> str | None:
    opened: list[str] = []
    for c in line:
        if c in _CLOSED_BY:
            opened.append(c)
        elif c in _CLOSING and (not opened or _CLOSED_BY[opened.pop()] != c):
            return f"must not close a direction that it did not open (U+{ord(c):04X})"
    return f"must close every direction on the line where it opens (U+{ord(opened[-1]):04X})" if opened else None
