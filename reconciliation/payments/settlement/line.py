"""What a report says, in one form for all formats. Plain data: no clock, no I/O."""

from __future__ import annotations

from typing import Final, Literal, NewType

from msgspec import Struct

from schemas import errors

LineType = Literal[
    "charge",
    "capture_reversal",  # what is taken back of a charge: of a partial capture, the whole one may be told first
    "refund",
    "refund_reversal",
    "dispute",
    "dispute_reversal",
    "payout",
    "payout_reversal",
    "fee",
    "adjustment",
    "other",  # what it is nobody here knows; its money is certain
    "exchange",  # of no report: the part of a line that leads from its currency to that of its settlement
]
#: which kinds of attempts a line of this type may tell of
ATTEMPT_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "charge": ("purchase", "capture"),
    "capture_reversal": ("purchase", "capture"),
    "refund": ("refund",),
    "refund_reversal": ("refund",),
}


class Line(Struct, kw_only=True):
    """One line of a settlement report. Amounts are signed minor units: what is above zero came to us."""

    line_no: int
    line_id: str
    type: LineType
    operation_id: str | None
    reference: str | None
    provider_refs: tuple[str, ...]  # every name that the processor has for it, the most specific one first
    currency: str
    gross: int
    fee: int
    net: int
    net_currency: str
    batch: str | None = None  # the payout that the line is paid out with; None = that of the whole report
    created: str | None = None
    scheme: str | None = None  # whose card it was, as the report writes it
    tier: str | None = None  # and what kind of card
    contract_fee: int | None = None  # what a published contract says of it
    earlier_id: str | None = None  # what an earlier release called it, and its batch, where that was something else
    earlier_batch: str | None = None


#: a line as its row of the stage (stage.PLAIN_ROW): every cell was found plain by the reader
PlainRow = NewType("PlainRow", bytes)


class Defect(Struct, frozen=True):
    """A line that says nothing we may rely on. It is told with its number, and never guessed at."""

    line_no: int
    reason: str
    is_cut_off: bool = False  # the file ends here, too early: what came before stands


class UnreadableReport(errors.Corrupt):
    """The report as a whole cannot be relied on: nothing of it is taken in."""

    code = "unreadable_report"


class Unclassifiable(ValueError):
    """Why one line says nothing we may rely on."""
