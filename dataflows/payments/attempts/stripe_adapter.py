"""The adapter of Stripe, on its official SDK: one request per send, under the operation as idempotency key.

Retries are the worker's own, with the same identity: the SDK makes none. Asked for after a doubt: a refund by the list
of its payment, an increment, capture or void by its payment, evidence by its dispute, a payment by search, which lags;
what it does not find is sent again under the same key, which Stripe remembers for a day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import stripe

from dataflows.owner import fail_points
from dataflows.payments.attempts import stripe_calls
from dataflows.payments.attempts.adapter import Answer, Call, Definitive, NotExecuted, NotSent, RequiresAction, Unknown
from dataflows.payments.attempts.http_connection import NoAnswerError, NotConnectedError
from dataflows.payments.attempts.http_pool import HttpPool
from dataflows.payments.attempts.stripe_answers import (
    Object,
    answer_to_capture,
    answer_to_charge,
    answer_to_error,
    answer_to_evidence,
    answer_to_increment,
    answer_to_refund,
    answer_to_search,
    answer_to_void,
)
from dataflows.payments.attempts.stripe_transport import DirectTransport, ToldByVault, VaultTransport
from dataflows.payments.attempts.vault_route import VaultForwarding, VaultRoute, needs_vault
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Awaitable

_FAILURES: Final = (NotConnectedError, NoAnswerError, ToldByVault, stripe.StripeError)
_FOUND_MAX: Final = 10
_REFUNDS_PAGE: Final = 100


class StripeAdapter:
    """Calls one Stripe account; see ``ProcessorAdapter`` for what its answers mean."""

    def __init__(self, base_url: str, api_key: str, name: str, vault: VaultRoute | None = None) -> None:
        """Raises ValueError when an address is none."""
        self._api_key = api_key
        self._base_url = base_url.rstrip("/")
        self._name = name
        self._pool = HttpPool(_origin(base_url))
        self._direct = DirectTransport(self._pool, _written)
        self._vault = None if vault is None else VaultForwarding(vault, name)
        self._client = self._client_over(self._direct)

    @property
    def name(self) -> str:
        """The processor's name as intents carry it."""
        return self._name

    @property
    def identity_kept_s(self) -> float:
        """Idempotency keys may be pruned after 24 hours."""
        return limits.STRIPE_IDENTITY_KEPT_S

    async def send(self, call: Call) -> Answer:
        """Carries the operation out once, however often it is sent."""
        reason = stripe_calls.why_not(call)
        if reason is not None:  # never sent, and never will be: every send of it ends here
            return Definitive(status="failed", provider_ref=None, amount=None, currency=None, error_code=reason)
        method: str | Answer = call.payment_method
        if stripe_calls.needs_method(call):
            method = await self._method(call)
        return await _answered(self._send(call, method)) if isinstance(method, str) else method

    async def query(self, call: Call) -> Answer:
        """What became of the operation."""
        if stripe_calls.why_not(call) is not None:
            return NotExecuted("never_sent")
        return await _asked(self._query(call))

    async def end_wait(self, call: Call, waits: RequiresAction) -> Answer:
        """Cancels the payment: Stripe would wait for ever. A payer who was quicker has paid."""
        return await _asked(self._canceled(call, waits.provider_ref))

    async def is_reachable(self) -> bool:
        """Whether the API answers at all; a refusal is an answer."""
        try:
            await self._client.v1.balance.retrieve_async()
        except (NotConnectedError, NoAnswerError):
            return False
        except stripe.StripeError as error:
            return not (isinstance(answer := answer_to_error(error), Unknown) and answer.is_outage)
        return True

    async def close(self) -> None:
        """Closes idle connections."""
        self._pool.close()
        if self._vault is not None:
            self._vault.close()

    async def _method(self, call: Call) -> str | Answer:
        """The payment method for a card, or what is certain without one: no money has moved, nor will it by this."""
        client = self._client
        if needs_vault(call):
            if self._vault is None:
                return NotExecuted("no_vault")
            client = self._client_over(VaultTransport(self._vault, call))
        parameters: Any = stripe_calls.method_parameters(call)
        options: stripe.RequestOptions = {"idempotency_key": stripe_calls.method_key(call)}
        try:
            return str((await client.v1.payment_methods.create_async(parameters, options)).id)
        except _FAILURES as error:
            answer = _answer_to_failure(error)
        if isinstance(answer, Unknown):  # of the method; the payment itself was not sent
            return NotSent(answer.reason) if answer.is_outage else NotExecuted(f"method_{answer.reason}")
        return answer

    async def _send(self, call: Call, method: str) -> Answer:
        client = self._client
        options: stripe.RequestOptions = {"idempotency_key": call.operation_id}
        parent = call.parent_ref or ""
        parameters: Any
        match call.kind:
            case "increment":
                return await self._increment(call, options)
            case "evidence":
                parameters = stripe_calls.evidence_parameters(call)
                dispute = stripe_calls.dispute_of(call)
                updated = _plain(await client.v1.disputes.update_async(dispute, parameters, options))
                return _answer_to_send(answer_to_evidence(call, updated))
            case "capture":
                parameters = stripe_calls.capture_parameters(call)
                captured = await client.v1.payment_intents.capture_async(parent, parameters, options)
                return answer_to_capture(call, _plain(captured))
            case "void":
                return answer_to_void(call, _plain(await client.v1.payment_intents.cancel_async(parent, {}, options)))
            case "refund":
                parameters = stripe_calls.refund_parameters(call)
                return answer_to_refund(call, _plain(await client.v1.refunds.create_async(parameters, options)))
        parameters = stripe_calls.charge_parameters(call, method)
        return answer_to_charge(call, _plain(await client.v1.payment_intents.create_async(parameters, options)))

    async def _increment(self, call: Call, options: stripe.RequestOptions) -> Answer:
        """Stripe wants the new total. Whoever sends again finds the trace of the first time, and asks for no more."""
        intents, parent = self._client.v1.payment_intents, call.parent_ref or ""
        held = _plain(await intents.retrieve_async(parent))
        known = answer_to_increment(call, held)
        if not isinstance(known, NotExecuted):
            return known
        parameters: Any = stripe_calls.increment_parameters(call, held["amount"])
        grown = await intents.increment_authorization_async(parent, parameters, options)
        return _answer_to_send(answer_to_increment(call, _plain(grown)))

    async def _canceled(self, call: Call, name: str) -> Answer:
        parameters: Any = stripe_calls.END_OF_WAIT
        return answer_to_charge(call, _plain(await self._client.v1.payment_intents.cancel_async(name, parameters)))

    async def _query(self, call: Call) -> Answer:
        intents = self._client.v1.payment_intents
        parent = call.parent_ref or ""
        if call.kind == "increment":
            return answer_to_increment(call, _plain(await intents.retrieve_async(parent)))
        if call.kind == "evidence":
            dispute = stripe_calls.dispute_of(call)
            return answer_to_evidence(call, _plain(await self._client.v1.disputes.retrieve_async(dispute)))
        if call.kind == "capture":
            return answer_to_capture(call, _plain(await intents.retrieve_async(parent)))
        if call.kind == "void":
            return answer_to_void(call, _plain(await intents.retrieve_async(parent)))
        if call.kind == "refund":
            return await self._query_refund(call)
        found = await intents.search_async({"query": stripe_calls.search_query(call), "limit": _FOUND_MAX})
        return answer_to_search(call, [_plain(intent) for intent in found.data])

    async def _query_refund(self, call: Call) -> Answer:
        parameters: Any = {**stripe_calls.parent_of_refund(call), "limit": _REFUNDS_PAGE}
        listed = await self._client.v1.refunds.list_async(parameters)
        for refund in map(_plain, listed.data):
            if (refund.get("metadata") or {}).get("operation_id") == call.operation_id:
                return answer_to_refund(call, refund)
        return Unknown("too_many_refunds") if listed.has_more else NotExecuted("not_found")

    def _client_over(self, transport: stripe.HTTPClient) -> stripe.StripeClient:
        return stripe.StripeClient(
            self._api_key,
            base_addresses={"api": self._base_url},
            http_client=transport,
            max_network_retries=0,
        )


async def _answered(request: Awaitable[Answer]) -> Answer:
    """The answer, or what its failure says for certain."""
    try:
        return await request
    except _FAILURES as error:
        return _answer_to_failure(error)


async def _asked(request: Awaitable[Answer]) -> Answer:
    """The answer to a question about an operation: what refuses the question says nothing of the operation itself."""
    try:
        return await request
    except _FAILURES as error:
        answer = _answer_to_failure(error)
    return Unknown(f"refused_{answer.error_code}") if isinstance(answer, Definitive) else answer


def _answer_to_failure(error: Exception) -> Answer:
    match error:
        case NotConnectedError():
            return NotSent("not_connected")
        case ToldByVault(answer=answer):
            return answer
        case stripe.StripeError():
            return answer_to_error(error)
    return Unknown(str(error), is_outage=True)  # a part of it was written, and no whole answer came


def _answer_to_send(answer: Answer) -> Answer:
    """What was sent and answered was not "not executed": an answer without our trace is another one's."""
    return Unknown("answer_to_another_call") if isinstance(answer, NotExecuted) else answer


def _plain(found: stripe.StripeObject) -> Object:
    return found.to_dict()


def _origin(base_url: str) -> str:
    """The address without its path: the SDK's own URLs have that already."""
    scheme, _, rest = base_url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _written() -> None:
    fail_points.reach("attempt_after_send")
