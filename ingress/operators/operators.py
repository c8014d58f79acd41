"""The routes of operators: cases, processors, recovery checkpoints. A token needs their scope; all is audited."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http import reading
from ingress.operators import cases

router: Final = APIRouter()


@router.get("/v1/cases")
async def list_cases(request: Request) -> Response:
    """What waits for a person, newest first; of one state or kind when it is asked for."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "case.list", "cases") as caller:
        limit, cursor = calling.place(request)
        state, kind = reading.choice(request, "state", cases.STATES), reading.word(request, "kind")
        found = await ingress.cases.page(caller.merchant, limit, cursor, state, kind)
    return calling.json(found)


@router.get("/v1/cases/{case_id}")
async def get_case(request: Request, case_id: str) -> Response:
    """One case with its evidence."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "case.read", case_id):
        calling.require_id(case_id)
        found = await ingress.cases.get(case_id)
    return calling.json(found)


@router.get("/v1/recovery_checkpoints")
async def list_checkpoints(request: Request) -> Response:
    """Named positions to recover from."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "checkpoint.list", "recovery_checkpoints") as caller:
        limit, cursor = calling.place(request)
        found = await ingress.checkpoints.page(caller.merchant, limit, cursor)
    return calling.json(found)


@router.get("/v1/processors")
async def list_processors(request: Request) -> Response:
    """Every configured processor: its breaker, its outcomes and its share within the last window."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "processor.list", "processors"):
        found = await ingress.processors.all()
    return calling.json({"data": found})
