"""What one stream has told of a home. The ids of its events say it, too: one that was cut off goes on exactly there.

A home does not only grow at its end: a post that comes late stands below others that were told before it, and the one
that was told last may be gone. So an id names, beside its post, from where on a post is news, and which of those there
were told.
"""

from __future__ import annotations

import base64
import hashlib
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

from ingress import limits as ingress_limits
from schemas.social import limits as social_limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Post = dict[str, Any]
Place = tuple[str, str]
_PAGE: Final = ingress_limits.PAGE_LIMIT_DEFAULT
_OLDEST: Final = ("", "")
_BETWEEN: Final = "~"  # is in no id, no time and no mark
_MARK_BYTES: Final = 6
_MARK_LENGTH: Final = 8
#: said again by the client: nothing else may come back into a stream
_SAID: Final = re.compile(
    rf"(?:po_\w+)?~([\dTZ:.-]*)~(\w*)~((?:[\w-]{{{_MARK_LENGTH}}}){{0,{social_limits.HOME_STREAM_MARKS_MAX}}})",
    re.ASCII,
)


class Told:
    """What a stream has told of a home, and how far back it looks: what stood below its newest page is no news."""

    def __init__(
        self, since: Place, posts: Iterable[Post] = (), marks: Iterable[str] = (), said: str | None = None
    ) -> None:
        self._since = since
        self._places = {post["post_id"]: _place(post) for post in posts}  # as they were told
        self._marks = frozenset(marks)  # of what an earlier stream told
        #: the id with which a stream goes on from here, before anything is told
        self.place = self._id("") if said is None else said

    @classmethod
    def before(cls, posts: Sequence[Post], after: str | None) -> Self:
        """As if all of a home was told but what stands above ``after``; where that is gone, but the newest page."""
        ids = [post["post_id"] for post in posts]
        if after is None:
            known = posts
        elif after in ids:
            known = posts[ids.index(after) :]
        else:
            posts, known = posts[:_PAGE], ()
        return cls(_place(posts[-1]) if len(posts) >= _PAGE else _OLDEST, known)

    @classmethod
    def again(cls, said: str) -> Self | None:
        """As it was when this id was given out, with an event or a page; None for what is none, as that of a post."""
        found = _SAID.fullmatch(said)
        if found is None:
            return None
        at, post_id, marks = found.groups()
        return cls((at, post_id), (), (marks[n : n + _MARK_LENGTH] for n in range(0, len(marks), _MARK_LENGTH)), said)

    def reaches(self, post: Post) -> bool:
        """Whether all that stands behind this post is no news."""
        return _place(post) <= self._since

    def fresh(self, posts: Sequence[Post]) -> list[tuple[str, Post]]:
        """What of a home (the newest first) is news, the oldest first, each with its id; from now on it was told."""
        news = [post for post in reversed(posts) if _place(post) >= self._since and not self._knows(post)]
        told = [(self._told(post), post) for post in news]
        over = max(0, len(self._places) - social_limits.HOME_STREAM_TOLD_MAX)
        self._places = dict(islice(self._places.items(), over, None))
        if len(posts) >= _PAGE:
            self._since = max(self._since, _place(posts[_PAGE - 1]))
        return told

    def _knows(self, post: Post) -> bool:
        post_id = post["post_id"]
        if post_id in self._places:
            return True
        if is_marked := _mark(post_id) in self._marks:
            self._places[post_id] = _place(post)  # and is named by the ids to come
        return is_marked

    def _told(self, post: Post) -> str:
        """The id of one of the news: those that follow it in the same frame may be lost on their way."""
        self._places[post["post_id"]] = _place(post)
        return self._id(post["post_id"])

    def _id(self, post_id: str) -> str:
        newest = sorted(((place, told) for told, place in self._places.items() if place >= self._since), reverse=True)
        kept = newest[: social_limits.HOME_STREAM_MARKS_MAX]
        since = self._since if len(kept) == len(newest) else kept[-1][0]
        return _BETWEEN.join((post_id, *since, "".join(_mark(told) for _, told in kept)))


def place_of_page(posts: Sequence[Post]) -> str:
    """The id with which a stream goes on behind a newest page that was shown."""
    return Told.before(posts, None).place


def _place(post: Post) -> Place:
    return post["created_at"], post["post_id"]


def _mark(post_id: str) -> str:
    """Of so few posts no two have the same one."""
    return base64.urlsafe_b64encode(hashlib.sha256(post_id.encode()).digest()[:_MARK_BYTES]).decode()
