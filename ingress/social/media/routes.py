"""Uploads in the API: one's own, as it is now."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.social.media.uploads import Uploads
from ingress.social.users import user_of
from schemas.social.service import READ

router: Final = APIRouter()


@router.get("/v1/media/uploads/{media_id}")
async def get_upload(request: Request, media_id: str) -> Response:
    """An upload of one's own, with fresh URLs of the parts that are missing."""
    user = await user_of(request, READ)
    calling.require_id(media_id)
    found = await parts_of(request).get(Uploads).get(user, media_id)
    return calling.json(found, calling.NO_STORE | {"ETag": f'"{found["version"]}"'})
