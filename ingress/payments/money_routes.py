"""The routes of money after the payment: refunds, disputes, and what is owed to the merchant."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http import reading
from schemas.payments.operations import OPERATIONS

router: Final = APIRouter()


@router.post("/v1/refunds")
async def create_refund(request: Request) -> Response:
    """Gives money of a payment back; the same identity again answers the same."""
    return await calling.command(request, OPERATIONS["create_refund"], None)


@router.post("/v1/refunds/{refund_id}/cancel")
async def cancel_refund(request: Request, refund_id: str) -> Response:
    """Takes a refund back that no processor has begun with."""
    return await calling.command(request, OPERATIONS["cancel_refund"], refund_id)


@router.get("/v1/refunds/{refund_id}")
async def get_refund(request: Request, refund_id: str) -> Response:
    """The refund; with Prefer: wait=N, as soon as it is not pending any more."""
    return await calling.resource(request, calling.ingress_of(request).refunds, refund_id)


@router.get("/v1/refunds")
async def list_refunds(request: Request) -> Response:
    """The caller's refunds, or those of one payment, newest first."""
    return await calling.page(request, calling.ingress_of(request).refunds)


@router.post("/v1/disputes/{dispute_id}/evidence")
async def submit_evidence(request: Request, dispute_id: str) -> Response:
    """Adds to the draft of what the merchant says against a dispute; with submit, sends all of it."""
    return await calling.command(request, OPERATIONS["submit_dispute_evidence"], dispute_id)


@router.get("/v1/disputes/{dispute_id}")
async def get_dispute(request: Request, dispute_id: str) -> Response:
    """The dispute."""
    return await calling.resource(request, calling.ingress_of(request).disputes, dispute_id)


@router.get("/v1/disputes")
async def list_disputes(request: Request) -> Response:
    """The caller's disputes, or those of one payment, newest first."""
    return await calling.page(request, calling.ingress_of(request).disputes)


@router.get("/v1/balance")
async def get_balance(request: Request) -> Response:
    """What the merchant has pending, available and reserved, now or at a past time."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, calling.READ)
    at = reading.past_time(request, "at")
    return calling.json(await ingress.balances.document(caller.merchant, at))


@router.get("/v1/fee_policy")
async def get_fee_policy(request: Request) -> Response:
    """The terms that a payment made now is under, and those that are published for later: the caller's own only."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, calling.READ)
    return calling.json(await ingress.fee_policies.document(caller.merchant))
