"""Alive (``/healthz``), ready (``/readyz``), and the development issuer's public keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from schemas import errors

if TYPE_CHECKING:
    from ingress.state import Ingress

router: Final = APIRouter()


@router.get("/healthz")
async def healthz() -> Response:
    """Alive: the loop turns."""
    return JSONResponse({"status": "alive"})


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Ready: database, Kafka and keys answer."""
    ingress: Ingress = request.app.state.ingress
    reason = await ingress.why_not_ready()
    if reason is not None:
        raise errors.Unavailable(reason)
    return JSONResponse({"status": "ready"})


@router.get("/.well-known/jwks.json")
async def jwks(request: Request) -> Response:
    """The public keys of the development issuer; NotFound where another issuer is used."""
    ingress: Ingress = request.app.state.ingress
    path = ingress.config.jwks_served
    if path is None:
        raise errors.NotFound
    return Response(await asyncio.to_thread(path.read_bytes), media_type="application/json")
