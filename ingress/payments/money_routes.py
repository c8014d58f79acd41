"""The reads of money after the payment: refunds, disputes, and what is owed to the merchant."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.payments import reads
from ingress.payments.merchants.balances import Balances
from ingress.payments.merchants.fee_terms import FeePolicies
from ingress.payments.resources import Collections

router: Final = APIRouter()


@router.get("/v1/refunds/{refund_id}")
async def get_refund(request: Request, refund_id: str) -> Response:
    """The refund; with Prefer: wait=N, as soon as it is not pending any more."""
    return await reads.resource(request, parts_of(request).get(Collections).refunds, refund_id)


@router.get("/v1/refunds")
async def list_refunds(request: Request) -> Response:
    """The caller's refunds, or those of one payment, newest first."""
    return await reads.page(request, parts_of(request).get(Collections).refunds)


@router.get("/v1/disputes/{dispute_id}")
async def get_dispute(request: Request, dispute_id: str) -> Response:
    """The dispute."""
    return await reads.resource(request, parts_of(request).get(Collections).disputes, dispute_id)


@router.get("/v1/disputes")
async def list_disputes(request: Request) -> Response:
    """The caller's disputes, or those of one payment, newest first."""
    return await reads.page(request, parts_of(request).get(Collections).disputes)


@router.get("/v1/balance")
async def get_balance(request: Request) -> Response:
    """What the merchant has pending, available and reserved, now or at a past time."""
    parts = parts_of(request)
    caller = await calling.caller_of(request, reads.READ)
    at = reading.past_time(request, "at")
    return calling.json(await parts.get(Balances).document(caller.merchant, at))


@router.get("/v1/fee_policy")
async def get_fee_policy(request: Request) -> Response:
    """The terms that a payment made now is under, and those that are published for later: the caller's own only."""
    parts = parts_of(request)
    caller = await calling.caller_of(request, reads.READ)
    return calling.json(await parts.get(FeePolicies).document(caller.merchant))
