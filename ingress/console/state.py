"""The console's parts in one ingress process: its own role at the database, its sessions, and the ends of topics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ingress.console.lag import TopicEnds
from ingress.console.session import Sessions
from ingress.http.store import Store
from schemas import errors, limits

if TYPE_CHECKING:
    from ingress.console.session import Session
    from ingress.identity.denials import Denials
    from sinks.kafka.connection import KafkaConnection


class Console:
    """``open`` before use, ``close`` after. It changes no business row: decisions go through payments/repair."""

    def __init__(self, dsn: str, secret: bytes, kafka: KafkaConnection, denials: Denials) -> None:
        self._denials = denials
        self._store = Store(
            dsn, synchronous_commit="on", package="ingress.console", pool_max=limits.CONSOLE_POSTGRES_POOL_MAX
        )
        self.sessions = Sessions(secret)
        self.topic_ends = TopicEnds(kafka)
        self._refused_at: list[float] = []
        self._totals: tuple[float, list[dict[str, Any]]] = (float("-inf"), [])

    async def open(self) -> None:
        """Starts the pool in the background."""
        await self._store.open()

    async def close(self) -> None:
        """Closes every connection."""
        await self._store.close()

    async def records(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of a query in ``queries/``. Raises Unavailable when the database is out."""
        return await self._store.records(query, parameters)

    async def session(self, cookie: str | None) -> Session:
        """The session of a cookie, unless its holder has signed out, or is denied. Raises Unauthenticated."""
        session = self.sessions.read(cookie)
        try:
            await self._denials.require(session.caller())
        except errors.Suspended as error:  # to a browser the session is over
            raise errors.Unauthenticated(error.public) from error
        if await self._store.rows("session_ended", {"id": session.id}):
            raise errors.Unauthenticated("You have signed out; sign in again.")
        return session

    async def end(self, session: Session) -> None:
        """The cookie is worth nothing from now on, at any process."""
        await self._store.rows("session_end", {"id": session.id, "expires_at": session.expires_at})

    def sign_in_refused(self) -> None:
        """Counts one. Raises QuotaExceeded when there were too many lately: strangers cannot fill the audit log.

        Nobody is locked out by that: a token that is right is never asked for here.
        """
        now = time.monotonic()
        self._refused_at = [at for at in self._refused_at if at > now - limits.CONSOLE_SIGN_IN_WINDOW_S]
        if len(self._refused_at) >= limits.CONSOLE_SIGN_INS_REFUSED_MAX:
            raise errors.QuotaExceeded("Too many sign-ins were refused; wait a minute.")
        self._refused_at.append(now)

    async def recent_totals(self) -> list[dict[str, Any]]:
        """The trial balance, some seconds old at most: it reads every account, and the overview is opened often."""
        at, totals = self._totals
        if time.monotonic() - at > limits.CONSOLE_TOTALS_KEPT_S:
            totals = await self.records("trial_totals")
            self._totals = (time.monotonic(), totals)
        return totals
