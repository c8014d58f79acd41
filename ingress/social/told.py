"""What one stream has told of a home. The ids of its events say it, too: one that was cut off goes on exactly there.

A home does not only grow at its end: a post that comes late stands below others that were told before it, and the one
that was told last may be gone. So an id names, beside its post, from where on a post is news, and which of those there
were told, each with its time: one that is hidden all through a stream is named by the ids of that stream, too, until it
is so old that it is no news.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

from ingress import limits as ingress_limits
from schemas.renderer import timestamp
from schemas.social import limits as social_limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Post = dict[str, Any]
Place = tuple[str, str]
_PAGE: Final = ingress_limits.PAGE_LIMIT_DEFAULT
_OLDEST: Final = ("", "")
_LAST: Final = "z"  # behind all ids of posts
_BETWEEN: Final = "~"  # is in no id, no time and no mark
_NAME_BYTES: Final = 5
_TIME_BYTES: Final = 7  # of microseconds: until the year 4253
_MARK_LENGTH: Final = 16
_OLDER_MARK_LENGTH: Final = 8  # of ids that an earlier release gave out: a name of six bytes, without a time
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)
_MANY: Final = f"{{0,{social_limits.HOME_STREAM_MARKS_MAX}}}"
#: said again by the client: nothing else may come back into a stream
_SAID: Final = re.compile(
    r"(?:po_\w+)?~([\dTZ:.-]*)~(\w*)~"
    rf"(?:~((?:[\w-]{{{_MARK_LENGTH}}}){_MANY})|((?:[\w-]{{{_OLDER_MARK_LENGTH}}}){_MANY}))",
    re.ASCII,
)


class Told:
    """What a stream has told of a home, and how far back it looks: what stood below its newest page is no news."""

    def __init__(self, since: Place, told: dict[bytes, Place], said: str | None = None) -> None:
        self._since = since
        self._told = told  # by name, with the place where it stood; in the order in which it was told
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
        since = _place(posts[-1]) if len(posts) >= _PAGE else _OLDEST
        return cls(since, {_name(post["post_id"]): _place(post) for post in known})

    @classmethod
    def again(cls, said: str) -> Self | None:
        """As it was when this id was given out, with an event or a page; None for what is none, as that of a post."""
        found = _SAID.fullmatch(said)
        if found is None:
            return None
        at, post_id, marks, older = found.groups()
        since = (at, post_id)
        if marks is None:  # of these it is known that they stood before now
            now = timestamp(time.time_ns() // 1_000), _LAST
            return cls(since, {mark[:_NAME_BYTES]: now for mark in _marks(older, _OLDER_MARK_LENGTH)}, said)
        return cls(since, {mark[:_NAME_BYTES]: _place_in(mark) for mark in _marks(marks, _MARK_LENGTH)}, said)

    def reaches(self, post: Post) -> bool:
        """Whether all that stands behind this post is no news."""
        return _place(post) <= self._since

    def fresh(self, posts: Sequence[Post]) -> list[tuple[str, Post]]:
        """What of a home (the newest first) is news, the oldest first, each with its id; from now on it was told."""
        news = [post for post in reversed(posts) if _place(post) >= self._since and not self._knows(post)]
        told = [(self._tell(post), post) for post in news]
        over = max(0, len(self._told) - social_limits.HOME_STREAM_TOLD_MAX)
        self._told = dict(islice(self._told.items(), over, None))
        if len(posts) >= _PAGE:
            self._since = max(self._since, _place(posts[_PAGE - 1]))
        return told

    def _knows(self, post: Post) -> bool:
        name = _name(post["post_id"])
        if is_known := name in self._told:
            self._told[name] = _place(post)  # exactly
        return is_known

    def _tell(self, post: Post) -> str:
        """The id of one of the news: those that follow it in the same frame may be lost on their way."""
        self._told[_name(post["post_id"])] = _place(post)
        return self._id(post["post_id"])

    def _id(self, post_id: str) -> str:
        newest = sorted(((place, name) for name, place in self._told.items() if place >= self._since), reverse=True)
        kept = newest[: social_limits.HOME_STREAM_MARKS_MAX]
        since = self._since if len(kept) == len(newest) else kept[-1][0]
        return _BETWEEN.join((post_id, *since, "", "".join(_mark(name, place) for place, name in kept)))


def place_of_page(posts: Sequence[Post]) -> str:
    """The id with which a stream goes on behind a newest page that was shown."""
    return Told.before(posts, None).place


def _place(post: Post) -> Place:
    return post["created_at"], post["post_id"]


def _name(post_id: str) -> bytes:
    """Of so few posts no two have the same one."""
    return hashlib.sha256(post_id.encode()).digest()[:_NAME_BYTES]


def _mark(name: bytes, place: Place) -> str:
    time_us = (datetime.fromisoformat(place[0]) - _EPOCH) // _US
    return base64.urlsafe_b64encode(name + time_us.to_bytes(_TIME_BYTES)).decode()


def _marks(said: str, length: int) -> Iterable[bytes]:
    return (base64.urlsafe_b64decode(said[n : n + length]) for n in range(0, len(said), length))


def _place_in(mark: bytes) -> Place:
    """Where the post of a mark stood, or at most beside it."""
    return timestamp(int.from_bytes(mark[_NAME_BYTES:])), _LAST
