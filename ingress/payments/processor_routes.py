"""How every processor is, for operators."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.operators.audit import Audit
from ingress.payments.processors import Processors

router: Final = APIRouter()


@router.get("/v1/processors")
async def list_processors(request: Request) -> Response:
    """Every configured processor: its breaker, its outcomes and its share within the last window."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "processor.list", "processors"):
        found = await parts.get(Processors).all()
    return calling.json({"data": found})
