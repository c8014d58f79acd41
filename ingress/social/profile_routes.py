"""Users: oneself, and others as far as they are there for the caller."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dataflows.social.domain.records import Author, rendered_user
from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.social.users import Users, user_of
from schemas import errors
from schemas.social.service import READ
from schemas.social.value_types import USER_ID

router: Final = APIRouter()


@router.get("/v1/me")
async def me(request: Request) -> Response:
    """The caller itself."""
    user = await user_of(request, READ)
    return await _answer(request, "author_by_id", {"user_id": user})


@router.get("/v1/users/{user_id}")
async def get_user(request: Request, user_id: str) -> Response:
    """Another user; blocked either way, suspended or unknown are the same 404."""
    user = await user_of(request, READ)
    if not USER_ID.fullmatch(user_id):
        raise errors.NotFound
    return await _answer(request, "author_seen", {"user_id": user_id, "viewer": user})


async def _answer(request: Request, query: str, parameters: dict[str, str]) -> Response:
    rows = await parts_of(request).get(Users).store.rows(query, parameters)
    if not rows:
        raise errors.NotFound
    author = Author(**dict(zip(Author.__struct_fields__, rows[0], strict=True)))
    return calling.json(rendered_user(author), calling.NO_STORE | {"ETag": f'"{author.version}"'})
