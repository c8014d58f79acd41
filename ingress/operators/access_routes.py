"""The routes of denied access. Risk decides of callers, the platform of persons and tokens."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.operators import decisions
from ingress.operators.access_denials import AccessDenials
from schemas import errors
from schemas.operators import access_denial

router: Final = APIRouter()
PATH: Final = "/v1/access_denials"


@router.get(PATH)
async def list_access_denials(request: Request) -> Response:
    """Who is denied now, newest first; of one kind when it is asked for."""
    async with decisions.looking(request, "access.list", "access_denials") as parts:
        kind = reading.choice(request, "kind", access_denial.KINDS)
        return calling.json({"data": await parts.get(AccessDenials).newest(kind)})


@router.post(PATH + "/{kind}")
async def deny_access(request: Request, kind: str) -> Response:
    """Refused at every door within seconds; what is open ends."""
    _require_kind(kind)
    async with decisions.deciding(request, f"access.deny_{kind}", kind) as asked:
        known = await parts_of(request).get(AccessDenials).deny(kind, asked.body, asked.person)
    denied = {"result": {"kind": kind, "name": asked.body["name"], "state": "denied"}}
    return calling.decided(denied, is_replayed=known)


@router.post(PATH + "/{kind}/lift")
async def lift_access_denial(request: Request, kind: str) -> Response:
    """Let in again."""
    _require_kind(kind)
    async with decisions.deciding(request, f"access.lift_{kind}", kind) as asked:
        await parts_of(request).get(AccessDenials).lift(kind, asked.body, asked.person)
    return calling.json({"result": {"kind": kind, "name": asked.body["name"], "state": "lifted"}})


def _require_kind(kind: str) -> None:
    if kind not in access_denial.KINDS:
        raise errors.NotFound
