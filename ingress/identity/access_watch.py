"""Enumeration and anomalous fan-out: who asks for ids that do not exist or tries tokens, whose reach is far too wide.

A merchant's own traffic may be as wide as its business. Wide is one of staff who touches hundreds of objects in a
minute, by a token or in a session of the console, and one network that speaks for dozens of merchants. A proxy on this
machine that is not trusted is none.

What is found is told, never refused: quotas limit, people judge. Each finding is a metric, a row of the audit log and
one open case (``suspicious_access``). Counted in this process alone, by merchant and subject of a verified token or
session, or by network, over fixed windows: several processes together let through as many times more before the first
of them speaks.
"""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct, field
from starlette.datastructures import Headers

from ingress import limits
from ingress.http import metrics
from ingress.identity.roles import STAFF
from limiter.edge.client_address import client_address
from schemas import errors, identity
from schemas.client_network import client_network, widened
from schemas.fields import validation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ingress.identity.auth import Authenticator
    from ingress.identity.caller import Caller
    from schemas.client_network import Network

#: what is anomalous -> how many different paths, merchants or, of tokens, answers within the window
BOUNDS: Final = {
    "enumeration": limits.ACCESS_MISSES_MAX,
    "operator_fan_out": limits.ACCESS_OBJECTS_MAX,
    "merchant_fan_out": limits.ACCESS_MERCHANTS_MAX,
    "token_guessing": limits.ACCESS_UNPROVEN_MAX,
}
_UNAUTHENTICATED: Final = 401
_NOT_FOUND: Final = 404
_REFUSED: Final = 400
log: Final = structlog.get_logger()


class Anomaly(Struct, frozen=True, kw_only=True):
    """One finding: of which kind, and about whom."""

    kind: str
    subject: str
    count: int

    def parameters(self) -> dict[str, str]:
        """What the function of the database that keeps findings is given."""
        details = {"count": self.count, "window_s": limits.ACCESS_WINDOW_S, "subject": self.subject}
        moment = str(time.time_ns())  # a case that was resolved does not swallow the next one
        return {
            "id": identity.derived_id("case", "suspicious_access", f"{self.kind} {self.subject}", moment),
            "kind": self.kind,
            "subject": validation.visible(self.subject),
            "details": json.dumps(details),
        }


class _Counted(Struct):
    """What one subject did in its window. Different paths by their bits: never more than there were."""

    began: float
    count: int = 0
    bits: bytearray = field(default_factory=lambda: bytearray(limits.ACCESS_BITMAP_BYTES))


class AccessPatterns:
    """Counts by kind and subject, of a bounded number of subjects; those that were quiet longest leave first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counted: OrderedDict[tuple[str, str], _Counted] = OrderedDict()

    def saw(self, kind: str, subject: str, what: str | None) -> Anomaly | None:
        """The finding, in the moment in which the subject passes the bound of its window: once in a window."""
        now, key = self._clock(), (kind, subject)
        counted = self._counted.get(key)
        if counted is None or now - counted.began >= limits.ACCESS_WINDOW_S:
            counted = self._counted[key] = _Counted(now)
        self._counted.move_to_end(key)
        if len(self._counted) > limits.ACCESS_SUBJECTS_MAX:
            self._counted.popitem(last=False)
        if what is not None and not _is_new(counted.bits, what):
            return None
        counted.count += 1
        return Anomaly(kind=kind, subject=subject, count=counted.count) if counted.count == BOUNDS[kind] + 1 else None


class AccessWatch:
    """The middleware: looks at answers as they leave, and tells what it finds behind them.

    ``sessions`` tell whom the cookie of a page is of.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        tell: Callable[[Anomaly], Awaitable[None]],
        trusted_proxies: Sequence[Network] = (),
        sessions: Sequence[Callable[[Headers], Caller | None]] = (),
        patterns: AccessPatterns | None = None,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._tell = tell
        self._trusted_proxies = trusted_proxies
        self._sessions = sessions
        self._patterns = patterns or AccessPatterns()
        self._telling: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes everything on as it is."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            for found in await self._found(scope, status):
                metrics.ANOMALIES.labels(found.kind).inc()
                log.warning("suspicious_access", kind=found.kind, subject=found.subject, count=found.count)
                task = asyncio.get_running_loop().create_task(self._told(found))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

    async def _found(self, scope: Scope, status: int) -> list[Anomaly]:
        if status >= _REFUSED and status not in (_NOT_FOUND, _UNAUTHENTICATED):
            return []
        found = await self._at_api(scope, status) if scope["path"].startswith("/v1/") else self._at_pages(scope, status)
        return [one for one in found if one is not None]

    async def _at_api(self, scope: Scope, status: int) -> list[Anomaly | None]:
        network, saw = self._network(scope), self._patterns.saw
        if status == _UNAUTHENTICATED:
            return [saw("token_guessing", network, None)] if network else []
        try:
            caller = await self._authenticator.caller_in(scope)
        except errors.PlatformError:
            return []
        found = [saw("merchant_fan_out", network, caller.principal)] if network else []
        return [*found, self._touched(caller, status, scope["path"])]

    def _at_pages(self, scope: Scope, status: int) -> list[Anomaly | None]:
        """Pages show lists and findings under one path: there each query counts for itself."""
        headers = Headers(scope=scope)
        caller = next((found for session in self._sessions if (found := session(headers)) is not None), None)
        asked = f"{scope['path']}?{scope.get('query_string', b'').decode('latin-1')}"
        return [] if caller is None else [self._touched(caller, status, asked)]

    def _touched(self, caller: Caller, status: int, what: str) -> Anomaly | None:
        who = f"{caller.principal} {caller.subject}"
        if status == _NOT_FOUND:
            return self._patterns.saw("enumeration", who, what)
        is_staff = not caller.scopes.isdisjoint(STAFF)
        return self._patterns.saw("operator_fan_out", who, what) if is_staff else None

    def _network(self, scope: Scope) -> str | None:
        address = client_address(scope, self._trusted_proxies)
        return None if address is None else _watched_network(address)

    async def _told(self, found: Anomaly) -> None:
        try:
            await self._tell(found)
        except errors.PlatformError as error:
            log.warning("suspicious_access_not_kept", kind=found.kind, cause=error.public)


@lru_cache(limits.ACCESS_SUBJECTS_MAX)
def _watched_network(address: str) -> str | None:
    """The network that an address counts for; None for this machine's own."""
    network = client_network(address)
    return None if network.is_loopback else str(widened(network, limits.ACCESS_PREFIX_V4, limits.ACCESS_PREFIX_V6))


def _is_new(bits: bytearray, path: str) -> bool:
    """Whether the path sets a bit; two paths may share one, so a count is rather too low than too high."""
    place = zlib.crc32(path.encode("utf-8", "surrogatepass")) % (len(bits) * 8)
    byte, bit = divmod(place, 8)
    if bits[byte] >> bit & 1:
        return False
    bits[byte] |= 1 << bit
    return True
