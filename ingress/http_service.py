"""The contract between a service and the ingress: routes, admission, rendering of events, parts, console pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ingress.commands.admission import Admission

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.datastructures import Headers
    from starlette.middleware import Middleware

    from ingress.commands.arrivals import Arrivals
    from ingress.commands.exchange import Exchange
    from ingress.commands.stored import StoredResults
    from ingress.config import IngressConfig
    from ingress.console.declared import ConsolePages
    from ingress.http.cursors import Cursors
    from ingress.http.parts import Parts
    from ingress.http.store import Store
    from ingress.identity.auth import Authenticator
    from ingress.identity.caller import Caller
    from ingress.identity.denials import Denials
    from schemas.service import Service

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What the ingress gives to its services."""

    config: IngressConfig
    parts: Parts
    store: Store
    audited_store: Store  # its commits wait for the disk
    cursors: Cursors
    stored: StoredResults
    exchange: Exchange
    arrivals: Arrivals
    denials: Denials


class HttpService:
    """One service in one ingress process. A service that needs no more than routes says no more.

    Its operations have their routes and their place in the OpenAPI document by themselves; ``routers`` are the rest,
    which ``paths`` and ``components`` describe.
    """

    declared: ClassVar[Service]
    routers: ClassVar[Sequence[APIRouter]]
    pages: ClassVar[Sequence[APIRouter]] = ()  # for people in browsers, in no published document
    console: ClassVar[ConsolePages | None] = None
    shows_events: ClassVar[bool] = False  # to those who may read them
    forecasts: ClassVar[frozenset[str]] = frozenset()  # operations of which ``admission`` makes dry runs

    def __init__(self, platform: Platform) -> None:
        self.admission = Admission()
        del platform

    def middleware(self, authenticator: Authenticator) -> Sequence[Middleware]:
        """What every request passes behind what bounds its caller, before a route is looked for, whosever it is."""
        del authenticator
        return ()

    def caller_of(self, headers: Headers) -> Caller | None:
        """Who comes without a token, where the service proves that by a session of its pages."""
        del headers
        return None

    async def start(self) -> None:
        """Connects in the background."""

    def require_ready(self) -> None:
        """Raises Unavailable while calls to this service cannot be served."""

    def drain(self) -> None:
        """Ends waits and streams, so that every open call is answered now."""

    async def close(self) -> None:
        """Disconnects. Called when no request is open."""

    @staticmethod
    def event_body(body: Json) -> Json:
        """The public body of an event, made of its own."""
        return body

    @staticmethod
    def paths() -> Json:
        """The OpenAPI paths of what is no command."""
        return {}

    @staticmethod
    def components() -> Json:
        """The OpenAPI schemas that its paths and commands name."""
        return {}
