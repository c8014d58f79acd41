"""An invoice as a document: lines by dimension and period, and bytes that are the same for ever. Pure.

What was used in the period is ``usage``. What came later for a period that was billed already is ``late_usage`` of the
next invoice, under the old period: an invoice that stands never changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from schemas.tenancy import pricing
from schemas.tenancy.instants import instant

Kind = Literal["usage", "late_usage"]
_ORDER: Final[dict[str, int]] = {"usage": 0, "late_usage": 1}


class Used(NamedTuple):
    """What was used of a dimension in a period, as the events say."""

    kind: Kind
    dimension: str
    from_us: int
    to_us: int
    quantity: int
    events: int


class Run(NamedTuple):
    """What a billing run fixed: whose, which period, at which prices."""

    billing_run_id: str
    invoice_id: str
    tenant_id: str
    currency: str
    prices: Mapping[str, str]
    from_us: int
    to_us: int


def used_by(run: Run, own: Iterable[tuple[Any, ...]], late: Iterable[tuple[Any, ...]]) -> list[Used]:
    """What an invoice is made of: rows (dimension, quantity, events), and with (from, to) between of late ones."""
    found = [Used("usage", dimension, run.from_us, run.to_us, int(sum_), events) for dimension, sum_, events in own]
    found += [Used("late_usage", dimension, a, b, int(sum_), events) for dimension, a, b, sum_, events in late]
    return found


def document(run: Run, used: Iterable[Used]) -> bytes:
    """The invoice's bytes: of what is priced, each line rounded once, and their sum."""
    lines = [_line(run, one) for one in sorted(used, key=_place) if one.dimension in run.prices and one.events]
    found = {
        "invoice_id": run.invoice_id,
        "billing_run_id": run.billing_run_id,
        "tenant_id": run.tenant_id,
        "currency": run.currency,
        "from": instant(run.from_us),
        "to": instant(run.to_us),
        "lines": lines,
        "total": sum(line["amount"] for line in lines),
    }
    return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _place(one: Used) -> tuple[int, int, int, str]:
    return _ORDER[one.kind], one.from_us, one.to_us, one.dimension


def _line(run: Run, one: Used) -> dict[str, Any]:
    price = run.prices[one.dimension]
    return {
        "kind": one.kind,
        "dimension": one.dimension,
        "from": instant(one.from_us),
        "to": instant(one.to_us),
        "quantity": one.quantity,
        "events": one.events,
        "unit_price": price,
        "amount": pricing.amount(price, one.quantity),
    }
