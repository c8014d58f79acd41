"""Social posts in the ingress: their parts, wired in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.http_service import HttpService, Json
from ingress.social import openapi, openapi_media, profile_routes, timeline_routes
from ingress.social.admission import SocialAdmission
from ingress.social.config import SocialConfig
from ingress.social.console.declared import CONSOLE
from ingress.social.console.media_routes import MediaDecisions
from ingress.social.console.pictures import Pictures
from ingress.social.desk import Desk
from ingress.social.edges import Edges
from ingress.social.home_streams import HomeStreams
from ingress.social.homes import HomeReader
from ingress.social.media import routes as media_routes
from ingress.social.media.uploads import Uploads
from ingress.social.moderation import routes as moderation_routes
from ingress.social.moderation.moderation import Moderation
from ingress.social.notifications import Notifications
from ingress.social.own_data import routes as own_data_routes
from ingress.social.own_data.own_data import OwnData
from ingress.social.pages import routes as page_routes
from ingress.social.pages.cards import Cards
from ingress.social.pages.media_routes import MediaBoard
from ingress.social.pages.session import Pages
from ingress.social.posts import Posts
from ingress.social.public_snapshot import PublicSnapshot
from ingress.social.sealed_texts import SealedTexts
from ingress.social.searches import Searches
from ingress.social.timelines import Timelines
from ingress.social.users import Users
from ingress.social.why import Why
from schemas.social.service import SERVICE
from sinks.redis.homes import Homes

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from ingress.http_service import Platform
    from ingress.identity.caller import Caller


class SocialHttp(HttpService):
    """Users, posts, timelines. Whatever gives a post to somebody asks ``social_authorize`` first."""

    declared = SERVICE
    routers = (
        profile_routes.router,
        timeline_routes.router,
        media_routes.router,
        moderation_routes.router,
        own_data_routes.router,
    )
    pages = page_routes.ROUTERS
    shows_events = True
    console = CONSOLE

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        store, cursors, config = platform.store, platform.cursors, platform.parts.get(SocialConfig)
        add = platform.parts.add
        uploads = add(Uploads(store, config.media))
        moderation = add(Moderation(store, cursors))
        add(OwnData(store))
        users = add(Users(store))
        self.admission = SocialAdmission(users, uploads, SealedTexts(store))
        homes = None if config.homes_url is None else Homes(config.homes_url)
        self._homes = add(HomeReader(store, users, homes))
        posts = add(Posts(store, cursors, uploads, moderation))
        self._searches = Searches(platform.config.postgres_dsn)
        timelines = add(Timelines(posts, self._homes, self._searches, users, cursors))
        self._snapshot = add(PublicSnapshot(store, timelines))
        self._streams = add(HomeStreams(timelines, platform.arrivals))
        add(Notifications(store, cursors))
        add(Edges(store, cursors))
        add(Desk(store, posts))
        add(MediaDecisions(platform.audited_store))
        add(Pictures(store, config.media))
        add(Why(store))
        self._pages = add(Pages(platform.audited_store, platform.config.cursor_key, platform.denials))
        add(Cards(store, uploads))
        add(MediaBoard(store, cursors, uploads))

    def caller_of(self, headers: Headers) -> Caller | None:
        """The user of a session."""
        return self._pages.caller_of(headers)

    async def start(self) -> None:
        """Connects in the background."""
        await self._searches.open()
        self._snapshot.start()

    def drain(self) -> None:
        """Ends every stream."""
        self._streams.close()

    async def close(self) -> None:
        """Disconnects from the store of homes, and searches; reads no public posts any more."""
        await self._snapshot.close()
        await self._homes.close()
        await self._searches.close()

    @staticmethod
    def paths() -> Json:
        """What is read."""
        return openapi.paths() | openapi_media.paths()

    @staticmethod
    def components() -> Json:
        """Posts, users, edges, pages of them."""
        return openapi.components() | openapi_media.components()


HTTP: Final = SocialHttp
