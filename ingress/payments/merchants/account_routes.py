"""The routes of merchants' accounts: payouts for the merchant, and what operators do. A person is a token's subject."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling, envelope, envelope_fields
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.identity.caller import NAME
from ingress.operators import operating
from ingress.operators.audit import Audit
from ingress.payments import reads
from ingress.payments.merchants.accounts import Accounts
from ingress.payments.merchants.destinations import Destinations
from ingress.payments.repair.money_proposals import MoneyProposals
from ingress.payments.resources import Collections
from schemas import errors, limits
from schemas.payments.operations import OPERATIONS

router: Final = APIRouter()


@router.get("/v1/payouts/{payout_id}")
async def get_payout(request: Request, payout_id: str) -> Response:
    """The payout; with Prefer: wait=N, as soon as it is not pending any more."""
    return await reads.resource(request, parts_of(request).get(Collections).payouts, payout_id)


@router.get("/v1/payouts")
async def list_payouts(request: Request) -> Response:
    """The caller's payouts, newest first."""
    return await reads.page(request, parts_of(request).get(Collections).payouts)


@router.post("/v1/payouts/{payout_id}/outcome")
async def record_outcome(request: Request, payout_id: str) -> Response:
    """Proposes what the bank did with a payout, when no statement tells it."""
    return await _propose(request, "record_payout_outcome", payout_id)


@router.get("/v1/payout_destinations/{destination_id}")
async def get_destination(request: Request, destination_id: str) -> Response:
    """One of the caller's destinations."""
    caller = await calling.caller_of(request, reads.READ)
    calling.require_id(destination_id)
    return calling.json(await parts_of(request).get(Destinations).get(caller.merchant, destination_id))


@router.get("/v1/payout_destinations")
async def list_destinations(request: Request) -> Response:
    """All destinations that the caller ever registered, newest first."""
    caller = await calling.caller_of(request, reads.READ)
    return calling.json(await parts_of(request).get(Destinations).all_of(caller.merchant))


@router.get("/v1/accounts/{merchant}/payout_destinations")
async def list_destinations_of(request: Request, merchant: str) -> Response:
    """A merchant's destinations with their account numbers, for who pays there."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "account.show_destinations", merchant):
        if not NAME.match(merchant):
            raise errors.NotFound
        found = await parts.get(Destinations).to_pay(merchant)
    return calling.json(found)


@router.post("/v1/accounts/{merchant}/allow_payout_destination")
async def allow_destination(request: Request, merchant: str) -> Response:
    """Proposes to end the cooling-off time of one of the merchant's destinations."""
    return await _propose(request, "allow_payout_destination", merchant)


@router.get("/v1/accounts/{merchant}")
async def get_account(request: Request, merchant: str) -> Response:
    """A merchant's account with what it holds."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "account.read", merchant):
        if not NAME.match(merchant):
            raise errors.NotFound
        found = await parts.get(Accounts).document(merchant)
    return calling.json(found)


@router.post("/v1/accounts/{merchant}/hold_reserve")
async def hold_reserve(request: Request, merchant: str) -> Response:
    """Proposes to set money of the merchant aside."""
    return await _propose(request, "hold_reserve", merchant)


@router.post("/v1/accounts/{merchant}/release_reserve")
async def release_reserve(request: Request, merchant: str) -> Response:
    """Proposes to give money that was set aside back to the merchant."""
    return await _propose(request, "release_reserve", merchant)


@router.post("/v1/accounts/{merchant}/convert_currency")
async def convert_currency(request: Request, merchant: str) -> Response:
    """Proposes to exchange money of the merchant at a stated rate."""
    return await _propose(request, "convert_currency", merchant)


@router.post("/v1/accounts/{merchant}/freeze")
async def freeze(request: Request, merchant: str) -> Response:
    """From here on no payout, and within seconds no payment or refund, is begun."""
    return await _operate(request, "freeze_account", merchant)


@router.post("/v1/accounts/{merchant}/unfreeze")
async def unfreeze(request: Request, merchant: str) -> Response:
    """Lets the merchant work again."""
    return await _operate(request, "unfreeze_account", merchant)


async def _operate(request: Request, operation: str, name: str) -> Response:
    """Carries out one operator's command on an account, audited with its identity and with what became of it."""
    return await operating.operate(request, OPERATIONS[operation], f"account.{operation}", name)


async def _propose(request: Request, operation: str, name: str) -> Response:
    """Takes one operator's proposal about a merchant's money, which another person approves."""
    action = f"account.{operation}"
    declared = OPERATIONS[operation]
    async with parts_of(request).get(Audit).operator(request, action, name, audits_itself=True) as caller:
        who = operating.person(caller)
        if not declared.id_form.fullmatch(name):
            raise errors.NotFound
        raw = await reading.body(request, reading.JSON, limits.BODY_BYTES_MAX)
        fields = envelope_fields.header_fields(request.headers)
        call = envelope.read_call(declared, name, raw, fields, caller.principal)
        if call.expected_version is not None:
            reason = "does not belong to a proposal: it is carried out on what there is then"
            raise errors.InvalidCommand([{"field": "expected_version", "reason": reason}])
        found, known = await parts_of(request).get(MoneyProposals).propose(call, name, who)
    return calling.created(found, f"/v1/money_proposals/{found['id']}", is_replayed=known)
