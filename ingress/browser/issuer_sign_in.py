"""Signing in at the issuer: there, and back with a code. Between the two the browser keeps a sealed cookie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ingress import limits
from ingress.browser import protection
from ingress.config import IngressConfig
from ingress.http.cursors import Cursors
from ingress.identity.authorization_code import AuthorizationCode, Begun
from schemas import errors
from sinks.kept_secrets import derived

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ingress.browser.visit import Visit

_PURPOSE: Final = b"sign-in at the issuer"


class IssuerSignIn:
    """These routes for one kind of pages."""

    def __init__(self, visits: type[Visit[Any]]) -> None:
        self._visits = visits
        self._site = visits.site
        self._begins = f"{self._site.sign_in}/issuer"
        self._back = f"{self._begins}/back"
        self._cookie = f"{self._site.cookie}_begun"

    def add_to(self, router: APIRouter) -> None:
        """Both of them."""
        router.get("/sign-in/issuer")(self.begin)
        router.get("/sign-in/issuer/back")(self.finish)

    async def begin(self, request: Request) -> Response:
        """Sends the browser to the issuer. Raises NotFound where people sign in by tokens alone, Unavailable."""
        found = self._visits(request, None)
        target = self._site.inside(request.query_params.get("next"))
        address, begun = await found.part(AuthorizationCode).begin(self._back, target)
        response = RedirectResponse(address, 303, self._site.redirect_headers)
        sealed = self._seal(found).write(self._site.home, self._cookie, msgspec.structs.asdict(begun))
        seconds = limits.SIGN_IN_BEGUN_S
        protection.keep(request, response, self._cookie, sealed, self._back, seconds, same_site="lax")
        return response

    async def finish(self, request: Request) -> Response:
        """Opens a session for whom the issuer names.

        The browser then goes on by a page of ours: it came from elsewhere, and a redirect would not send the session.
        """
        found, caller, target = self._visits(request, None), None, self._site.home
        try:
            begun = self._begun(found)
            target = self._site.inside(begun.next)
            caller = await found.part(AuthorizationCode).finish(begun, dict(request.query_params), self._back)
            session = found.known.sessions.opened(caller)
        except (errors.Unauthenticated, errors.Forbidden, errors.Suspended) as error:
            await found.refused(caller, error)
            status = 403 if isinstance(error, errors.Forbidden) else 401
            response = found.page("sign_in.html", status, next=target, problem=error.public, at_issuer=True)
        else:
            await found.opened(session)
            response = found.page("signed_in.html", next=target)
            found.keep(response, self._site.cookie, found.known.sessions.cookie(session))
        response.delete_cookie(self._cookie, path=self._back)
        return response

    def _begun(self, found: Visit[Any]) -> Begun:
        """What this browser began. Raises Unauthenticated for one that began nothing."""
        sealed = found.request.cookies.get(self._cookie, "")
        try:
            return self._seal(found).read(self._site.home, self._cookie, sealed, Begun)
        except (errors.MalformedRequest, msgspec.ValidationError) as error:
            raise errors.Unauthenticated("This browser has begun no sign-in, or long ago; begin again.") from error

    @staticmethod
    def _seal(found: Visit[Any]) -> Cursors:
        return Cursors(derived(found.part(IngressConfig).cursor_key, _PURPOSE))
