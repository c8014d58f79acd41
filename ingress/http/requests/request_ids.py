"""Every answer names its request in X-Request-Id, refusals too, and so does what is logged of it.

It is a header and no member of a problem: a replayed refusal is the same bytes as the first one.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from schemas.fields import card_number
from schemas.identity import REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FIELD: Final = b"x-request-id"
_KEY: Final = "millrace.request_id"


def new() -> str:
    """A request id for a caller that gave none."""
    return f"req_{secrets.token_hex(12)}"


def of(scope: Mapping[str, Any]) -> str | None:
    """The id under which the request is answered and logged."""
    return scope.get(_KEY)


class NamedRequests:
    """Gives every request its id: the caller's, when it is one, or a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on; an answer that names its request already keeps that name."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope[_KEY] = _given(scope) or new()

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if all(name.lower() != _FIELD for name, _ in headers):
                    message["headers"] = [*headers, (_FIELD, request_id.encode())]
            await send(message)

        await self._app(scope, receive, named)


def _given(scope: Scope) -> str | None:
    values = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == _FIELD]
    text = values[0] if len(values) == 1 else ""
    return text if REQUEST_ID.match(text) and not card_number.holds_card_number(text) else None
