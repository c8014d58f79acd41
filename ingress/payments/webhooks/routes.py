"""The one route of processors. It has no bearer token: the signature says who speaks."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.payments.webhooks.gateway import WebhookGateway
from schemas.payments import limits

_HEADERS: Final = {"Cache-Control": "no-store"}

router: Final = APIRouter()


@router.post("/v1/webhooks/{processor}")
async def receive(request: Request, processor: str) -> Response:
    """Takes what a processor tells; 2xx once it is durable, however often it is told."""
    gateway: WebhookGateway = parts_of(request).get(WebhookGateway)
    gateway.require(processor)
    raw = await reading.body(request, reading.JSON, limits.WEBHOOK_BODY_BYTES_MAX)
    await gateway.receive(processor, request.headers, raw)
    if processor == "adyen":  # repeats a batch until it reads these very characters
        return Response(b"[accepted]", headers=_HEADERS, media_type="text/plain")
    return Response(b'{"received":true}', headers=_HEADERS, media_type="application/json")
