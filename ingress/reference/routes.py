"""The page of all calls at ``/docs``, to which ``/`` leads: no script, nothing from elsewhere, for everybody."""

from __future__ import annotations

import asyncio
import gzip
from functools import cache
from importlib import resources
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ingress import limits, openapi
from ingress.browser import protection, rendering
from ingress.reference import described
from schemas import errors

HOME: Final = "/docs"
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: the same for everybody, until the process is another release
_HEADERS: Final = protection.headers(_POLICY) | {
    "Cache-Control": f"max-age={limits.REFERENCE_KEPT_S}",
    "Vary": "Accept-Encoding",
}
_MEDIA_TYPES: Final = {"reference.css": "text/css", "icon.svg": "image/svg+xml"}

router: Final = APIRouter(include_in_schema=False)


@router.get("/")
async def root(request: Request) -> Response:
    """Whoever opens the bare address finds out what there is."""
    del request
    return RedirectResponse(HOME, 307)


@router.get(HOME)
async def every_call(request: Request) -> Response:
    """Made once, off the loop: it takes as long as some hundred calls."""
    page, packed = await asyncio.to_thread(_page)
    if "gzip" in request.headers.get("accept-encoding", ""):  # a sixteenth of it
        return Response(packed, headers=_HEADERS | {"Content-Encoding": "gzip"}, media_type="text/html")
    return Response(page, headers=_HEADERS, media_type="text/html")


@router.get(f"{HOME}/static/{{name}}")
async def file(request: Request, name: str) -> Response:
    """The stylesheet and the icon."""
    del request
    if name not in _MEDIA_TYPES:
        raise errors.NotFound
    return Response(_file(name), headers=_HEADERS, media_type=_MEDIA_TYPES[name])


@cache
def _page() -> tuple[bytes, bytes]:
    """As it is, and packed."""
    document = openapi.document()
    template = rendering.environment("ingress.reference").get_template("reference.html")
    context = {
        "site": {"home": HOME},
        "theme": "",
        "session": None,
        "info": document["info"],
        "groups": described.groups(document),
        "shared": described.shared_fields(document),
        "schemas": described.schemas(document),
    }
    page = template.render(context).encode()
    return page, gzip.compress(page, mtime=0)


@cache
def _file(name: str) -> bytes:
    return (resources.files("ingress.reference") / "static" / name).read_bytes()
