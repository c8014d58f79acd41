"""Social posts in the ingress: their parts, wired in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.http_service import HttpService, Json
from ingress.social import openapi, profile_routes, timeline_routes
from ingress.social.admission import SocialAdmission
from ingress.social.edges import Edges
from ingress.social.home_streams import HomeStreams
from ingress.social.homes import HomeReader
from ingress.social.notifications import Notifications
from ingress.social.posts import Posts
from ingress.social.timelines import Timelines
from ingress.social.users import Users
from schemas.social.service import SERVICE
from sinks.redis.homes import Homes

if TYPE_CHECKING:
    from ingress.http_service import Platform


class SocialHttp(HttpService):
    """Users, posts, timelines. Whatever gives a post to somebody asks ``social_authorize`` first."""

    declared = SERVICE
    routers = (profile_routes.router, timeline_routes.router)
    shows_events = True

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        store, cursors, url = platform.store, platform.cursors, platform.config.redis_url
        add = platform.parts.add
        users = add(Users(store))
        self.admission = SocialAdmission(users)
        self._homes = add(HomeReader(store, None if url is None else Homes(url)))
        timelines = add(Timelines(add(Posts(store, cursors)), self._homes, cursors))
        self._streams = add(HomeStreams(timelines, users))
        add(Notifications(store, cursors))
        add(Edges(store, cursors))

    def drain(self) -> None:
        """Ends every stream."""
        self._streams.close()

    async def close(self) -> None:
        """Disconnects from the store of homes."""
        await self._homes.close()

    @staticmethod
    def paths() -> Json:
        """What is read."""
        return openapi.paths()

    @staticmethod
    def components() -> Json:
        """Posts, users, edges, pages of them."""
        return openapi.components()


HTTP: Final = SocialHttp
