"""The console's parts in one ingress process: its own role at the database, its sessions, and the ends of topics."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from ingress import limits
from ingress.browser.session import SignedIn
from ingress.console.declared import place
from ingress.console.lag import TopicEnds
from ingress.console.pages import Templates
from ingress.console.session import Session, Sessions
from ingress.http.store import Store
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.console.declared import ConsolePages
    from ingress.http.parts import Parts
    from ingress.identity.denials import Denials
    from sinks.kafka.connection import KafkaConnection
    from sinks.kept_secrets import Secrets

PIPELINE: Final = place("l", "/console/pipeline", "Pipeline")


class Console(SignedIn[Session]):
    """``open`` before use, ``close`` after. It changes no business row: decisions go through payments/repair."""

    sessions: Sessions
    ended_query = "session_ended"
    end_query = "session_end"

    def __init__(
        self,
        dsn: str,
        secret: bytes | Secrets,
        kafka: KafkaConnection,
        declared: Sequence[ConsolePages],
        denials: Denials,
    ) -> None:
        packages = [pages.package for pages in declared]
        store = Store(
            dsn,
            synchronous_commit="on",
            packages=("ingress.console", *packages),
            pool_max=limits.CONSOLE_POSTGRES_POOL_MAX,
        )
        guests = [pages.guests for pages in declared if pages.guests]
        super().__init__(Sessions(secret, guests=guests), store, denials)
        self._declared = declared
        self.templates = Templates(packages)
        self.topic_ends = TopicEnds(kafka)
        self._refused_at: list[float] = []

    async def open(self) -> None:
        """Starts the pool in the background."""
        await self.store.open()

    async def close(self) -> None:
        """Closes every connection."""
        await self.store.close()

    async def records(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of a query in ``queries/``. Raises Unavailable when the database is out."""
        return await self.store.records(query, parameters)

    def sign_in_refused(self) -> None:
        """Counts one. Raises QuotaExceeded when there were too many lately: strangers cannot fill the audit log.

        Nobody is locked out by that: a token that is right is never asked for here.
        """
        now = time.monotonic()
        self._refused_at = [at for at in self._refused_at if at > now - limits.CONSOLE_SIGN_IN_WINDOW_S]
        if len(self._refused_at) >= limits.CONSOLE_SIGN_INS_REFUSED_MAX:
            raise errors.QuotaExceeded("Too many sign-ins were refused; wait a minute.")
        self._refused_at.append(now)

    async def oldest(self) -> list[dict[str, Any]]:
        """The oldest open thing of each stage of all services."""
        queries = [pages.oldest for pages in self._declared if pages.oldest]
        found = await asyncio.gather(*(self.records(query, counted=limits.CONSOLE_COUNTED_MAX) for query in queries))
        return [row for rows in found for row in rows]

    def frame(self, session: Session | None, parts: Parts) -> dict[str, Any]:
        """What the layout of a page says to this person: who it is, the navigation, the search, and warnings."""
        guests = self.sessions.guests_of(session) if session else None
        seen = [pages for pages in self._declared if guests is None or pages.guests is guests]
        own = [pages.places if guests or pages.guests is None else pages.staff_places for pages in seen]
        places = [place for places_of_one in own for place in places_of_one]
        return {
            "role": guests.name if guests else "operator" if session and session.may_decide else "read only",
            "places": places if guests else [*places, PIPELINE],
            "searches": guests is None and any(pages.searches for pages in seen),
            "warnings": [said for pages in self._declared if pages.warning and (said := pages.warning(parts))],
        }
