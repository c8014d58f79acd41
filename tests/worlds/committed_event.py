"""What a decision becomes in a commit of ``tests.worlds.committed_world``: its parts, and its event."""

from __future__ import annotations

from typing import Any

import msgspec

from dataflows.payments.domain.accounts import account
from dataflows.payments.domain.decision import Decision
from dataflows.payments.domain.ledger.journal import JournalEntry
from schemas.avro import codec
from schemas.payments.records import LedgerTxn
from schemas.records import Command

Decided = Decision | JournalEntry | account.AccountDecision


def parts_of(decision: Decided) -> dict[str, Any]:
    """What a commit changed, as the fields of ``Commit``."""
    if isinstance(decision, JournalEntry):
        return {"intent": None, "attempts": [], "journal": decision}
    if isinstance(decision, account.AccountDecision):
        parts = {"account": decision.account, "payout": decision.payout, "destination": decision.destination}
        return {"intent": None, "attempts": [], **parts}
    attempts = [a for a in (decision.caused_by, decision.attempt) if a is not None]
    return {
        "intent": decision.intent,
        "attempts": attempts,
        "refund": decision.refund,
        "dispute": decision.dispute,
    }


def event_of(event_id: str, seq: int, now: int, command: Command, decision: Decided, txns: list[LedgerTxn]) -> bytes:
    """The event as it lies in the outbox and on the topic."""
    asdict = msgspec.structs.asdict
    body: dict[str, Any] = {"payment_intent": None, "processor_attempt": None, "refund": None, "dispute": None}
    body["caused_by"] = None
    version, scope = 1, command.scope
    if isinstance(decision, Decision):
        version, scope = decision.intent.version, decision.intent.merchant_id
        body["payment_intent"] = asdict(decision.intent)
        body["processor_attempt"] = asdict(decision.attempt) if decision.attempt else None
        body["refund"] = asdict(decision.refund) if decision.refund else None
        body["dispute"] = asdict(decision.dispute) if decision.dispute else None
        body["caused_by"] = asdict(decision.caused_by) if decision.caused_by else None
    body |= {"risk": None, "account": None, "payout": None, "payout_destination": None}
    if isinstance(decision, account.AccountDecision):
        version, scope = decision.account.version, decision.account.merchant_id
        body["account"] = asdict(decision.account)
        body["payout"] = asdict(decision.payout) if decision.payout else None
        body["payout_destination"] = asdict(decision.destination) if decision.destination else None
    body["ledger_txns"] = [{**asdict(t), "entries": [asdict(e) for e in t.entries]} for t in txns]
    return codec.encode(
        "PaymentSystemCommitted",
        {
            "event_id": event_id,
            "aggregate_key": command.aggregate_key,
            "event_type": "payment_system_committed",
            "schema_version": codec.schema_named("PaymentSystemCommitted").version,
            "trace_id": command.trace_id,
            "seq": seq,
            "occurred_at": now,
            "version": version,
            "scope": scope,
            "operation": command.operation,
            "body": body,
        },
    )
