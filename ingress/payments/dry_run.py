"""``?dry_run=true``: what a command would come to, by the owner's own rules over what is committed now.

Nothing is written, sent, counted or remembered, not even the identity. It is a forecast and no promise: another command
may come first, and what the published rules would have to be told about velocity and the card is not looked up. The
answer names what was not considered; rules say themselves what they make of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dataflows.payments.domain import commands as domain
from dataflows.payments.domain import routing
from dataflows.payments.domain.decision import Context, Decision
from dataflows.payments.domain.policies import risk
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.domain.policies.in_force import Policies, ProcessorHealth
from dataflows.payments.domain.stored import payments_of
from ingress.commands.admission import DRY_RUN
from ingress.http import answers, problems
from schemas import errors, records
from schemas.payments import rendering
from schemas.payments.policies import risk_policy
from schemas.payments.policies import routing as routing_policy
from sinks.postgres.arrays import text_array
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from ingress.commands.envelope import Request
    from ingress.commands.stored import StoredResults
    from ingress.http.store import Store
    from ingress.identity.caller import Caller
    from ingress.payments.payment_methods import PaymentMethods

_REFUNDS: Final = frozenset(("create_refund", "cancel_refund"))
OPERATIONS: Final = _REFUNDS | {
    *("create_payment_intent", "confirm_payment_intent", "capture_payment_intent", "cancel_payment_intent"),
}
_CONFIRM: Final = "confirm_payment_intent"
_SQL: Final = queries("sinks.postgres.queries.payments", "payments.sql") | queries(
    "sinks.postgres.queries.payments", "policies.sql"
)
_READ: Final[dict[str, Callable[[int, str], Any]]] = {"risk": risk.read_policy, "routing": routing.read_policy}
_HEALTH_FIELDS: Final = ProcessorHealth.__struct_fields__
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class DryRuns:
    """Forecasts of one process, over its ordinary reads."""

    def __init__(
        self, store: Store, stored: StoredResults, payment_methods: PaymentMethods, processors: tuple[str, ...]
    ) -> None:
        self._store = store
        self._stored = stored
        self._payment_methods = payment_methods
        self._processor = processors[0] if processors else "simulator"
        self._processors = frozenset(processors)

    async def forecast(self, caller: Caller, request: Request) -> answers.Answer:
        """The answer that the call would get now, flagged. Raises as the call itself, and InvalidCommand."""
        if request.operation.name not in OPERATIONS:
            reason = "is not for this operation"
            raise errors.InvalidCommand([{"field": DRY_RUN, "reason": reason}], f"A dry run {reason}.")
        prior = await self._stored.find((caller.merchant, request.idempotency_key))
        if prior is not None and prior.request_hash != request.request_hash:
            raise errors.KeyReused
        if prior is not None:
            decided = _decode(prior.response)
            return _would(decided["result"], []) if prior.status == "committed" else _would_refuse(decided)
        await self._payment_methods.require_own(caller.merchant, request.payload)
        key = request.aggregate_key
        ids = (text_array([key]),)
        intents, attempts, active, health, frozen = await self._store.snapshot(
            (_SQL["intents_read"], ids),
            (_SQL["attempts_read"], ids),
            (_SQL["policies_active"], ()),
            (_SQL["processors_health"], ()),
            (_SQL["merchant_frozen"], (caller.merchant,)),
        )
        now = time.time_ns() // 1_000
        policies, not_considered = self._policies(active, health, frozenset([caller.merchant] if frozen else []))
        context = Context(now=now, fees=FeeSchedule(), processor=self._processor, policies=policies)
        decision = domain.decide(payments_of(intents, attempts).get(key), _command(caller, request, now), context)
        if not isinstance(decision, Decision):
            return _would_refuse({"code": decision.code, "detail": decision.detail, **decision.extra})
        is_refund = request.operation.name in _REFUNDS and decision.refund is not None
        shown = (
            rendering.refund(decision.refund)
            if is_refund and decision.refund
            else rendering.payment_intent(decision.intent)
        )
        return _would(shown, not_considered if request.operation.name == _CONFIRM else [])

    def _policies(
        self, active: list[tuple[Any, ...]], health: list[tuple[Any, ...]], frozen: frozenset[str]
    ) -> tuple[Policies, list[str]]:
        """What an owner would decide by now, and what of it asks for signals that a dry run must not count."""
        found: dict[str, Any] = {}
        not_considered: list[str] = []
        for kind, version, body in active:
            if kind not in _READ:
                continue
            try:
                found[kind] = _READ[kind](version, body)
            except msgspec.DecodeError:  # of a newer build
                not_considered.append(kind)
        policies = Policies(
            **found,
            frozen_merchants=frozen,
            processors=self._processors,
            health={row[0]: ProcessorHealth(**dict(zip(_HEALTH_FIELDS, row[1:], strict=True))) for row in health},
        )
        document = policies.risk.document
        if risk_policy.velocities(document):
            not_considered.append("velocity")
        if risk_policy.needs_card(document) or routing_policy.needs_network(policies.routing):
            not_considered.append("card")
        return policies, not_considered


def _command(caller: Caller, request: Request, now: int) -> records.Command:
    return records.Command(
        operation=request.operation.name,
        request_id=request.request_id or DRY_RUN,
        idempotency_key=request.idempotency_key,
        aggregate_key=request.aggregate_key,
        expected_version=request.expected_version,
        scope=caller.merchant,
        request_hash=request.request_hash,
        trace_id=DRY_RUN,
        issued_at=now,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=request.payload,
    )


def _would(result: dict[str, Any], not_considered: list[str]) -> answers.Answer:
    return answers.Answer(status=200, body=_encode({DRY_RUN: True, "result": result, "not_considered": not_considered}))


def _would_refuse(refusal: dict[str, Any]) -> answers.Answer:
    code = refusal.pop("code")
    detail = refusal.pop("detail", problems.row(code).title)
    body = problems.render(code, detail, {**refusal, DRY_RUN: True})
    return answers.Answer(status=problems.row(code).status, body=body, code=code)
