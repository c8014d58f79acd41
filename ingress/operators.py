"""The routes of operators: cases, and positions to recover from. A token needs the operator's scope."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress import calling, cases, reading

router: Final = APIRouter()


@router.get("/v1/cases")
async def list_cases(request: Request) -> Response:
    """What waits for a person, newest first; of one state or kind when it is asked for."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, calling.OPERATOR)
    limit, cursor = calling.place(request)
    state, kind = reading.choice(request, "state", cases.STATES), reading.word(request, "kind")
    return calling.json(await ingress.cases.page(caller.merchant, limit, cursor, state, kind))


@router.get("/v1/cases/{case_id}")
async def get_case(request: Request, case_id: str) -> Response:
    """One case with its evidence."""
    ingress = calling.ingress_of(request)
    await ingress.caller(request, calling.OPERATOR)
    calling.require_id(case_id)
    return calling.json(await ingress.cases.get(case_id))


@router.get("/v1/recovery_checkpoints")
async def list_checkpoints(request: Request) -> Response:
    """Named positions to recover from."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, calling.OPERATOR)
    limit, cursor = calling.place(request)
    return calling.json(await ingress.checkpoints.page(caller.merchant, limit, cursor))
