"""The routes of repairs. A token needs the operator's scope; its subject is the person who acts."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress import calling, decisions, envelope, operating
from schemas import errors

router: Final = APIRouter()


@router.post("/v1/cases/{case_id}/proposals")
async def propose_repair(request: Request, case_id: str) -> Response:
    """Proposes a ledger transaction that would settle the case; shows what it would do to every account."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "repair.propose", case_id, audits_itself=True) as caller:
        calling.require_id(case_id)
        fields = envelope.header_fields(request.headers)
        found = await ingress.repairs.propose(
            case_id, await decisions.body_of(request), fields, operating.person(caller)
        )
    return _created(found)


@router.get("/v1/cases/{case_id}/proposals")
async def list_repairs(request: Request, case_id: str) -> Response:
    """The proposals of one case, newest first."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "repair.list", case_id):
        calling.require_id(case_id)
        found = await ingress.repairs.of_case(case_id)
    return calling.json(found)


@router.get("/v1/repairs/{repair_id}")
async def get_repair(request: Request, repair_id: str) -> Response:
    """One proposal with its preview, and what became of it."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "repair.read", repair_id):
        calling.require_id(repair_id)
        found = await ingress.repairs.get(repair_id)
    return calling.json(found)


@router.post("/v1/repairs/{repair_id}/approve")
async def approve_repair(request: Request, repair_id: str) -> Response:
    """Approves as another person than the author, and posts; 202 when it is approved and not posted yet."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "repair.approve", repair_id, audits_itself=True) as caller:
        calling.require_id(repair_id)
        if await decisions.body_of(request):
            raise errors.MalformedRequest("An approval has no body: what was proposed is what is approved.")
        found = await ingress.repairs.approve(repair_id, operating.person(caller))
    answer = calling.json(found)
    answer.status_code = 202 if found["state"] == "approved" else 200
    return answer


@router.post("/v1/repairs/{repair_id}/reject")
async def reject_repair(request: Request, repair_id: str) -> Response:
    """Rejects a proposal, or withdraws one's own; its case waits again."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "repair.reject", repair_id, audits_itself=True) as caller:
        calling.require_id(repair_id)
        found = await ingress.repairs.reject(repair_id, await decisions.body_of(request), operating.person(caller))
    return calling.json(found)


@router.post("/v1/repairs/{repair_id}/reverse")
async def reverse_repair(request: Request, repair_id: str) -> Response:
    """Proposes the mirror image of a posted repair, for two persons again."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "repair.reverse", repair_id, audits_itself=True) as caller:
        calling.require_id(repair_id)
        fields = envelope.header_fields(request.headers)
        found = await ingress.repairs.reverse(
            repair_id, await decisions.body_of(request), fields, operating.person(caller)
        )
    return _created(found)


def _created(found: dict[str, Any]) -> Response:
    answer = calling.json(found, calling.NO_STORE | {"Location": f"/v1/repairs/{found['id']}"})
    answer.status_code = 201
    return answer
