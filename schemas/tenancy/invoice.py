"""An invoice as a document: lines by dimension and period, and bytes that are the same for ever. Pure.

What was used in the period is ``usage``. What came later for a period that was billed already is ``late_usage`` of the
next invoice, under the old period and at its prices; so is what a person corrected (``adjustment``): an invoice that
stands never changes. Credit is taken off last, and what would be owed to the tenant becomes credit of the next invoice;
so does what a void one had taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from schemas.tenancy import limits, pricing
from schemas.tenancy.instants import instant
from schemas.tenancy.usage_digest import METER_VERSION, digest

Kind = Literal["usage", "late_usage"]
_ORDER: Final[dict[str, int]] = {"usage": 0, "late_usage": 1}
CREDIT: Final = "credit"
ADJUSTMENT: Final = "adjustment"
#: by which late usage costs what its own period's run fixed; by rule 1, of before, what that of the invoice did
LATE_RULE: Final = 2


class Used(NamedTuple):
    """What was used of a dimension in a period, as the events say."""

    kind: Kind
    dimension: str
    from_us: int
    to_us: int
    quantity: int
    events: int
    price: str
    before: int = 0  # of the same period, in invoices that stand: where its tiers go on
    proof: Mapping[str, Any] = MappingProxyType({})  # by which meter, of which events; nothing of before lines said it


class Entry(NamedTuple):
    """What a person said: a correction of usage at its price, or credit of an amount."""

    entry_id: str
    kind: str
    dimension: str | None
    quantity: int | None
    unit_price: str | None
    at_us: int | None
    from_us: int | None  # the billed period that it corrects; None = none yet
    to_us: int | None
    amount: int | None
    reason: str


class Run(NamedTuple):
    """What a billing run fixed: whose, which period, at which prices."""

    billing_run_id: str
    invoice_id: str
    tenant_id: str
    currency: str
    prices: Mapping[str, str]
    from_us: int
    to_us: int


class InvoicePlace(NamedTuple):
    """Where an invoice stands: what it takes lies between the cuts of its tenant's one before and its own."""

    tenant_id: str
    run_number: int
    ordinal: int
    cut: Sequence[int]  # of counted usage, by partition
    before: Sequence[int]
    entries: int
    entries_before: int
    credit_before: int  # that the one before left, and that void ones had taken
    late_rule: int = LATE_RULE
    meter_version: int | None = METER_VERSION  # None = of before lines said which

    def asked(self) -> dict[str, Any]:
        """The parameters of the queries in ``invoices.sql``."""
        return {
            "tenant": self.tenant_id,
            "number": self.run_number,
            "ordinal": self.ordinal,
            "cut": list(self.cut),
            "before": list(self.before),
            "entries": self.entries,
            "entries_before": self.entries_before,
            "late_rule": self.late_rule,
            "late_max_s": limits.USAGE_LATE_MAX_S,
        }


class Basis(NamedTuple):
    """All that an invoice follows from."""

    run: Run
    used: list[Used]
    entries: list[Entry]
    credit_before: int  # that the one before left, and that void ones had taken


class Made(NamedTuple):
    """An invoice, and the credit that it leaves to the next."""

    document: bytes
    total: int
    credit_left: int


def basis(
    place: InvoicePlace,
    terms: Sequence[Any],
    own: Iterable[tuple[Any, ...]],
    late: Iterable[tuple[Any, ...]],
    entries: Iterable[tuple[Any, ...]],
) -> Basis:
    """Of the rows of ``invoices.sql``: ``run_terms``, ``used_in_period``, ``used_late``, ``entries_taken``."""
    run = Run(*terms)
    used = [
        Used(
            "usage",
            dimension,
            run.from_us,
            run.to_us,
            int(sum_),
            events,
            run.prices[dimension],
            0,
            _proof(place, words),
        )
        for dimension, sum_, events, *words in own
    ]
    used += [
        Used("late_usage", dimension, begins, ends, int(sum_), events, price, int(before), _proof(place, words))
        for dimension, begins, ends, sum_, events, before, price, *words in late
    ]
    return Basis(run, used, [Entry(*row) for row in entries], place.credit_before)


def _proof(place: InvoicePlace, words: Sequence[Any]) -> dict[str, Any]:
    if place.meter_version is None:
        return {}
    return {"meter_version": place.meter_version, "digest": digest(*words)}


def made(basis: Basis) -> Made:
    """The invoice: of what is priced and corrected, each line rounded once, less credit, and their sum."""
    run = basis.run
    lines = [_line(one) for one in sorted(basis.used, key=_place) if one.events]
    lines += [_adjustment(run, entry) for entry in basis.entries if entry.kind == ADJUSTMENT]
    credit = basis.credit_before + sum(entry.amount or 0 for entry in basis.entries if entry.kind == CREDIT)
    owed = sum(line["amount"] for line in lines)
    taken = min(credit, owed)  # less than nothing is owed: that much more is left
    if taken:
        lines.append({"kind": CREDIT, "amount": -taken})
    found = {
        "invoice_id": run.invoice_id,
        "billing_run_id": run.billing_run_id,
        "tenant_id": run.tenant_id,
        "currency": run.currency,
        "from": instant(run.from_us),
        "to": instant(run.to_us),
        "lines": lines,
        "total": owed - taken,
    }
    document = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return Made(document, owed - taken, credit - taken)


def _place(one: Used) -> tuple[int, int, int, str]:
    return _ORDER[one.kind], one.from_us, one.to_us, one.dimension


def _line(one: Used) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "dimension": one.dimension,
        "from": instant(one.from_us),
        "to": instant(one.to_us),
        "quantity": one.quantity,
        "events": one.events,
        "unit_price": pricing.shown(one.price),
        "amount": pricing.amount(one.price, one.quantity, one.before),
        **one.proof,
    }


def _adjustment(run: Run, entry: Entry) -> dict[str, Any]:
    quantity, price = entry.quantity or 0, entry.unit_price or "0"
    return {
        "kind": ADJUSTMENT,
        "entry_id": entry.entry_id,
        "dimension": entry.dimension,
        "from": instant(run.from_us if entry.from_us is None else entry.from_us),
        "to": instant(run.to_us if entry.to_us is None else entry.to_us),
        "at": instant(entry.at_us or 0),
        "quantity": quantity,
        "events": 0,
        "unit_price": price,
        "amount": pricing.amount(price, quantity),
        "reason": entry.reason,
    }
