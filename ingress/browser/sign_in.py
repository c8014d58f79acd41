"""Signing in, with a bearer token or at the issuer, signing out, the theme, and the files that pages load."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ingress.browser import visit
from ingress.browser.issuer_sign_in import IssuerSignIn
from ingress.browser.site import THEMES
from ingress.identity.auth import Authenticator
from ingress.identity.authorization_code import AuthorizationCode
from schemas import errors

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ingress.browser.visit import Visit

_THEME_S: Final = 365 * 86_400
_MEDIA_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class SignIn:
    """These routes for one kind of pages."""

    def __init__(self, visits: type[Visit[Any]]) -> None:
        self._visits = visits
        self._site = visits.site
        files = {file.name: file for file in (resources.files(self._site.package) / "static").iterdir()}
        self._files = {name: file.read_bytes() for name, file in files.items() if _kind(name) in _MEDIA_TYPES}

    def router(self) -> APIRouter:
        """All of them."""
        router = visit.router(self._visits)
        IssuerSignIn(self._visits).add_to(router)
        router.get("/sign-in")(self.form)
        router.post("/sign-in")(self.open)
        router.post("/sign-out")(self.end)
        router.post("/theme")(self.theme)
        router.get("/static/{name}")(self.file)
        return router

    async def form(self, request: Request) -> Response:
        """The form that takes a token."""
        found = await self._visits.of(request)
        if found.session is not None:
            return self._site.go(self._site.home)
        target = self._site.inside(request.query_params.get("next"))
        had_session = self._site.cookie in request.cookies  # else what is missing after a form is anybody's guess
        problem = "The session is over; sign in again." if had_session else None
        return found.page(
            "sign_in.html", next=target, problem=problem, at_issuer=found.part(AuthorizationCode).is_offered
        )

    async def open(self, request: Request) -> Response:
        """Opens a session for a verified token with a scope of these pages; the token itself is kept nowhere."""
        found = self._visits(request, None)
        fields = await found.form()
        target = self._site.inside(fields.get("next"))
        caller = None
        try:
            caller = await found.part(Authenticator).caller(f"Bearer {fields.get('token', '').strip()}")
            session = found.known.sessions.opened(caller)
        except (errors.Unauthenticated, errors.Forbidden) as error:
            await found.refused(caller, error)
            status = 401 if isinstance(error, errors.Unauthenticated) else 403
            at_issuer = found.part(AuthorizationCode).is_offered
            return found.page("sign_in.html", status, next=target, problem=error.public, at_issuer=at_issuer)
        await found.opened(session)
        response = self._site.go(target)
        found.keep(response, self._site.cookie, found.known.sessions.cookie(session))
        response.delete_cookie(self._site.visitor, path=self._site.home)
        return response

    async def end(self, request: Request) -> Response:
        """Ends the session at every process."""
        found = await self._visits.of(request)
        await found.form()
        if found.session is not None:
            await found.known.end(found.session)
            await found.ended(found.session)
        response = self._site.go(self._site.sign_in)
        response.delete_cookie(self._site.cookie, path=self._site.home)
        return response

    async def theme(self, request: Request) -> Response:
        """Light or dark from now on, whatever the system prefers."""
        found = await self._visits.of(request)
        fields = await found.form()
        response = self._site.go(self._site.inside(fields.get("next")))
        if fields.get("theme") in THEMES:
            found.keep(response, self._site.theme, fields["theme"], _THEME_S)
        return response

    async def file(self, name: str) -> Response:
        """A stylesheet, a script or the icon; they hold nothing private."""
        if name not in self._files:
            raise errors.NotFound
        return Response(self._files[name], headers=self._site.file_headers, media_type=_MEDIA_TYPES[_kind(name)])


def _kind(name: str) -> str:
    return name.rpartition(".")[2]
