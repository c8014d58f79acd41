"""Header fields, cookies and forms that all pages for browsers share."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import parse_qsl

from starlette.datastructures import URL

from ingress.http.requests import reading
from schemas import errors
from sinks.kept_secrets import secrets_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from sinks.kept_secrets import Secrets

FORM: Final = ("application/x-www-form-urlencoded",)
FORM_TOKEN: Final = "form_token"  # noqa: S105 - a name
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_SAME_SITE: Final = ("same-origin", "none")  # "none" is somebody who typed the address


def headers(policy: str) -> dict[str, str]:
    """What no page goes without, under its content security policy."""
    return {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Vary": "Cookie, HX-Request",
    }


def keep(
    request: Request,
    response: Response,
    name: str,
    value: str,
    path: str,
    seconds: int | None = None,
    *,
    same_site: Literal["strict", "lax"] = "strict",
) -> None:
    """Sets a cookie that no script reads; beyond this machine, over TLS alone.

    No other site sends it, but one that is ``lax`` where a person follows a link from there.
    """
    is_secure = request.url.hostname not in _LOOPBACK
    response.set_cookie(name, value, max_age=seconds, path=path, secure=is_secure, httponly=True, samesite=same_site)


async def form(request: Request, bytes_max: int, fields_max: int) -> dict[str, str]:
    """The fields of a form that comes from this site. Raises Forbidden for any other, MalformedRequest."""
    _require_own_site(request)
    raw = await reading.body(request, FORM, bytes_max)
    try:
        fields = parse_qsl(raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), max_num_fields=fields_max)
    except ValueError as error:
        raise errors.MalformedRequest("The form is not readable.") from error
    return dict(fields)


def _require_own_site(request: Request) -> None:
    """Browsers say where a form comes from; what they say must be this site."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in _SAME_SITE:
        raise errors.Forbidden("The form comes from another site.")
    if origin not in (None, "null") and URL(str(origin)).netloc != request.headers.get("host"):
        raise errors.Forbidden("The form comes from another site.")


class FormTokens:
    """What every form of a session (or of a visitor) carries; nobody without the key can make it."""

    def __init__(self, secret: bytes | Secrets) -> None:
        self._secrets = secrets_of(secret)

    def of(self, holder: str) -> str:
        """The token of this holder's forms."""
        return _form_token(self._secrets()[0], holder)

    def require(self, holder: str, given: str) -> None:
        """Raises Forbidden for a form that this holder's pages did not make; in constant time."""
        wanted = (_form_token(secret, holder).encode() for secret in self._secrets())
        if not any(hmac.compare_digest(one, given.encode()) for one in wanted):
            raise errors.Forbidden("The form is not of this session; load the page again.")


def _form_token(secret: bytes, holder: str) -> str:
    return hmac.new(secret, f"form\x1f{holder}".encode(), hashlib.sha256).hexdigest()
