"""The two tenants of the monitor, and what the one must never see of the other. Made once, whoever makes them again."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import time
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from compose import limits
from compose.isolation.api_connection import ApiConnection
from ingress.identity.issuer import issue_token
from ingress.trust import MONITOR_ISSUER
from schemas.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.isolation.api_connection import Answer
    from ingress.identity.issuer import KeyFolder

T = TypeVar("T")
METERED: Final = "isolation_canary"  # the dimension of their usage
STAFF: Final = ""  # in place of a tenant that asks
_OPERATED_BY: Final = "m_isolation_monitor"
_SUBJECT: Final = "isolation_monitor"
_MEMBER: Final = ("resources:read", "resources:write", "usage:read", "usage:write", "tenant:admin")
_OPERATES: Final = ("tenants:admin", "support")
_MADE: Final = (200, 201)
#: of a tenant that never serves again
_SHREDDED: Final = "shredded"
_ENDED: Final = ("offboarding", "exported", "deleting", "deleted", _SHREDDED)
#: not carried out: not decided yet, not let in now, asked too often
_NOT_NOW: Final = (
    HTTPStatus.ACCEPTED,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
)


class Canary(Struct, frozen=True):
    """One of them: its resource holds a text that is nowhere else, and that nobody can guess and write down.

    Its usage has another one as its subject: analysts may read that.
    """

    tenant_id: str
    resource_id: str
    marker: str
    subject: str


class Doors:
    """The API as the monitor uses it: with tokens of its own issuer, made again before they expire."""

    def __init__(self, base_url: str, issuer: KeyFolder, marking_key: bytes) -> None:
        self._issuer = issuer
        self._marking_key = marking_key
        self._http = ApiConnection(base_url, limits.ISOLATION_ANSWER_S)
        self._tokens: dict[str, tuple[str, float]] = {}
        self._remembered: dict[tuple[str, ...], tuple[Any, float]] = {}
        self._metered: dict[str, tuple[str, float]] = {}  # the day of a tenant's usage, and when it is sent again

    def close(self) -> None:
        """Disconnects, until the next question."""
        self._http.close()

    def ask(self, tenant_id: str, method: str, path: str, *, done: int = 200, **more: Any) -> Answer:
        """What a member of a tenant is answered, or staff. Raises Unavailable when nobody answers, or not yet.

        ``done``: an answer that tells that all is done, whatever it means elsewhere.
        """
        return self._answered(tenant_id, method, path, partial(self._http.request, method, path), done=done, **more)

    def _answered(
        self, tenant_id: str, method: str, path: str, asked: Callable[..., Answer], *, done: int = 200, **more: Any
    ) -> Answer:
        headers = {"Authorization": f"Bearer {self._token(tenant_id)}", **more.pop("headers", {})}
        answer = asked(headers=headers, **more)
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            del self._tokens[tenant_id]  # what it says of times is wrong, if the clock was
        if answer.is_server_error or (answer.status_code in _NOT_NOW and answer.status_code != done):
            raise Unavailable(f"{method} {path}: {answer.status_code}")
        return answer

    def listen(self, tenant_id: str, path: str, until: str, **more: Any) -> Answer:
        """As ``ask``, of an answer without end: what comes of it until a text is there, and a moment longer.

        Raises Unavailable as ``ask`` does.
        """
        return self._answered(tenant_id, "GET", path, partial(self._http.listened, path, until=until), **more)

    def done(self, tenant_id: str, method: str, path: str, key: str, payload: dict[str, Any]) -> dict[str, Any]:
        """What came of a command that is carried out once for its key. Raises Unavailable when it was not."""
        answer = self.ask(tenant_id, method, path, json={"idempotency_key": key, "payload": payload})
        if answer.status_code not in _MADE:
            raise Unavailable(f"{method} {path}: {answer.status_code}")
        result: dict[str, Any] = answer.json()["result"]
        return result

    def remembered(self, key: tuple[str, ...], ask: Callable[[], T], *, anew: bool = False) -> T:
        """What was found by this key within the last minute, or is by asking now. Raises what ``ask`` does."""
        known = self._remembered.get(key)
        if anew or known is None or known[1] < time.monotonic():
            known = self._remembered[key] = (ask(), time.monotonic() + limits.ISOLATION_REMEMBERED_S)
        found: T = known[0]
        return found

    def forget(self) -> None:
        """Canaries are made again with the next round: they may be gone."""
        self._remembered.clear()

    def tenant(self, name: str) -> str:
        """The tenant of a name, the same one whenever it is asked for. Raises Unavailable.

        In place of one that somebody ended, and whose end nobody can take back, there is a next one.
        """
        made = (self._made(name, f"canary-{name}-{n}" if n else f"canary-{name}") for n in itertools.count())
        tenant_id, state = next(found for found in map(self._looked_at, made) if found[1] not in _ENDED)
        if state != "active":
            raise Unavailable(f"canary {name} is {state}")
        return tenant_id

    def _looked_at(self, tenant_id: str) -> tuple[str, str]:
        state = self.ask(STAFF, "GET", f"/v1/tenants/{tenant_id}").json().get("state")
        return tenant_id, _SHREDDED if self._is_shredded(tenant_id) else state

    def _made(self, name: str, key: str) -> str:
        payload = {"name": f"Isolation canary {name}"}
        made = self.remembered(("tenant", key), lambda: self.done(STAFF, "POST", "/v1/tenants", key, payload))
        return str(made["tenant_id"])

    def _is_shredded(self, tenant_id: str) -> bool:
        keys = self.ask(STAFF, "GET", f"/v1/tenants/{tenant_id}/keys").json().get("data", [])
        return bool(keys) and all(key["state"] == "destroyed" for key in keys)

    def canary(self, tenant_id: str) -> Canary:
        """A tenant with its resource; the same one whenever it is asked for. Raises Unavailable."""
        marker, subject = self._marked("canary", tenant_id), self._marked("usage", tenant_id)
        self._meter(tenant_id, subject)
        self.remembered(("entitled", tenant_id), lambda: self._entitle(tenant_id, subject))
        resource = self.remembered(
            ("resource", tenant_id),
            lambda: self.done(tenant_id, "POST", "/v1/resources", f"marked-{marker[:8]}", {"marker": marker}),
        )
        return Canary(tenant_id, resource["resource_id"], marker, subject)

    def _marked(self, what: str, tenant_id: str) -> str:
        return hmac.new(self._marking_key, f"isolation {what} {tenant_id}".encode(), hashlib.sha256).hexdigest()

    def _meter(self, tenant_id: str, subject: str) -> None:
        """One event of usage a day, which is counted once. It is sent again: Kafka has a new record to be looked at."""
        day = datetime.now(UTC).date().isoformat()
        sent_day, again_at = self._metered.get(tenant_id, ("", 0.0))
        if sent_day == day and time.monotonic() < again_at:
            return
        event: dict[str, Any] = {
            "specversion": "1.0",
            "type": "millrace.usage",
            "source": "/isolation",
            "id": day,
            "subject": subject,
        }
        event |= {"time": f"{day}T00:00:00Z", "data": {"dimension": METERED, "quantity": 1}}
        sent = {"json": event, "headers": {"Content-Type": "application/cloudevents+json"}}
        answer = self.ask(tenant_id, "POST", "/v1/usage/events", done=HTTPStatus.ACCEPTED, **sent)
        if answer.status_code != HTTPStatus.ACCEPTED:
            raise Unavailable(f"POST /v1/usage/events: {answer.status_code}")
        self._metered[tenant_id] = (day, time.monotonic() + limits.ISOLATION_METERED_AGAIN_S)

    def _entitle(self, tenant_id: str, subject: str) -> None:
        """What it may says its subject, too: where nobody has anything, an answer could show nothing of another's."""
        said = {"entitlements": {METERED: {"kind": "static", "value": subject}}}
        self.done(STAFF, "PUT", f"/v1/tenants/{tenant_id}/entitlements", f"canary-entitled-{tenant_id}", said)

    def _token(self, tenant_id: str) -> str:
        known = self._tokens.get(tenant_id)
        if known is None or known[1] < time.monotonic():
            kind, name, scopes = ("tenant", tenant_id, _MEMBER) if tenant_id else ("merchant", _OPERATED_BY, _OPERATES)
            token = issue_token(
                self._issuer,
                name,
                scopes,
                limits.ISOLATION_TOKEN_S,
                kind=kind,  # type: ignore[arg-type] # one of the kinds
                subject=_SUBJECT,
                issuer=MONITOR_ISSUER,
            )
            known = self._tokens[tenant_id] = (token, time.monotonic() + limits.ISOLATION_TOKEN_S / 2)
        return known[0]
