"""What a line means beside what we expected: a pure function, so that every rule can be proved on its own.

The first line of an expected movement settles it: what it pays less or more waits in suspense. Whatever line comes
after it is posted like a duplicate, with its whole amount and its own fee, so that over all lines suspense = paid -
expected and fees = taken, in any order and over any number of reports. Lines of one report that add up to what was
expected are one settlement in parts.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reconciliation.payments.settlement.line import Line

LineClass = Literal[
    "matched",
    "short",
    "over",
    "duplicate",
    "sign_flipped",
    "currency_mismatch",
    "fee_difference",
    "does_not_foot",
]
#: a line that takes something of an earlier one back, so that both together are what was expected
_TAKEN_BACK: Final = "capture_reversal"
Posting = Literal["matched", "short", "over", "duplicate"]
#: lines of these classes paid something towards what was expected
PAYING = ("matched", "short", "over", "duplicate", "fee_difference")


class Expected(Struct, frozen=True, kw_only=True):
    """One movement of money that we recorded, signed as a report signs it, and its fee."""

    amount: int
    currency: str
    fee: int | None  # None: nobody says what it should be, and whatever was taken is right
    is_fee_of_line: bool = False  # of the one line that a contract speaks of; of parts it says nothing

    def fee_gap(self, fee: int, *, are_parts: bool) -> int:
        """How far the fee that was taken is from the one expected."""
        return 0 if self.fee is None or (are_parts and self.is_fee_of_line) else abs(fee - self.fee)


class Settled(Struct, frozen=True, kw_only=True):
    """What lines paid towards it so far."""

    gross: int = 0
    fee: int = 0
    lines: int = 0

    def with_line(self, line: Line) -> Settled:
        """After another line."""
        return Settled(gross=self.gross + line.gross, fee=self.fee + line.fee, lines=self.lines + 1)


class Verdict(Struct, frozen=True, kw_only=True):
    """What one line is. ``difference`` is what is wrong, as a magnitude; 0 when nothing is.

    ``posting`` is the finding that the owner is told, with ``posted_gross``, ``posted_fee`` and
    ``posted_difference``; None when nothing may be posted for this line. ``settles_rest``: an earlier shortage ends.
    """

    line: Line
    line_class: LineClass
    difference: int = 0
    posting: Posting | None = None
    posted_gross: int = 0
    posted_fee: int = 0
    posted_difference: int = 0
    settles_rest: bool = False


def judge_all(expected: Expected, settled: Settled, lines: Iterable[Line]) -> Iterator[Verdict]:
    """A verdict for every line of one expected movement, in order; only the first ones are held in memory."""
    remaining = iter(lines)
    head = list(islice(remaining, limits.SETTLEMENT_PARTS_MAX))
    parts = _parts(expected, head) if settled.lines == 0 else 0
    if parts:
        yield from _in_parts(expected, head[:parts])
        settled = Settled(gross=expected.amount, fee=sum(line.fee for line in head[:parts]), lines=parts)
    for line in chain(head[parts:], remaining):
        verdict = judge(expected, settled, line)
        if verdict.line_class in PAYING:
            settled = settled.with_line(line)
        yield verdict


def judge(expected: Expected, settled: Settled, line: Line) -> Verdict:
    """What one line is after those that came before it."""
    if (unfit := _unfit(expected, settled, line)) is not None:
        return unfit
    if settled.lines:
        return _later(expected, settled, line)
    difference = line.gross - expected.amount  # signed: of a refund, less taken is more left to us
    if difference == 0:
        fee = expected.fee_gap(line.fee, are_parts=False)
        return _posted(line, "fee_difference" if fee else "matched", "matched", fee, 0)
    found: Posting = "short" if difference < 0 else "over"
    return _posted(line, found, found, abs(difference), abs(difference))


def _unfit(expected: Expected, settled: Settled, line: Line) -> Verdict | None:
    """What a line is that a person must judge, because it cannot be what was expected."""
    if line.currency != expected.currency:
        return Verdict(line=line, line_class="currency_mismatch", difference=abs(line.gross))
    if line.gross and _is_against(expected, line) and not (line.type == _TAKEN_BACK and settled.lines):
        return Verdict(line=line, line_class="sign_flipped", difference=abs(line.gross))
    if not foots(line):
        return Verdict(line=line, line_class="does_not_foot", difference=abs(line.gross - line.fee - line.net))
    if line.gross == 0:  # it pays nothing towards what was expected: what it moved is its net
        return Verdict(line=line, line_class="sign_flipped", difference=abs(line.net))
    return None


def foots(line: Line) -> bool:
    """Gross less fee is net. With two currencies that cannot be said."""
    return line.currency != line.net_currency or line.gross - line.fee == line.net


def _is_against(expected: Expected, line: Line) -> bool:
    return (line.gross < 0) != (expected.amount < 0)


def _later(expected: Expected, settled: Settled, line: Line) -> Verdict:
    """A line after the one that settled: a late part of what is still open, or paid twice."""
    rest = abs(expected.amount) - abs(settled.gross)
    if (rest <= 0 and line.type != _TAKEN_BACK) or line.gross == expected.amount:
        return _posted(line, "duplicate", "duplicate", abs(line.gross), abs(line.gross))
    difference = settled.gross + line.gross - expected.amount
    found: LineClass = "short" if difference < 0 else "over"
    if difference == 0:  # all parts are there: their fees must add up, too
        difference = expected.fee_gap(settled.fee + line.fee, are_parts=True)
        found = "fee_difference" if difference else "matched"
    return _posted(line, found, "duplicate", abs(difference), abs(line.gross), settles_rest=True)


def _parts(expected: Expected, lines: list[Line]) -> int:
    """How many lines from the first on add up to exactly what was expected; 0 when none do."""
    total = 0
    for count, line in enumerate(lines, 1):
        if line.currency != expected.currency or not foots(line):
            return 0
        if _is_against(expected, line) and line.type != _TAKEN_BACK:
            return 0
        total += line.gross
        if total == expected.amount:
            return count if count > 1 else 0
    return 0


def _in_parts(expected: Expected, lines: list[Line]) -> Iterator[Verdict]:
    """One settlement in several lines: it is posted once, with the first of them."""
    fees = sum(line.fee for line in lines)
    difference = expected.fee_gap(fees, are_parts=True)
    yield Verdict(
        line=lines[0],
        line_class="fee_difference" if difference else "matched",
        difference=difference,
        posting="matched",
        posted_gross=expected.amount,
        posted_fee=fees,
    )
    for line in lines[1:]:
        yield Verdict(line=line, line_class="matched")


def _posted(
    line: Line, line_class: LineClass, posting: Posting, difference: int, posted: int, *, settles_rest: bool = False
) -> Verdict:
    return Verdict(
        line=line,
        line_class=line_class,
        difference=difference,
        posting=posting,
        posted_gross=line.gross,
        posted_fee=line.fee,
        posted_difference=posted,
        settles_rest=settles_rest,
    )
