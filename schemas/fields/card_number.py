"""Whether a free text holds a card number: such a text is refused everywhere.

The vault is the only place for a card number. A number that slipped into metadata would lie in topics, tables and logs,
which no deletion reaches. Pure; no answer of this module contains what it looked at.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from schemas.fields.card_networks import DIGITS_MAX, DIGITS_MIN, is_card_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

REFUSED: Final = "looks like a card number: never send card numbers here"

_DIGITS: Final = b"0123456789"
#: of at least twelve bytes in hex
_HASH: Final = r"(?=\d*[a-f])[0-9a-f]{24,}"
#: a UUID, the trace of a request (W3C traceparent), and any longer hash: a shorter one with so many digits is a number
#: with a letter or two beside it
_MACHINES: Final = re.compile(
    r"(?i)(?<![^\W_])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
    rf"|{_HASH})(?![^\W_])"
)
#: an id as services make them: a word, and one such hash
_ID_OF_A_MACHINE: Final = re.compile(rf"(?i)(?:[a-z]*_)?{_HASH}")
_IBAN: Final = re.compile(r"(?<![^\W_])[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,3})?(?![^\W_])")
_IBAN_MODULUS: Final = 97
#: groups of digits with one or two spaces or dashes between them, as people write numbers
_RUN: Final = re.compile(r"\d+(?:[\s\-\u2010-\u2015\u2212]{1,2}\d+)*")
_MARK: Final = r"[\W_]"
#: between groups of any size; letters, and what stands at prices, shares and places in a list, between groups of four
_CLOSE_MARK: Final = re.compile(r"[^\w$\u20a0-\u20cf\u00a2-\u00a5%\u00b0#]+|_+")
#: groups with up to three characters between them: numbers of cards when they are grouped as cards are, else dates,
#: amounts and the like
_MARKED_RUN: Final = re.compile(r"(?<!\d)\d++(?:\D{1,3}\d++)+")
#: enough digits so close together: without this nothing else is looked at
_DENSE: Final = re.compile(rf"\d(?:{_MARK}{{0,3}}\d){{12}}|\d{{4}}\D{{1,3}}\d{{4,6}}\D{{1,3}}\d{{4}}")
_GROUP: Final = re.compile(r"\d+")
_PRINTED: Final = ([4, 6, 5], [4, 6, 4])  # Amex and Diners; all others are printed in groups of one size
_PRINTED_SIZE: Final = 4
_BEGUN: Final = tuple(sizes[:2] for sizes in _PRINTED)
_INVISIBLE: Final = frozenset(("Cf", "Mn", "Me"))  # what takes no place of its own: zero-width spaces, accents
_PIECE: Final = re.compile(rf"{_MARK}*(?:\d{_MARK}*){{1,19}}")
#: of a name that is one of several: "pan_1", "part b"
_COUNTED_NAME: Final = re.compile(r"(.*?)[\W_]*(\d{1,2}|(?<![^\W_])[a-zA-Z])", re.DOTALL)
_ESCAPES_MAX: Final = 3
_PLUS: Final = ("+", "%2B", "%2b")
_NUMERALS_MIN: Final = DIGITS_MIN // 2  # no character stands for more than two digits: U+246A is 11
_TELEPHONE_DIGITS_MAX: Final = 15  # ITU-T E.164


def holds_card_number(text: str) -> bool:
    """Whether 13 to 19 digits of the text, spaces and dashes left out, are a card number of a known network.

    Other marks between digits (up to three characters that are no letters) hide nothing where the digits are grouped as
    cards are: in groups of one size, or as they are printed; nor do letters between groups of four. Escapes of a URL
    hide nothing, as often as somebody may have done it, nor does another form of a digit. A UUID, a hash, an IBAN and
    a telephone number with its ``+`` are none, whatever their digits. Costs one pass over the bytes unless there are
    13 digits.
    """
    if len(text) < DIGITS_MIN:
        return False
    if _holds_one(text):
        return True
    for _ in range(_ESCAPES_MAX if "%" in text else 0):
        if text == (text := unquote(text)):
            return False
        if _holds_one(text):
            return True
    return False


def has_the_digits(text: str) -> bool:
    """Whether a text has as many digits of ASCII as a card number: without them it holds none, and no part of many."""
    raw = text.encode(errors="replace")
    return len(raw) - len(raw.translate(None, _DIGITS)) >= DIGITS_MIN


def url_holds_card_number(url: str) -> bool:
    """As ``holds_card_number``, where a ``+`` may be a space."""
    return holds_card_number(url) or ("+" in url and holds_card_number(url.replace("+", " ")))


def is_split_over(texts: Mapping[str, str]) -> bool:
    """Whether a card number lies in pieces in several texts.

    That is: in the groups in which cards are printed, one after the other; in texts whose names count them ("pan_1",
    "pan_2"); or half in a name and half in its text. Two numbers of other names are two numbers: joined, one in ten
    pairs would pass for a card.
    """
    return _are_split(_pieces(texts))


def lies_in_pieces(written: Mapping[str, str | dict[str, str]]) -> bool:
    """Whether a card number lies in pieces in what one command says: in its texts, and in those that it gives by name.

    That is as ``is_split_over`` says, or in halves in two texts of the command itself: those are few.
    """
    all_texts: dict[str, str] = {}
    for name, said in written.items():
        all_texts |= {name: said} if isinstance(said, str) else {f"{name} {key}": text for key, text in said.items()}
    pieces = _pieces(all_texts)
    halves = [digits for name, digits in pieces.items() if name in written]
    return _are_split(pieces) or any(
        len(first) == len(second) and is_card_number(first + second) for first, second in pairwise(halves)
    )


def _pieces(texts: Mapping[str, str]) -> dict[str, str]:
    """The digits of those texts that are nothing else but digits and marks."""
    shown = {name: text if text.isascii() else _visible_digits(text) for name, text in texts.items()}
    return {name: "".join(_GROUP.findall(text)) for name, text in shown.items() if _PIECE.fullmatch(text)}


def _are_split(pieces: Mapping[str, str]) -> bool:
    if sum(len(digits) + len(name) * name.isdecimal() for name, digits in pieces.items()) < DIGITS_MIN:
        return False
    if any(is_card_number(name + digits) for name, digits in pieces.items() if name.isdecimal()):
        return True
    in_order = list(pieces.values()), [pieces[name] for name in sorted(pieces)]
    if any(_printed_digits(groups, _PRINTED_SIZE) for groups in in_order):
        return True
    families: dict[str, list[tuple[int, str, str]]] = {}
    for name, digits in pieces.items():
        if counted := _COUNTED_NAME.fullmatch(name):
            families.setdefault(counted[1], []).append((len(counted[2]), counted[2], digits))
    return any(
        is_card_number(joined)
        for family in families.values()
        for joined in _joined([digits for _, _, digits in sorted(family)])
    )


def _holds_one(text: str) -> bool:
    if not text.isascii():
        if sum(map(str.isnumeric, text)) < _NUMERALS_MIN:
            return False
        text = _visible_digits(text)
    if not has_the_digits(text):
        return False
    if _ID_OF_A_MACHINE.fullmatch(text) or _DENSE.search(text) is None:
        return False
    text = _IBAN.sub(lambda found: " x " if _is_iban(found[0]) else found[0], _MACHINES.sub(" x ", text))
    return any(_run_holds_one(run, text) for run in _RUN.finditer(text)) or any(
        _grouped_as_a_card(run.group()) for run in _MARKED_RUN.finditer(text)
    )


def _is_iban(text: str) -> bool:
    """Whether the check digits are right (ISO 13616): of other texts one in ninety-seven has such ones."""
    plain = text.replace(" ", "")
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % _IBAN_MODULUS == 1


def _visible_digits(text: str) -> str:
    """The text with every form of a digit as 0 to 9, a number in any of them, and nothing that nobody sees."""
    shown = (c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) not in _INVISIBLE)
    return "".join(str(unicodedata.digit(c)) if c.isdigit() else c for c in shown)


def _grouped_as_a_card(run: str) -> bool:
    """Whether groups with one and the same mark between them are a card's; letters are one between groups of four."""
    groups, marks = _GROUP.findall(run), _GROUP.split(run)[1:-1]
    first = 0
    for last in range(1, len(groups)):
        if last == len(marks) or marks[last] != marks[first]:
            sizes_min = 1 if _CLOSE_MARK.fullmatch(marks[first]) else _PRINTED_SIZE
            if _printed_digits(groups[first : last + 1], DIGITS_MAX // 2, sizes_min):
                return True
            first = last
    return False


def _printed_digits(groups: Sequence[str], sizes_max: int, sizes_min: int = 1) -> bool:
    """Whether some neighbours of these groups are grouped as on a card, and are one.

    That is: all of one size, of three or more the last one may be shorter; or as Amex and Diners print theirs.
    """
    for first, group in enumerate(groups):
        digits, sizes = group, [len(group)]
        for further in groups[first + 1 : first + DIGITS_MAX]:
            digits += further
            sizes.append(len(further))
            is_even = sizes_min <= len(group) <= sizes_max and len(further) <= len(group)
            is_even = is_even and (len(sizes) > 2 or len(further) == len(group))  # noqa: PLR2004 - else it is a decimal
            if (is_even or sizes in _PRINTED) and is_card_number(digits):
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
    groups = _GROUP.findall(run.group())
    is_telephone = text.endswith(_PLUS, 0, run.start()) and sum(map(len, groups)) <= _TELEPHONE_DIGITS_MAX
    return not is_telephone and any(is_card_number(digits) for digits in _joined(groups))
