"""Routes of what is one's own as a whole. An erased user's token may ask for one thing: its erasure."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.http.streams import begun
from ingress.social.own_data.own_data import OwnData
from ingress.social.users import user_of
from schemas.social.service import READ

router: Final = APIRouter()


@router.get("/v1/me/exports/{export_id}")
async def get_export(request: Request, export_id: str) -> Response:
    """An export of one's own."""
    user = await user_of(request, READ)
    calling.require_id(export_id)
    return calling.json(await parts_of(request).get(OwnData).export(user, export_id))


@router.get("/v1/me/exports/{export_id}/content")
async def export_content(request: Request, export_id: str) -> Response:
    """All that is one's own now, a JSON object a line."""
    user = await user_of(request, READ)
    calling.require_id(export_id)
    data = parts_of(request).get(OwnData)
    await data.export(user, export_id)
    lines = await begun(data.content(user))
    return StreamingResponse(lines, headers=calling.NO_STORE, media_type=reading.NDJSON[0])


@router.get("/v1/me/erasure")
async def get_erasure(request: Request) -> Response:
    """One's own erasure, and the certificate of its end."""
    user = await user_of(request, READ, erased_too=True)
    return calling.json(await parts_of(request).get(OwnData).erasure(user))
