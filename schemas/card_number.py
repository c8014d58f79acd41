"""Which digits are a card number (ISO/IEC 7812), and whether a free text holds one: such a text is refused everywhere.

The vault is the only place for a card number. A number that slipped into metadata would lie in topics, tables and logs,
which no deletion reaches. Pure; no answer of this module contains what it looked at.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

REFUSED: Final = "looks like a card number: never send card numbers here"
DIGITS_MIN: Final = 13  # shorter ones are no card of today's networks, and every other order number would be one
DIGITS_MAX: Final = 19

_DIGITS: Final = b"0123456789"
_UUID: Final = re.compile(r"(?i)(?<![0-9a-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])")
#: groups of digits with one or two spaces or dashes between them, as people write numbers
_RUN: Final = re.compile(r"\d+(?:[\s\-\u2010-\u2015\u2212]{1,2}\d+)*")
_MARK: Final = r"[\s\-\u2010-\u2015\u2212./\\,:;_|*+~=&'\u00b7\u2022]"
#: groups with any one mark between them: numbers of cards when they are grouped as cards are, else dates and amounts
_MARKED_RUN: Final = re.compile(rf"(?<!\d)\d++(?:{_MARK}{{1,3}}\d++)+")
#: enough digits so close together: without this nothing else is looked at
_DENSE: Final = re.compile(rf"\d(?:{_MARK}{{0,3}}\d){{12}}")
_GROUP: Final = re.compile(r"\d+")
_PRINTED: Final = ([4, 6, 5], [4, 6, 4])  # Amex and Diners; all others are printed in groups of one size
_PRINTED_SIZE: Final = 4
_BEGUN: Final = tuple(sizes[:2] for sizes in _PRINTED)
_INVISIBLE: Final = frozenset(("Cf", "Mn", "Me"))  # what takes no place of its own: zero-width spaces, accents
_PIECE: Final = re.compile(rf"{_MARK}*(?:\d{_MARK}*){{1,19}}")
#: of a name that is one of several: "pan_1", "part b"
_COUNTED_NAME: Final = re.compile(r"(.*?)[\W_]*(\d{1,2}|(?<![^\W_])[a-zA-Z])", re.DOTALL)
_ESCAPES_MAX: Final = 3
_HEX_LETTERS: Final = frozenset("abcdefABCDEF")


class Range(NamedTuple):
    """Where the numbers of a network begin, and how many digits they have."""

    network: str
    first: int  # prefixes from first to last, both of the same number of digits
    last: int
    lengths: frozenset[int]


def _lengths(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


_SIXTEEN_UP: Final = frozenset(range(16, 20))
#: The first row that fits decides (ISO/IEC 7812 issuer ranges as the networks publish them).
_RANGES: Final = (
    Range("visa", 4, 4, _lengths(13, 16, 19)),
    Range("mastercard", 51, 55, _lengths(16)),
    Range("mastercard", 2221, 2720, _lengths(16)),
    Range("amex", 34, 34, _lengths(15)),
    Range("amex", 37, 37, _lengths(15)),
    Range("diners", 300, 305, _lengths(14, 16, 17, 18, 19)),
    Range("diners", 3095, 3095, _lengths(14, 16, 17, 18, 19)),
    Range("diners", 36, 36, frozenset(range(14, 20))),
    Range("diners", 38, 39, _lengths(14, 16, 17, 18, 19)),
    Range("jcb", 3528, 3589, _SIXTEEN_UP),
    Range("discover", 6011, 6011, _SIXTEEN_UP),
    Range("discover", 644, 649, _SIXTEEN_UP),
    Range("discover", 65, 65, _SIXTEEN_UP),
    Range("unionpay", 62, 62, _SIXTEEN_UP),
    Range("unionpay", 8100, 8171, _SIXTEEN_UP),
    Range("maestro", 50, 50, frozenset(range(12, 20))),
    Range("maestro", 56, 58, frozenset(range(12, 20))),
    Range("maestro", 6, 6, frozenset(range(12, 20))),
)
ANY_LENGTH: Final = frozenset(range(12, 20))
_UNKNOWN: Final = Range("unknown", 0, 0, ANY_LENGTH)
NETWORKS: Final = (*dict.fromkeys(row.network for row in _RANGES), _UNKNOWN.network)


def passes_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of those before it (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value  # noqa: PLR2004 - the sum of its two digits
    return total % 10 == 0


def network_of(digits: str) -> str:
    """The network whose range the number begins in; ``unknown`` when it begins in none."""
    return range_of(digits).network


def range_of(digits: str) -> Range:
    """The range that the number begins in; the one of the network ``unknown`` when it begins in none."""
    for row in _RANGES:
        size = len(str(row.first))
        if len(digits) >= size and row.first <= int(digits[:size]) <= row.last:
            return row
    return _UNKNOWN


def holds_card_number(text: str) -> bool:
    """Whether 13 to 19 digits of the text, spaces and dashes left out, are a card number of a known network.

    Other marks between digits (dots, slashes, commas ...) hide nothing where the digits are grouped as cards are: in
    groups of one size, or as they are printed. A UUID, a hash and a telephone number with its ``+`` are none, whatever
    their digits. Costs one pass over the bytes unless there are 13 digits.
    """
    if len(text) < DIGITS_MIN:
        return False
    if not text.isascii():
        text = _visible_digits(text)
    raw = text.encode(errors="replace")
    if len(raw) - len(raw.translate(None, _DIGITS)) < DIGITS_MIN:
        return False
    if _DENSE.search(text) is None:
        return False
    text = _UUID.sub(" x ", text)
    return any(_run_holds_one(run, text) for run in _RUN.finditer(text)) or any(
        _grouped_as_a_card(run.group()) for run in _MARKED_RUN.finditer(text) if not _is_of_a_hash(run, text)
    )


def url_holds_card_number(url: str) -> bool:
    """As ``holds_card_number``, also when its characters are escaped, as often as somebody may have done it."""
    for _ in range(_ESCAPES_MAX):
        if holds_card_number(url):
            return True
        if url == (url := unquote_plus(url)):
            return False
    return holds_card_number(url)


def is_split_over(texts: Mapping[str, str]) -> bool:
    """Whether a card number lies in pieces in several texts.

    That is: in the groups in which cards are printed, one after the other; in texts whose names count them ("pan_1",
    "pan_2"); or half in a name and half in its text. Two numbers of other names are two numbers: joined, one in ten
    pairs would pass for a card.
    """
    pieces = {name: "".join(_GROUP.findall(text)) for name, text in texts.items() if _PIECE.fullmatch(text)}
    if any(_is_card_number(name + digits) for name, digits in pieces.items() if name.isdecimal()):
        return True
    in_order = list(pieces.values()), [pieces[name] for name in sorted(pieces)]
    if any(_printed_digits(groups, _PRINTED_SIZE) for groups in in_order):
        return True
    families: dict[str, list[tuple[int, str, str]]] = {}
    for name, digits in pieces.items():
        if counted := _COUNTED_NAME.fullmatch(name):
            families.setdefault(counted[1], []).append((len(counted[2]), counted[2], digits))
    return any(
        _is_card_number(joined)
        for family in families.values()
        for joined in _joined([digits for _, _, digits in sorted(family)])
    )


def _visible_digits(text: str) -> str:
    """The text with every script's decimal digits as 0 to 9, a number in any of them, and nothing that nobody sees."""
    shown = (c for c in text if unicodedata.category(c) not in _INVISIBLE)
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in shown)


def _grouped_as_a_card(run: str) -> bool:
    """Whether groups with one and the same mark between them are a card's."""
    groups, marks = _GROUP.findall(run), _GROUP.split(run)[1:-1]
    first = 0
    for last in range(1, len(groups)):
        if last == len(marks) or marks[last] != marks[first]:
            if _printed_digits(groups[first : last + 1], DIGITS_MAX // 2):
                return True
            first = last
    return False


def _printed_digits(groups: Sequence[str], sizes_max: int) -> bool:
    """Whether some neighbours of these groups are grouped as on a card, and are one.

    That is: all of one size, of three or more the last one may be shorter; or as Amex and Diners print theirs.
    """
    for first, group in enumerate(groups):
        digits, sizes = group, [len(group)]
        for further in groups[first + 1 : first + DIGITS_MAX]:
            digits += further
            sizes.append(len(further))
            is_even = len(group) <= sizes_max and len(further) <= len(group)
            is_even = is_even and (len(sizes) > 2 or len(further) == len(group))  # noqa: PLR2004 - else it is a decimal
            if (is_even or sizes in _PRINTED) and _is_card_number(digits):
                return True
            if len(digits) > DIGITS_MAX or (len(further) != len(group) and sizes not in _BEGUN):
                break
    return False


def _joined(groups: Sequence[str]) -> Iterator[str]:
    """What neighbours of these groups are together, as long as a card could be."""
    for first in range(len(groups)):
        digits = ""
        for group in groups[first:]:
            digits += group
            if len(digits) > DIGITS_MAX:
                break
            yield digits


def _run_holds_one(run: re.Match[str], text: str) -> bool:
    if text[run.start() - 1 : run.start()] == "+" or _is_of_a_hash(run, text):
        return False
    return any(_is_card_number(digits) for digits in _joined(_GROUP.findall(run.group())))


def _is_card_number(digits: str) -> bool:
    if not DIGITS_MIN <= len(digits) <= DIGITS_MAX:
        return False
    row = range_of(digits)
    return row is not _UNKNOWN and len(digits) in row.lengths and passes_luhn(digits)


def _is_of_a_hash(run: re.Match[str], text: str) -> bool:
    """Whether the digits are a piece of a word of hexadecimal digits: one in ten thousand hashes has such a piece."""
    start, end = run.span()
    while start and text[start - 1].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    letters = set(text[start : run.start()] + text[run.end() : end]) - set("0123456789")
    return bool(letters) and letters <= _HEX_LETTERS
