"""The routes that close cases and open them again. A token needs the operator's scope; its subject is who acts."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress import calling, decisions, envelope, operating
from schemas import errors

router: Final = APIRouter()


@router.post("/v1/cases/{case_id}/closings")
async def close_case(request: Request, case_id: str) -> Response:
    """Closes a case that needs no money, or proposes to: ``four_eyes`` and ``state`` say which."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "case.close", case_id, audits_itself=True) as caller:
        calling.require_id(case_id)
        fields = envelope.header_fields(request.headers)
        person, body = operating.person(caller), await decisions.body_of(request)
        found = await ingress.closings.propose(case_id, body, fields, person)
    location = f"/v1/cases/{case_id}/closings/{found['id']}"
    answer = calling.json(found, calling.NO_STORE | {"Location": location})
    answer.status_code = 201
    return answer


@router.get("/v1/cases/{case_id}/closings")
async def list_closings(request: Request, case_id: str) -> Response:
    """The closings of one case, newest first."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "case.list_closings", case_id):
        calling.require_id(case_id)
        found = await ingress.closings.of_case(case_id)
    return calling.json(found)


@router.get("/v1/cases/{case_id}/closings/{closing_id}")
async def get_closing(request: Request, case_id: str, closing_id: str) -> Response:
    """One closing, and what became of it."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "case.read_closing", case_id):
        calling.require_id(case_id)
        calling.require_id(closing_id)
        found = await ingress.closings.get(case_id, closing_id)
    return calling.json(found)


@router.post("/v1/cases/{case_id}/closings/{closing_id}/approve")
async def approve_closing(request: Request, case_id: str, closing_id: str) -> Response:
    """Closes the case as another person than the author."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "case.close", case_id, audits_itself=True) as caller:
        calling.require_id(case_id)
        calling.require_id(closing_id)
        if await decisions.body_of(request):
            raise errors.MalformedRequest("An approval has no body: what was proposed is what is approved.")
        found = await ingress.closings.approve(case_id, closing_id, operating.person(caller))
    return calling.json(found)


@router.post("/v1/cases/{case_id}/closings/{closing_id}/reject")
async def reject_closing(request: Request, case_id: str, closing_id: str) -> Response:
    """Rejects a proposed closing, or withdraws one's own; its case waits again."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "case.reject_closing", case_id, audits_itself=True) as caller:
        calling.require_id(case_id)
        calling.require_id(closing_id)
        person, body = operating.person(caller), await decisions.body_of(request)
        found = await ingress.closings.reject(case_id, closing_id, body, person)
    return calling.json(found)


@router.post("/v1/cases/{case_id}/reopen")
async def reopen_case(request: Request, case_id: str) -> Response:
    """A case that was closed by a person waits again."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "case.reopen", case_id, audits_itself=True) as caller:
        calling.require_id(case_id)
        person, body = operating.person(caller), await decisions.body_of(request)
        await ingress.closings.reopen(case_id, body, person)
        found = await ingress.cases.get(case_id)
    return calling.json(found)
