"""Social posts in the ingress: their parts, wired in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.http_service import HttpService, Json
from ingress.social import openapi, profile_routes
from ingress.social.admission import SocialAdmission
from ingress.social.media import routes as media_routes
from ingress.social.media.uploads import Uploads
from ingress.social.users import Users
from schemas.social.service import SERVICE

if TYPE_CHECKING:
    from ingress.http_service import Platform


class SocialHttp(HttpService):
    """Users, posts, timelines. Whatever gives a post to somebody asks ``social_authorize`` first."""

    declared = SERVICE
    routers = (profile_routes.router, media_routes.router)
    shows_events = True

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        uploads = platform.parts.add(Uploads(platform.store, platform.config.media))
        self.admission = SocialAdmission(platform.parts.add(Users(platform.store)), uploads)

    @staticmethod
    def paths() -> Json:
        """What is read."""
        return openapi.paths()

    @staticmethod
    def components() -> Json:
        """Posts, users, edges, pages of them."""
        return openapi.components()


HTTP: Final = SocialHttp
