"""Signing in with a bearer token, signing out, the theme, and the files that pages load."""

from __future__ import annotations

from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ingress import limits
from ingress.console import pages
from ingress.console import session as sessions
from ingress.console import visit as visits
from ingress.console.visit import Visit
from ingress.http.parts import parts_of
from ingress.identity.auth import Authenticator
from ingress.identity.caller import Caller
from ingress.operators.audit import Audit
from schemas import errors

_STRANGER: Final = Caller(principal="", subject="console:stranger", scopes=frozenset(), expires_at=0)
_THEME_S: Final = 365 * 86_400
_STATIC: Final = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_FILES: Final = {name: (resources.files("ingress.console") / "static" / name).read_bytes() for name in _STATIC}

router: Final = visits.router()


@router.get("/sign-in")
async def sign_in_form(request: Request) -> Response:
    """The form that takes a token."""
    found = await visits.visit(request)
    if found.session is not None:
        return _go(visits.HOME)
    return found.page("sign_in.html", next=_inside(request.query_params.get("next")), problem=None)


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Opens a session for a verified token with a scope of the console; the token itself is kept nowhere."""
    found = Visit(request, None)
    fields = await found.form()
    target = _inside(fields.get("next"))
    parts = parts_of(request)
    caller = _STRANGER
    try:
        caller = await parts.get(Authenticator).caller(f"Bearer {fields.get('token', '').strip()}")
        session = found.console.sessions.opened(caller)
    except (errors.Unauthenticated, errors.Forbidden) as error:
        found.console.sign_in_refused()
        await parts.get(Audit).append(caller, "console.sign_in", "console", "refused", {"code": error.code})
        status = 401 if isinstance(error, errors.Unauthenticated) else 403
        return found.page("sign_in.html", status, next=target, problem=error.public)
    await parts.get(Audit).append(caller, "console.sign_in", "console", "done", {"session": session.id})
    response = _go(target)
    found.keep(response, sessions.COOKIE, found.console.sessions.cookie(session))
    response.delete_cookie(sessions.VISITOR, path=visits.HOME)
    return response


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """Ends the session at every process."""
    found = await visits.visit(request)
    await found.form()
    if found.session is not None:
        await found.console.end(found.session)
        audit = parts_of(request).get(Audit)
        await audit.append(found.session.caller(), "console.sign_out", "console", "done", {"session": found.session.id})
    response = _go(visits.SIGN_IN)
    response.delete_cookie(sessions.COOKIE, path=visits.HOME)
    return response


@router.post("/theme")
async def theme(request: Request) -> Response:
    """Light or dark from now on, whatever the system prefers."""
    found = await visits.visit(request)
    fields = await found.form()
    response = _go(_inside(fields.get("next")))
    if fields.get("theme") in visits.THEMES:
        found.keep(response, visits.THEME, fields["theme"], _THEME_S)
    return response


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """A stylesheet, a script or the icon; they hold nothing private."""
    if name not in _STATIC:
        raise errors.NotFound
    headers = pages.HEADERS | {"Cache-Control": f"max-age={limits.CONSOLE_STATIC_KEPT_S}"}
    return Response(_FILES[name], headers=headers, media_type=_STATIC[name])


def _inside(target: str | None) -> str:
    """A path of the console, never an address elsewhere."""
    is_inside = target is not None and (target == visits.HOME or target.startswith(f"{visits.HOME}/"))
    return target if is_inside and target and target.isprintable() and "\\" not in target else visits.HOME


def _go(target: str) -> Response:
    return RedirectResponse(target, 303, pages.HEADERS)
