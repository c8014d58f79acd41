"""Alive (``/healthz``), ready (``/readyz``), and the development issuer's public keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ingress import limits
from ingress.config import IngressConfig
from ingress.http.ownership import Ownership
from ingress.http.parts import parts_of
from schemas import errors

router: Final = APIRouter()
_MS: Final = 1_000


class Readiness:
    """Whether calls can be served; asked often, so an answer holds for a moment. ``probe`` gives why not, or None."""

    def __init__(self, probe: Callable[[], Awaitable[str | None]]) -> None:
        self._probe = probe
        self._known: tuple[float, str | None] = (float("-inf"), None)

    async def why_not(self) -> str | None:
        """None when calls can be served."""
        at, reason = self._known
        if time.monotonic() - at > limits.READY_CACHE_MS / _MS:
            reason = await self._probe()
            self._known = (time.monotonic(), reason)
        return reason


@router.get("/healthz")
async def healthz() -> Response:
    """Alive: the loop turns."""
    return JSONResponse({"status": "alive"})


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Ready: database, Kafka and keys answer. Degraded: but nobody decides the commands of some partitions."""
    parts = parts_of(request)
    reason = await parts.get(Readiness).why_not()
    if reason is not None:
        raise errors.Unavailable(reason)
    missing = await parts.get(Ownership).missing()
    return JSONResponse({"status": "degraded" if missing else "ready", **missing})


@router.get("/.well-known/jwks.json")
async def jwks(request: Request) -> Response:
    """The public keys of the development issuer; NotFound where another issuer is used."""
    path = parts_of(request).get(IngressConfig).jwks_served
    if path is None:
        raise errors.NotFound
    return Response(await asyncio.to_thread(path.read_bytes), media_type="application/json")
