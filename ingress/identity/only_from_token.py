"""A tenant is named by its token alone: a request whose query or header fields say one is refused, on every route."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from schemas import errors
from schemas.fields.validation import TENANT_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

_TENANT: Final = b"tenant"
_HEADERS: Final = frozenset({b"x-tenant", b"x-tenant-id"})


class TenantOnlyFromToken:
    """Refuses before a route is looked for: nothing of such a request is read, and nothing of it is done."""

    def __init__(self, app: ASGIApp, refusal: Callable[[errors.PlatformError], ASGIApp]) -> None:
        self._app = app
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on or answers 400."""
        said = _said(scope) if scope["type"] == "http" else None
        if said is None:
            await self._app(scope, receive, send)
            return
        refused = errors.MalformedRequest(f"The request must not say {said}: the tenant comes only from the token.")
        await self._refusal(refused)(scope, receive, send)


def _said(scope: Scope) -> str | None:
    """Where a request names a tenant itself."""
    for name, _ in scope["headers"]:
        if name.lower() in _HEADERS:
            return str(name.decode("latin-1"))
    query = scope["query_string"]
    if _TENANT not in query and b"%" not in query:  # nearly all: every name has it, unless it is percent-encoded
        return None
    names = (name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    return next((name for name in names if name in TENANT_NAMES), None)
