"""The client for asyncio: the same calls as ``MillraceClient``, awaited. Use it on one event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingress import limits
from ingress.client import declared, protocols, wire
from ingress.client.connection import AsyncConnection
from ingress.client.messages import CommandLine, Committed, LineAnswer
from ingress.client.protocols import DISPUTES, INTENTS, PAYOUTS, REFUNDS
from schemas.payments.records import PaymentIntent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from datetime import datetime


class AsyncMillraceClient(AsyncConnection):
    """Calls Millrace for one merchant. ``token`` is a bearer token, or a function that gives a fresh one each time."""

    async def create(
        self,
        *,
        amount: int,
        currency: str,
        payment_method: str | None = None,
        capture_method: str = "automatic",
        metadata: dict[str, str] | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
        **further: Any,
    ) -> Committed:
        """Creates a payment intent once. ``further``: any other field that the operation declares."""
        payload: dict[str, Any] = {"amount": amount, "currency": currency, "capture_method": capture_method}
        payload |= {"payment_method": payment_method, "metadata": metadata or {}}
        payload |= declared.fields("create_payment_intent", further)
        return await self._command(INTENTS, payload, idempotency_key, None, deadline_ms)

    async def confirm(
        self,
        intent_id: str,
        *,
        payment_method: str | None = None,
        customer_ip: str | None = None,
        customer_country: str | None = None,
        card_country: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Confirms an intent once; it is processing afterwards, unless the risk rules stop it or want it looked at."""
        said = {"payment_method": payment_method, "customer_ip": customer_ip}
        said |= {"customer_country": customer_country, "card_country": card_country}
        payload = {name: value for name, value in said.items() if value is not None}
        path = f"{INTENTS}/{intent_id}/confirm"
        return await self._command(path, payload, idempotency_key, expected_version, deadline_ms)

    async def capture(
        self,
        intent_id: str,
        *,
        amount: int | None = None,
        final: bool = True,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Captures all that is capturable, or an amount of it, once."""
        payload = {"amount": amount, "final": final}
        path = f"{INTENTS}/{intent_id}/capture"
        return await self._command(path, payload, idempotency_key, expected_version, deadline_ms)

    async def update(
        self,
        intent_id: str,
        changes: dict[str, Any],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Changes what was agreed on, once; only before a processor was asked for money."""
        return await self._command(f"{INTENTS}/{intent_id}", changes, idempotency_key, expected_version, deadline_ms)

    async def increment(
        self,
        intent_id: str,
        amount: int,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Starts to hold more, once: the amount is the new total."""
        path = f"{INTENTS}/{intent_id}/increment_authorization"
        return await self._command(path, {"amount": amount}, idempotency_key, expected_version, deadline_ms)

    async def submit_evidence(
        self,
        dispute_id: str,
        evidence: dict[str, str],
        *,
        submit: bool = True,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Adds texts to the draft against a dispute and, unless told otherwise, sends all of it, once and for good."""
        path, payload = f"{DISPUTES}/{dispute_id}/evidence", {"evidence": evidence, "submit": submit}
        return await self._command(path, payload, idempotency_key, expected_version, deadline_ms)

    async def cancel(
        self,
        intent_id: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Cancels an intent once."""
        payload = {"cancellation_reason": reason} if reason else {}
        path = f"{INTENTS}/{intent_id}/cancel"
        return await self._command(path, payload, idempotency_key, expected_version, deadline_ms)

    async def get(self, intent_id: str, *, wait_s: float = 0) -> dict[str, Any]:
        """The intent; with a wait, as soon as it is not processing any more or the wait is over."""
        return await self._run(protocols.get(intent_id, wait_s, self._jitter))

    async def wait(self, intent_id: str, *states: str, within_s: float = 60) -> dict[str, Any]:
        """The intent once it is in one of the states (none given: not processing). Raises StillProcessing."""
        return await self._run(protocols.wait(intent_id, states, wire.polls(within_s), self._jitter))

    def list(self, *, page_limit: int = limits.PAGE_LIMIT_MAX, **filters: str) -> AsyncIterator[dict[str, Any]]:
        """Every intent of the merchant, or with the value of a field that the list filters by, newest first."""
        return self._pages(INTENTS, page_limit, **declared.filters(PaymentIntent, filters))

    async def refund(
        self,
        payment_intent: str,
        *,
        amount: int | None = None,
        reason: str | None = None,
        metadata: dict[str, str] | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Gives an amount of a payment back, or all that is refundable, once; it is pending afterwards."""
        payload = {"payment_intent": payment_intent, "amount": amount, "reason": reason, "metadata": metadata or {}}
        return await self._command(REFUNDS, payload, idempotency_key, None, deadline_ms)

    async def cancel_refund(
        self,
        refund_id: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Cancels a refund that has not begun, once."""
        path = f"{REFUNDS}/{refund_id}/cancel"
        return await self._command(path, {}, idempotency_key, expected_version, deadline_ms)

    async def get_refund(self, refund_id: str, *, wait_s: float = 0) -> dict[str, Any]:
        """The refund; with a wait, as soon as it is not pending any more or the wait is over."""
        return await self._run(protocols.get(refund_id, wait_s, self._jitter, path=REFUNDS))

    def refunds(
        self, payment_intent: str | None = None, *, page_limit: int = limits.PAGE_LIMIT_MAX
    ) -> AsyncIterator[dict[str, Any]]:
        """Every refund of the merchant or of one payment, newest first, page by page as it is iterated."""
        return self._pages(REFUNDS, page_limit, payment_intent=payment_intent)

    def disputes(
        self, payment_intent: str | None = None, *, page_limit: int = limits.PAGE_LIMIT_MAX
    ) -> AsyncIterator[dict[str, Any]]:
        """Every dispute of the merchant or of one payment, newest first, page by page as it is iterated."""
        return self._pages(DISPUTES, page_limit, payment_intent=payment_intent)

    async def pay_out(
        self,
        amount: int,
        currency: str,
        destination: str,
        *,
        metadata: dict[str, str] | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Pays an amount of what is available out, once; it is pending until the bank has paid."""
        payload = {"amount": amount, "currency": currency, "destination": destination, "metadata": metadata or {}}
        return await self._command(PAYOUTS, payload, idempotency_key, None, deadline_ms)

    async def cancel_payout(
        self,
        payout_id: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Cancels a payout while it is pending, once."""
        path = f"{PAYOUTS}/{payout_id}/cancel"
        return await self._command(path, {}, idempotency_key, expected_version, deadline_ms)

    async def get_payout(self, payout_id: str, *, wait_s: float = 0) -> dict[str, Any]:
        """The payout; with a wait, as soon as it is not pending any more or the wait is over."""
        return await self._run(protocols.get(payout_id, wait_s, self._jitter, path=PAYOUTS))

    def payouts(self, *, page_limit: int = limits.PAGE_LIMIT_MAX) -> AsyncIterator[dict[str, Any]]:
        """Every payout of the merchant, newest first, page by page as it is iterated."""
        return self._pages(PAYOUTS, page_limit)

    async def balance(self, at: datetime | None = None) -> dict[str, dict[str, int]]:
        """By currency what is pending, available and reserved, in minor units; now, or at a past time with a zone."""
        return protocols.by_currency(await self._run(protocols.balance(at, self._jitter)))

    async def review(
        self, intent_id: str, decision: str, *, note: str | None = None, idempotency_key: str | None = None
    ) -> Committed:
        """Approves or rejects ("approve", "reject") a payment that waits for it, once. For operators."""
        path = f"{INTENTS}/{intent_id}/review"
        return await self._command(path, {"decision": decision, "note": note}, idempotency_key, None, None)

    async def publish_policy(self, kind: str, document: dict[str, Any], *, expected_version: int) -> dict[str, Any]:
        """Makes the next version of a policy ("risk", "routing"); safe to repeat. For operators."""
        return await self._run(protocols.publish(kind, document, expected_version, self._jitter))

    def policies(self, kind: str, *, page_limit: int = limits.POLICIES_PAGE_LIMIT_MAX) -> AsyncIterator[dict[str, Any]]:
        """Every version of a policy, newest first, page by page as it is iterated. For operators."""
        return self._pages(f"/v1/{kind}/policies", page_limit)

    async def operation(self, request_id: str) -> dict[str, Any]:
        """What became of a command, by its request id."""
        return await self._run(protocols.read(wire.operation(request_id), self._jitter))

    async def commands(
        self, lines: Iterable[CommandLine], *, batch_lines: int = wire.BATCH_LINES_DEFAULT
    ) -> AsyncIterator[LineAnswer]:
        """Carries out many commands and yields one answer each, in order; a batch is one request."""
        for batch in wire.batches(lines, batch_lines):
            for answer in await self._run(protocols.lines(batch, wait_s=self._wait_s, jitter=self._jitter)):
                yield answer
