"""The inbox of webhooks as the worker sees it. Every method may raise psycopg.OperationalError: the round is repeated.

Nothing is leased: a claimed event is due again by itself, and whatever a round does may be done twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import psycopg
from msgspec import structs

from dataflows.payments.webhooks import commands
from dataflows.payments.webhooks.findings import AttemptOutcome, DisputeChange, Finding
from dataflows.payments.webhooks.releases import BOUNDS, OverdueHold
from dataflows.payments.webhooks.steps import AttemptSeen, Due, IntentSeen, Seen, Step
from schemas import identity
from schemas.payments import facts
from schemas.payments import limits as payments_limits
from sinks import limits as sinks_limits
from sinks.postgres.session import INDEXED, NOT_HELD, Session
from sinks.postgres.sql_files import queries

_SESSION: Final = (
    f"{INDEXED} {NOT_HELD} -c synchronous_commit=on -c statement_timeout={payments_limits.WEBHOOK_STATEMENT_TIMEOUT_MS}"
)
_json: Final = msgspec.json.Encoder()


class InboxStore:
    """One connection, made again when it is lost."""

    def __init__(self, dsn: str, worker: str) -> None:
        self._dsn = dsn
        self._worker = worker
        self._sql = {
            name: text.encode() for name, text in queries("sinks.postgres.queries.payments", "webhooks.sql").items()
        }
        self._made: psycopg.Connection | None = None

    def close(self) -> None:
        """Disconnects; the next call connects again."""
        if self._made is not None:
            self._made.close()
            self._made = None

    def claim(self) -> list[Due]:
        """Due events, the oldest first; each is due again after its schedule, whatever becomes of this process."""
        rows = self._rows(
            "events_claim",
            {
                "count": payments_limits.WEBHOOK_CLAIM_MAX,
                "schedule_ms": list(payments_limits.WEBHOOK_RETRY_SCHEDULE_MS),
                "tries_max": len(payments_limits.WEBHOOK_RETRY_SCHEDULE_MS),
            },
        )
        return [Due(**dict(zip(Due.__struct_fields__, row[1:], strict=True))) for row in sorted(rows, key=_by_arrival)]

    def with_payments(self, findings: Sequence[tuple[Due, Finding]]) -> list[tuple[Due, Finding]]:
        """The same; a dispute that only names the processor's charge also names our payment, once that is known."""
        unnamed = {(due.processor, ref) for due, found in findings if (ref := _only_charge_ref(found))}
        if not unnamed:
            return list(findings)
        processors, refs = zip(*sorted(unnamed), strict=True)
        rows = self._rows("payments_named", {"processors": list(processors), "provider_refs": list(refs)})
        payments = {(processor, ref): intent_id for processor, ref, intent_id in rows}
        return [
            (due, _named(found, payments.get((due.processor, _only_charge_ref(found) or ""))))
            for due, found in findings
        ]

    def look_up(self, findings: Sequence[tuple[Due, Finding]]) -> Seen:
        """What is committed of the payments and facts that these events speak of."""
        intents = sorted({intent_id for _, found in findings if (intent_id := _intent_of(found))})
        if not intents:
            return Seen()
        seen = Seen()
        for name, processor, received in self._rows("intents_seen", {"intents": intents}):
            seen.intents[name] = IntentSeen(processor=processor, amount_received=received)
        for intent_id, number, *row in self._rows("attempts_seen", {"intents": intents}):
            fields = dict(zip(AttemptSeen.__struct_fields__, row, strict=True))
            seen.attempts[intent_id, number] = AttemptSeen(**fields)
        identities = [(facts.processor_scope(due.processor), key) for due, found in findings for key in keys_of(found)]
        parameters = {"scopes": [scope for scope, _ in identities], "keys": [key for _, key in identities]}
        for scope, key, refusal in self._rows("decisions_seen", parameters):
            seen.decisions[scope, key] = refusal
        return seen

    def record(self, steps: Sequence[tuple[Due, Step]]) -> None:
        """Writes states and opens cases, all or nothing. The commands of these steps must be durable before."""
        if not steps:
            return
        ordered = sorted(steps, key=lambda pair: (pair[0].processor, pair[0].provider_event_id))
        with self._connection().transaction():
            self._open_cases([pair for pair in ordered if pair[1].case is not None])
            self._rows(
                "events_record",
                {
                    "processors": [due.processor for due, _ in ordered],
                    "provider_event_ids": [due.provider_event_id for due, _ in ordered],
                    "states": [step.state for _, step in ordered],
                    "notes": [step.note for _, step in ordered],
                },
            )

    def holds_overdue(self, after: tuple[int, str]) -> list[OverdueHold]:
        """Holds whose release is to be asked for now, the oldest behind a time and payment first; a bounded number."""
        rows = self._rows("holds_overdue", BOUNDS | {"until": after[0], "intent_id": after[1]})
        return [OverdueHold(**dict(zip(OverdueHold.__struct_fields__, row, strict=True))) for row in rows]

    def give_up_holds(self) -> list[str]:
        """Opens a case for each hold whose release was asked for in vain; of which authorizations."""
        return [row[0] for row in self._rows("holds_given_up", BOUNDS)]

    def prune(self) -> int:
        """Deletes events that were settled long ago, a bounded number; how many."""
        bounds = {
            "kept_s": payments_limits.PROVIDER_EVENTS_KEPT_S,
            "count": payments_limits.PROVIDER_EVENTS_PRUNE_BATCH_MAX,
        }
        return self._connection().execute(self._sql["events_prune"], bounds).rowcount

    def backlog(self) -> dict[str, tuple[int, float]]:
        """By state, how many events are not settled, and the age in seconds of the oldest."""
        return {state: (count, age_s) for state, count, age_s in self._rows("events_backlog", {})}

    def _open_cases(self, steps: Sequence[tuple[Due, Step]]) -> None:
        cases = [(due, step, step.case) for due, step in steps if step.case is not None]
        if not cases:
            return
        self._rows(
            "cases_open",
            {
                "ids": [_case_id(due) for due, _, _ in cases],
                "kinds": [case.kind for _, _, case in cases],
                "references": [case.reference for _, _, case in cases],
                "processors": [due.processor for due, _, _ in cases],
                "evidence": [_evidence(due, step) for due, step, _ in cases],
            },
        )

    def _rows(self, name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        cursor = self._connection().execute(self._sql[name], parameters)
        return cursor.fetchall() if cursor.description else []

    def _connection(self) -> psycopg.Connection:
        if self._made is None or self._made.closed:
            self._made = Session.connect(
                self._dsn,
                autocommit=True,
                application_name=self._worker,
                options=_SESSION,
                connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
                keepalives_idle=sinks_limits.POSTGRES_KEEPALIVE_S,
            )
        return self._made


def _by_arrival(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[0], row[2]


def _case_id(due: Due) -> str:
    """An event opens one case at most, and that one only once."""
    return identity.derived_id("case", due.processor, "provider_event", due.provider_event_id)


def _evidence(due: Due, step: Step) -> str:
    found = {"provider_event_id": due.provider_event_id, "event_type": due.event_type, "note": step.note}
    return _json.encode(found).decode()


def _only_charge_ref(found: Finding) -> str | None:
    return found.charge_ref if isinstance(found, DisputeChange) and not found.intent_id else None


def _named(found: Finding, intent_id: str | None) -> Finding:
    return structs.replace(found, intent_id=intent_id) if intent_id and isinstance(found, DisputeChange) else found


def _intent_of(found: Finding) -> str | None:
    if isinstance(found, DisputeChange):
        return found.intent_id or None
    if isinstance(found, AttemptOutcome) and (place := identity.place_of_operation(found.operation_id)):
        return place[0]
    return None


def keys_of(found: Finding) -> list[str]:
    """Every identity that the fact may have been told under."""
    if isinstance(found, DisputeChange):
        return [commands.dispute_key(found)]
    if not isinstance(found, AttemptOutcome):
        return []
    if found.status == "pending":
        return [facts.pending_key(found.operation_id, found.pending_reason)]
    statuses = ("authorized", "captured") if found.status == "charged" else (found.status,)
    keys = [facts.outcome_key(found.operation_id, status) for status in statuses]
    return [*keys, facts.outcome_key(found.operation_id, facts.FAILED_LATER)] if found.status == "failed" else keys
