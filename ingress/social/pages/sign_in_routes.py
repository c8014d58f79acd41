"""Signing in with a bearer token, signing out, the theme, and the files that pages load."""

from __future__ import annotations

from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ingress.browser import protection
from ingress.identity.auth import Authenticator
from ingress.social.pages import session as sessions
from ingress.social.pages import visit as visits
from ingress.social.pages.visit import Visit
from ingress.social.users import Users
from schemas import errors
from schemas.social import limits

_THEME_S: Final = 365 * 86_400
_STATIC: Final = {
    "app.css": "text/css",
    "app.js": "text/javascript",
    "upload.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_FILES: Final = {name: (resources.files("ingress.social.pages") / "static" / name).read_bytes() for name in _STATIC}

router: Final = visits.router()


@router.get("/sign-in")
async def sign_in_form(request: Request) -> Response:
    """The form that takes a token."""
    found = await visits.visit(request)
    if found.session is not None:
        return visits.go(visits.HOME)
    return found.page("sign_in.html", next=visits.inside(request.query_params.get("next")), problem=None)


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Opens a session for a verified user's token; the token itself is kept nowhere."""
    found = Visit(request, None)
    fields = await found.form()
    target = visits.inside(fields.get("next"))
    try:
        caller = await found.part(Authenticator).caller(f"Bearer {fields.get('token', '').strip()}")
        session = found.pages.sessions.opened(caller)
    except (errors.Unauthenticated, errors.Forbidden) as error:
        status = 401 if isinstance(error, errors.Unauthenticated) else 403
        return found.page("sign_in.html", status, next=target, problem=error.public)
    await found.part(Users).present(caller)
    response = visits.go(target)
    found.keep(response, sessions.COOKIE, found.pages.sessions.cookie(session))
    response.delete_cookie(sessions.VISITOR, path=visits.HOME)
    return response


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """Ends the session at every process."""
    found = await visits.visit(request)
    await found.form()
    if found.session is not None:
        await found.pages.end(found.session)
    response = visits.go(visits.SIGN_IN)
    response.delete_cookie(sessions.COOKIE, path=visits.HOME)
    return response


@router.post("/theme")
async def theme(request: Request) -> Response:
    """Light or dark from now on, whatever the system prefers."""
    found = await visits.visit(request)
    fields = await found.form()
    response = visits.go(visits.inside(fields.get("next")))
    if fields.get("theme") in visits.THEMES:
        found.keep(response, visits.THEME, fields["theme"], _THEME_S)
    return response


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """A stylesheet, a script or the icon; they hold nothing private."""
    if name not in _STATIC:
        raise errors.NotFound
    headers = protection.headers("default-src 'none'") | {"Cache-Control": f"max-age={limits.APP_STATIC_KEPT_S}"}
    return Response(_FILES[name], headers=headers, media_type=_STATIC[name])
