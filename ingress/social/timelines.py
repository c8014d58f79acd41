"""Timelines and search: each is a query of candidates, judged in the same statement, and a place to go on from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingress.social.pager import NEWEST, OLDEST, Examined, Pager, Place
from ingress.social.posts import COLUMNS, Posts, Shown, shown_of
from sinks.postgres.arrays import Bigints, Texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.http.cursors import Cursors
    from ingress.social.homes import HomeReader
    from ingress.social.searches import Searches
    from ingress.social.users import Users

Json = dict[str, Any]


class Timelines:
    """Reads of one process."""

    def __init__(self, posts: Posts, homes: HomeReader, searches: Searches, users: Users, cursors: Cursors) -> None:
        self._posts = posts
        self._homes = homes
        self._searches = searches
        self._users = users
        self._pager = Pager(cursors)

    async def home(self, viewer: str, limit: int, cursor: str | None) -> Json:
        """One's own posts, those of the followed, and what they repost; each says ``why`` it is there.

        The statement that reads them also says whether the reader is there: it exists from now on. Raises Gone.
        """

        async def examine(place: Place, count: int) -> list[Examined[Shown]]:
            pushed = await self._homes.before(viewer, place, count)
            times = [at for at, _ in pushed]
            # of a full list the oldest bounds all that is pulled: nothing behind it is among the newest so many
            since = times[-1] if len(times) == count else OLDEST[0]
            given = {"times": Bigints(times), "ids": Texts([post_id for _, post_id in pushed]), "since": since}
            rows = await self._candidates("timeline_home", viewer, place, count, given)
            await self._users.require_present(viewer, rows[0][0] if rows else None)
            return [_examined(row[1:]) for row in rows]

        page = await self._page(viewer, "home", limit, cursor, examine)
        for post in page["data"]:
            post["why"] = _why(viewer, post)
        return page

    async def public(self, viewer: str, limit: int, cursor: str | None) -> Json:
        """What all users may see."""
        return await self._listed("timeline_public", "public", viewer, limit, cursor, {})

    async def user(self, viewer: str, author_id: str, limit: int, cursor: str | None) -> Json:
        """The posts of one author."""
        given = {"author_id": author_id}
        return await self._listed("timeline_user", f"user:{author_id}", viewer, limit, cursor, given)

    async def search(self, viewer: str, words: str, limit: int, cursor: str | None) -> Json:
        """Posts with all of the words, newest first. Raises Overloaded when the viewer searches too much at once."""
        async with self._searches.turn(viewer):
            are_common = await self._searches.are_common(words)

            async def examine(place: Place, count: int) -> list[Examined[Shown]]:
                rows = await self._searches.below(viewer, words, place, count, are_common=are_common)
                return [_examined(row) for row in rows]

            return await self._page(viewer, f"search:{words}", limit, cursor, examine)

    async def thread(self, viewer: str, post_id: str, limit: int, cursor: str | None) -> Json:
        """The root, then its replies, oldest first. Raises NotFound and Gone as for the post itself."""
        root_id = await self._posts.root_of(viewer, post_id)
        given = {"root_id": root_id}
        return await self._listed("timeline_thread", f"thread:{root_id}", viewer, limit, cursor, given, first=OLDEST)

    async def replies(self, viewer: str, post_id: str, limit: int, cursor: str | None) -> Json:
        """Direct answers to a post, oldest first. Raises NotFound and Gone as for the post itself."""
        await self._posts.root_of(viewer, post_id)
        given = {"post_id": post_id}
        return await self._listed("timeline_replies", f"replies:{post_id}", viewer, limit, cursor, given, first=OLDEST)

    async def _listed(
        self,
        query: str,
        name: str,
        viewer: str,
        limit: int,
        cursor: str | None,
        given: Json,
        first: Place = NEWEST,
    ) -> Json:
        async def examine(place: Place, count: int) -> list[Examined[Shown]]:
            return [_examined(row) for row in await self._candidates(query, viewer, place, count, given)]

        return await self._page(viewer, name, limit, cursor, examine, first)

    async def _candidates(
        self, query: str, viewer: str, place: Place, count: int, given: Json
    ) -> list[tuple[Any, ...]]:
        parameters = {**given, "viewer": viewer, "at": place[0], "id": place[1], "count": count}
        return await self._posts.store.rows(query, parameters)

    async def _page(
        self, viewer: str, name: str, limit: int, cursor: str | None, examine: Any, first: Place = NEWEST
    ) -> Json:
        page = await self._pager.page(viewer, name, limit, cursor, examine, first)
        return page.document(await self._posts.shown(viewer, page.items))


def _examined(row: Sequence[Any]) -> Examined[Shown]:
    at, is_shown, reposter = row[:3]
    return Examined((at, row[-COLUMNS]), shown_of(row, reposter) if is_shown else None)


def _why(viewer: str, post: Json) -> Json:
    """Why a post is in this home, and whom the reader would unfollow or mute to have no more like it."""
    if post["author_id"] == viewer:
        return {"reason": "own", "user_id": viewer}
    if "reposted_by" in post:
        return {"reason": "reposted", "user_id": post["reposted_by"]}
    return {"reason": "followed", "user_id": post["author_id"]}
