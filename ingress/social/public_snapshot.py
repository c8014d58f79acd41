"""The public timeline while Postgres is away: what all could see a moment ago, for as long as that is said to be so.

It is the only list that outlives a read. Everything else is refused while nobody can judge it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from prometheus_client import Counter as MetricCounter

from schemas import errors
from schemas.renderer import timestamp
from schemas.social import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingress.http.store import Store
    from ingress.social.timelines import Timelines

Json = dict[str, Any]
# Still while somebody reads the public timeline: it is refused at once when Postgres goes away.
_TAKEN: Final = MetricCounter("millrace_social_public_snapshots", "Readings of the public posts that are kept")
# Rising: Postgres is away, and readers of the public timeline are told what was public some seconds ago.
_DEGRADED: Final = MetricCounter("millrace_social_public_degraded", "Public timelines answered without Postgres")
_NOBODY: Final = ""  # sees what is public, and is blocked by none
_US: Final = 1_000_000


class _Snapshot(Struct, frozen=True):
    """Public posts, newest first, who is apart from whom, and when it was begun to be read."""

    posts: list[Json]
    apart: frozenset[tuple[str, str]]  # an author, and somebody whom a block keeps from it
    began: float
    at_us: int


class PublicSnapshot:
    """The newest page of the public timeline of one process, read again and again while somebody asks for it."""

    def __init__(self, store: Store, timelines: Timelines, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._timelines = timelines
        self._clock = clock
        self._asked_at = float("-inf")
        self._asked = asyncio.Event()
        self._last: _Snapshot | None = None
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Reads in the background, once somebody asks."""
        self._reading = asyncio.create_task(self._read())

    def asked(self) -> None:
        """Somebody reads the public timeline: it is kept fresh for a while."""
        self._asked_at = self._clock()
        self._asked.set()

    def page(self, viewer: str, limit: int) -> Json | None:
        """The newest posts, marked ``degraded``; None where nothing is known that is young enough.

        A post was public, unmoderated and not behind a block of this reader's at ``as_of``, which is no longer ago than
        ``PUBLIC_SNAPSHOT_AGE_MAX_S``.
        """
        last = self._last
        if last is None or self._clock() - last.began > limits.PUBLIC_SNAPSHOT_AGE_MAX_S:
            return None
        data = [
            post | {"quote": _quote(post, viewer, last.apart)}
            for post in last.posts
            if (post["author_id"], viewer) not in last.apart
        ]
        _DEGRADED.inc()
        listed = {"data": data[:limit], "has_more": False, "next_cursor": None}
        return listed | {"degraded": True, "as_of": timestamp(last.at_us)}

    async def close(self) -> None:
        """Reads no more."""
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def _read(self) -> None:
        while True:
            if self._clock() - self._asked_at > limits.PUBLIC_SNAPSHOT_ASKED_S:
                self._asked.clear()
                await self._asked.wait()
            with contextlib.suppress(errors.PlatformError):  # the one before it is there, while it is young enough
                self._last = await self._taken()
                _TAKEN.inc()
            await asyncio.sleep(limits.PUBLIC_SNAPSHOT_EVERY_S)

    async def _taken(self) -> _Snapshot:
        """Blocks are read after the posts: whoever is kept from them since is kept from them here, too."""
        began, at_us = self._clock(), int(time.time() * _US)
        page = await self._timelines.public(_NOBODY, limits.PUBLIC_SNAPSHOT_POSTS, None)
        posts = page["data"]
        authors = {one["author_id"] for post in posts for one in (post, post["quote"] or {}) if "author_id" in one}
        given = {"users": sorted(authors), "count": limits.PUBLIC_SNAPSHOT_BLOCKS_MAX}
        apart = [(str(author), str(other)) for author, other in await self._store.rows("public_blocks", given)]
        counts = Counter(author for author, _ in apart)
        unsure = {author for author, count in counts.items() if count >= limits.PUBLIC_SNAPSHOT_BLOCKS_MAX}
        kept = [_sure(post, unsure) for post in posts if post["author_id"] not in unsure]
        return _Snapshot(kept, frozenset(apart), began, at_us)


def _unavailable(quote: Json) -> Json:
    return {"post_id": quote["post_id"], "unavailable": True}


def _sure(post: Json, unsure: set[str]) -> Json:
    """Without a quoted post of somebody with more blocks than are kept."""
    quote = post["quote"]
    return post | {"quote": _unavailable(quote)} if quote and quote.get("author_id") in unsure else post


def _quote(post: Json, viewer: str, apart: frozenset[tuple[str, str]]) -> Json | None:
    quote: Json | None = post["quote"]
    return _unavailable(quote) if quote and (quote.get("author_id"), viewer) in apart else quote
