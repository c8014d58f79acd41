"""The routes of operators: cases, recovery checkpoints. A token needs their scope; all is audited."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.operators import cases
from ingress.operators.audit import Audit
from ingress.operators.cases import Cases
from ingress.operators.checkpoints import Checkpoints

router: Final = APIRouter()


@router.get("/v1/cases")
async def list_cases(request: Request) -> Response:
    """What waits for a person, newest first; of one state or kind when it is asked for."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "case.list", "cases") as caller:
        limit, cursor = calling.place(request)
        state, kind = reading.choice(request, "state", cases.STATES), reading.word(request, "kind")
        found = await parts.get(Cases).page(caller.principal, limit, cursor, state, kind)
    return calling.json(found)


@router.get("/v1/cases/{case_id}")
async def get_case(request: Request, case_id: str) -> Response:
    """One case with its evidence."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "case.read", case_id):
        calling.require_id(case_id)
        found = await parts.get(Cases).get(case_id)
    return calling.json(found)


@router.get("/v1/recovery_checkpoints")
async def list_checkpoints(request: Request) -> Response:
    """Named positions to recover from."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "checkpoint.list", "recovery_checkpoints") as caller:
        limit, cursor = calling.place(request)
        found = await parts.get(Checkpoints).page(caller.principal, limit, cursor)
    return calling.json(found)
