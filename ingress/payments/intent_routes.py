"""The routes of payments: each reads its request, asks the part that knows, and renders the answer."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.payments import reads
from ingress.payments.resources import Collections
from schemas.payments.operations import OPERATIONS

router: Final = APIRouter()


@router.post("/v1/payment_intents")
async def create(request: Request) -> Response:
    """Creates an intent; the same identity again answers the same."""
    return await calling.command(request, OPERATIONS["create_payment_intent"], None)


@router.post("/v1/payment_intents/{intent_id}")
async def update(request: Request, intent_id: str) -> Response:
    """Changes what was agreed on, before the payer's money is asked for."""
    return await calling.command(request, OPERATIONS["update_payment_intent"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/increment_authorization")
async def increment(request: Request, intent_id: str) -> Response:
    """Starts to hold more than is authorized."""
    return await calling.command(request, OPERATIONS["increment_authorization"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/confirm")
async def confirm(request: Request, intent_id: str) -> Response:
    """Starts to authorize or capture."""
    return await calling.command(request, OPERATIONS["confirm_payment_intent"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/capture")
async def capture(request: Request, intent_id: str) -> Response:
    """Takes what was authorized, in whole or in part."""
    return await calling.command(request, OPERATIONS["capture_payment_intent"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/cancel")
async def cancel(request: Request, intent_id: str) -> Response:
    """Gives the payment up and releases what was authorized."""
    return await calling.command(request, OPERATIONS["cancel_payment_intent"], intent_id)


@router.get("/v1/payment_intents/{intent_id}")
async def get_intent(request: Request, intent_id: str) -> Response:
    """The intent; with Prefer: wait=N, as soon as it is not processing any more."""
    return await reads.resource(request, parts_of(request).get(Collections).intents, intent_id)


@router.get("/v1/payment_intents")
async def list_intents(request: Request) -> Response:
    """The caller's intents, newest first."""
    return await reads.page(request, parts_of(request).get(Collections).intents)
