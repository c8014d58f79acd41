"""One's home: ids that fan-out wrote, or, where there are none, what Postgres says at once; never an empty excuse."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, TypeVar

from ingress.http.breaker import Breaker
from ingress.social.pager import NEWEST
from schemas import errors
from schemas.social import limits
from sinks.redis.homes import Part, newest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ingress.http.store import Store
    from ingress.social.pager import Place
    from ingress.social.users import Users
    from sinks.redis.homes import Homes

Told = TypeVar("Told")


class HomeReader:
    """Reads homes of one process. Without the store of homes they are slower, nothing else."""

    def __init__(
        self, store: Store, users: Users, homes: Homes | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._users = users
        self._homes = homes
        # at the first failure: one that hangs has had two connections by then, of a second each, and Postgres has all
        self._breaker = Breaker("The store of homes", clock, failures_max=1)

    async def before(self, user: str, place: Place, count: int) -> list[Place]:
        """The next places of what was pushed, newest first. Raises Gone rather than build an erased user's home."""
        found = await self._told(lambda homes: homes.read(user, place, count))
        if found is None:
            built = await self._built(user)
            found = Part([one for one in built.places if one < place][:count], built.floor)
        places, floor = found
        if floor and len(places) < count:  # behind what is kept
            places += await self._behind(user, min(place, (floor + 1, "")), count - len(places))
        return places

    async def _told(self, ask: Callable[[Homes], Awaitable[Told]]) -> Told | None:
        """What the store of homes says; None while it is away, and nobody waits for it again and again."""
        if self._homes is None:
            return None
        with contextlib.suppress(errors.Unavailable):
            self._breaker.enter()
            try:
                told = await ask(self._homes)
            except errors.Unavailable:
                self._breaker.failed()
                raise
            self._breaker.succeeded()
            return told
        return None

    async def _built(self, user: str) -> Part:
        """What a home keeps, from Postgres. It is kept under a token that was taken before anything was read."""
        await self._users.require_present(user)
        token = await self._told(lambda homes: homes.begin(user))  # without one it is not kept
        built = newest(await self._behind(user, NEWEST, limits.HOME_POSTS_KEPT))
        if token:
            await self._told(lambda homes: homes.finish(user, token, built))  # or the next reader builds it
        return built

    async def _behind(self, user: str, place: Place, count: int) -> list[Place]:
        """So many places behind this one, from Postgres: all that was ever pushed is there."""
        given = {"viewer": user, "at": place[0], "id": place[1], "count": count}
        return [(int(at), str(post_id)) for at, post_id in await self._store.rows("home_build", given)]

    async def close(self) -> None:
        """Disconnects."""
        if self._homes is not None:
            await self._homes.close()
