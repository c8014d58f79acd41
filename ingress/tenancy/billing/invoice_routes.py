"""Invoices: read, paid by their tenant, voided by staff. What is paid and what is void, payments decide.

Killed between the intent and its confirm, a retry finds the intent: both identities follow from the caller's own.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from dataflows.tenancy.domain import invoice_intent
from dataflows.tenancy.domain.invoice_intent import BILLING_MERCHANT, CREATE
from ingress.commands import calling, envelope, envelope_fields
from ingress.commands.commands import Commands
from ingress.commands.form_commands import carry_out
from ingress.http import answers
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.operators import operating
from ingress.operators.audit import Audit
from ingress.payments.resources import Collections
from ingress.tenancy.billing import invoice_payment
from ingress.tenancy.billing.invoice_payment import CANCEL, CONFIRM
from ingress.tenancy.billing.invoices import Billing
from ingress.tenancy.callers import is_member, require_staff
from ingress.tenancy.tenants import Tenants
from schemas import errors, limits
from schemas.services import OPERATIONS
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy.desk_operations import STAFF, TENANT_ADMIN

if TYPE_CHECKING:
    from ingress.identity.caller import Caller
    from ingress.tenancy.billing.invoices import StoredInvoice
    from schemas.payments.records import PaymentIntent

router: Final = APIRouter()
_INVOICE: Final = "/v1/invoices/{invoice_id}"
_VOID: Final = "invoice.void"
_FOR_EVER: Final = {"Cache-Control": "private, max-age=31536000, immutable"}


@router.get(_INVOICE)
async def get_invoice(request: Request, invoice_id: str) -> Response:
    """The invoice: it never changes."""
    _, stored = await _invoice(request, invoice_id)
    return calling.json(stored.document, _FOR_EVER)


@router.get(f"{_INVOICE}/document")
async def get_document(request: Request, invoice_id: str) -> Response:
    """Its bytes; with ``recompute``, made again from the events and the run's prices: 202 while that goes on."""
    is_made_again = reading.choice(request, "recompute", ("true", "false")) == "true"
    _, stored = await _invoice(request, invoice_id)
    if not is_made_again:
        return calling.json(stored.document, _FOR_EVER)
    document = await parts_of(request).get(Billing).made_again(invoice_id, stored)
    if document is None:
        said = {"object": "invoice_made_again", "invoice_id": invoice_id, "state": "running"}
        return calling.json(said, calling.NO_STORE | {"Retry-After": str(tenancy_limits.INVOICE_AGAIN_ASK_S)}, 202)
    return calling.json(document)


@router.get(f"{_INVOICE}/payment")
async def get_payment(request: Request, invoice_id: str) -> Response:
    """Whether it is paid."""
    _, stored = await _invoice(request, invoice_id)
    return calling.json(invoice_payment.rendered(json.loads(stored.document), await intent_of(request, invoice_id)))


@router.post(f"{_INVOICE}/pay")
async def pay(request: Request, invoice_id: str) -> Response:
    """Tries to pay it, in the name of its tenant. Of all tries one succeeds, for they are of one intent."""
    raw = await calling.without_tenant(request, STAFF, TENANT_ADMIN)
    caller, stored = await _invoice(request, invoice_id)
    if not is_member(caller):
        raise errors.Forbidden("An invoice is paid by its tenant.")
    return await _settle(request, caller, stored, CONFIRM, raw)


@router.post(f"{_INVOICE}/void")
async def void(request: Request, invoice_id: str) -> Response:
    """Nobody can pay it any more. What is paid is refunded instead; what a processor has is waited for."""
    raw = await calling.without_tenant(request, STAFF, TENANT_ADMIN)
    caller, stored = await _invoice(request, invoice_id)
    require_staff(caller, STAFF)
    operating.person(caller)
    audit = parts_of(request).get(Audit)
    async with audit.privileged(caller, (STAFF,), _VOID, invoice_id, {}, audits_itself=True):
        await audit.append(caller, _VOID, invoice_id, "begun", {})  # who it is stays known, whoever is killed meanwhile
        answer = await _settle(request, caller, stored, CANCEL, raw)
        outcome = "refused" if answer.status_code >= HTTPStatus.BAD_REQUEST else "done"
        await audit.append(caller, _VOID, invoice_id, outcome, {})
    return answer


async def intent_of(request: Request, invoice_id: str) -> PaymentIntent | None:
    """The intent of an invoice, if one was made."""
    intents = parts_of(request).get(Collections).intents
    try:
        return await intents.get(BILLING_MERCHANT, invoice_intent.intent_of(invoice_id))
    except errors.NotFound:
        return None


async def ensure_intent(request: Request, caller: Caller, tenant_id: str, invoice: dict[str, Any]) -> str:
    """The id of its intent, made if need be. Raises StateConflict where nothing is due, or not what it says."""
    unmade = invoice_payment.state_of(invoice["total"], None)
    if not invoice["total"]:
        raise errors.StateConflict("The total of this invoice is 0: nothing is due.", unmade)
    if invoice["total"] > limits.AMOUNT_MINOR_MAX:
        raise errors.StateConflict(
            f"The total of this invoice is more than one payment can be, {limits.AMOUNT_MINOR_MAX}.", unmade
        )
    invoice_id = invoice["invoice_id"]
    intent = await intent_of(request, invoice_id)
    if intent is None:
        said = invoice_payment.creation(tenant_id, invoice)
        made = await carry_out(request, caller, CREATE, invoice_intent.identity_of(invoice_id), said)
        if made.result is None and made.is_refused:
            raise errors.StateConflict(made.refusal)
        if made.result is None:
            raise errors.Unavailable
    elif not invoice_payment.is_of(intent, invoice):
        state = invoice_payment.state_of(invoice["total"], intent)
        raise errors.StateConflict("The payment of this invoice was changed by hand: ask support.", state)
    return invoice_intent.intent_of(invoice_id)


def as_biller(caller: Caller) -> Caller:
    """The caller with the rights of the billing merchant over the intent of one invoice."""
    scopes = frozenset(str(OPERATIONS[name].scope) for name in (CREATE, CONFIRM, CANCEL))
    return structs.replace(caller, principal=BILLING_MERCHANT, scopes=scopes)


async def _settle(request: Request, caller: Caller, stored: StoredInvoice, name: str, raw: bytes) -> Response:
    """One command on its intent, in the form of every command, answered as any."""
    invoice = json.loads(stored.document)
    biller = as_biller(caller)
    fields = envelope_fields.header_fields(request.headers)
    terms, asked = calling.terms(request)
    intent_id = invoice_intent.intent_of(invoice["invoice_id"])
    call = envelope.read_call(OPERATIONS[name], intent_id, raw, fields, BILLING_MERCHANT)
    call.idempotency_key = invoice_payment.try_identity(invoice["invoice_id"], name, call.idempotency_key)
    await ensure_intent(request, biller, stored.tenant_id, invoice)
    answer, request_id = await parts_of(request).get(Commands).one(biller, call, terms)
    return answers.response(answer, asked.applied(), request_id)


async def _invoice(request: Request, invoice_id: str) -> tuple[Caller, StoredInvoice]:
    """Who asks, and one of its own tenant, or anybody's for staff. Raises NotFound."""
    parts = parts_of(request)
    caller = await calling.caller_of(request, STAFF, TENANT_ADMIN)
    calling.require_id(invoice_id)
    if is_member(caller):
        caller.require(TENANT_ADMIN)
        await parts.get(Tenants).active(caller)
    else:
        require_staff(caller, STAFF)
    found = await parts.get(Billing).invoice(invoice_id)
    if is_member(caller) and caller.tenant != found.tenant_id:
        raise errors.NotFound
    return caller, found
