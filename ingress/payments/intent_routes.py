"""The reads of payments: each reads its request, asks the part that knows, and renders the answer."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.http.parts import parts_of
from ingress.payments import reads
from ingress.payments.resources import Collections

router: Final = APIRouter()


@router.get("/v1/payment_intents/{intent_id}")
async def get_intent(request: Request, intent_id: str) -> Response:
    """The intent; with Prefer: wait=N, as soon as it is not processing any more."""
    return await reads.resource(request, parts_of(request).get(Collections).intents, intent_id)


@router.get("/v1/payment_intents")
async def list_intents(request: Request) -> Response:
    """The caller's intents, newest first."""
    return await reads.page(request, parts_of(request).get(Collections).intents)
