"""What payments meter: every committed command, and every captured payment, of a merchant. Pure."""

from __future__ import annotations

from typing import Any

from schemas.records import Event
from sinks.clickhouse.metering import Metered


def metered(event: Event) -> list[Metered]:
    """A capture is one transaction of the ledger, whatever becomes of the money later."""
    body: dict[str, Any] = event.body
    found = [Metered("commands", event.scope, 1)]
    if captured := sum(txn["kind"] == "capture" for txn in body["ledger_txns"]):
        found.append(Metered("payments_captured", event.scope, captured))
    return found
