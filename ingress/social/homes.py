"""One's home: ids that fan-out wrote, or, where there are none, what Postgres says at once; never an empty excuse."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from schemas import errors
from schemas.social import limits

if TYPE_CHECKING:
    from ingress.http.store import Store
    from ingress.social.pager import Place
    from ingress.social.users import Users
    from sinks.redis.homes import Homes


class HomeReader:
    """Reads homes of one process; a store of homes that is away costs time, nothing else."""

    def __init__(self, store: Store, users: Users, homes: Homes | None) -> None:
        self._store = store
        self._users = users
        self._homes = homes

    async def before(self, user: str, place: Place, count: int) -> list[Place]:
        """The next places of what was pushed, newest first. Raises Gone rather than build an erased user's home."""
        found = await self._stored(user, place, count)
        if found is None:
            found = [one for one in await self._built(user) if one < place][:count]
        return found

    async def _stored(self, user: str, place: Place, count: int) -> list[Place] | None:
        if self._homes is None:
            return None
        try:
            return await self._homes.read(user, place, count)
        except errors.Unavailable:
            return None

    async def _built(self, user: str) -> list[Place]:
        """What a home holds, from Postgres. It is kept under a token that was taken before anything was read."""
        await self._users.require_present(user)
        token = 0
        with contextlib.suppress(errors.Unavailable):  # then it is not kept
            token = await self._homes.begin(user) if self._homes else 0
        rows = await self._store.rows("home_build", {"viewer": user, "count": limits.HOME_POSTS_MAX})
        posts = [(int(at), str(post_id)) for at, post_id in rows]
        if token and self._homes:
            with contextlib.suppress(errors.Unavailable):  # then the next reader builds it
                await self._homes.finish(user, token, posts)
        return posts

    async def close(self) -> None:
        """Disconnects."""
        if self._homes is not None:
            await self._homes.close()
