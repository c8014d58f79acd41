"""The rows of one batch: what was read, as the commands so far left it, and what is written in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from dataflows.owner.batch import Statement
from dataflows.social.docket import Docket
from dataflows.social.domain.edge_decisions import followers_added
from dataflows.social.domain.media import Media, Room
from dataflows.social.domain.post_decisions import Seen
from dataflows.social.domain.records import Edge, Post
from dataflows.social.rows import SQL, Held, lists
from dataflows.social.tables import AUTHORS, BLOCKS, ERASURES, EXPORTS, FOLLOWS, MEDIA, MUTES, POSTS, REACTIONS
from schemas import identity
from schemas.social import limits
from sinks.postgres.arrays import Bigints, Integers, Texts

Rows = dict[str, list[tuple[Any, ...]]]


class Notice(Struct, frozen=True):
    """What one user is told of another."""

    user_id: str
    kind: str
    actor_id: str
    post_id: str
    created_at: int
    decision_id: str = ""  # of moderation: one object may be told of by several

    @property
    def notification_id(self) -> str:
        """The same for the same thing: told again after a retry or a second like, it is there once."""
        return identity.derived_id(
            "no", self.user_id, self.kind, f"{self.actor_id}\x1f{self.post_id}{self.decision_id}"
        )


class SocialBatch:
    """Everything that handlers read and change."""

    def __init__(self, rows: Rows) -> None:
        def read(name: str) -> list[tuple[Any, ...]]:
            return rows.get(name, [])

        self.authors = Held(AUTHORS, [*read("authors_read"), *read("authors_erased")])
        self.follows = Held(FOLLOWS, read("follows_read"))
        self.blocks = Held(BLOCKS, read("blocks_read"))
        self.mutes = Held(MUTES, read("mutes_read"))
        self.posts = Held(POSTS, read("posts_read"))
        self.reactions = Held(REACTIONS, read("reactions_read"))
        self.media = Held(MEDIA, [*read("media_read"), *read("media_of_posts")])
        self.docket = Docket(read)
        self.erasures = Held(ERASURES, [*read("erasures_read"), *read("erasures_by_id")])
        self.exports = Held(EXPORTS, ())
        self.keys: dict[str, bytes] = {user: bytes(key) for user, key in read("keys_read")}
        self.media_removed = {row[0] for row in read("media_removed")}
        self._room = {user: Room(*rest) for user, *rest in read("media_room")}
        self._parts: list[tuple[str, int, int, str]] = []
        self._seen = {(viewer, post_id): Seen(post_id, *rest) for viewer, post_id, *rest in read("posts_seen")}
        self._versions: list[Post] = []
        self._forgotten: set[str] = set()
        self._added: Counter[str] = Counter()
        self._notices: dict[str, Notice] = {}
        self._pairs: set[tuple[str, str]] = set()  # of users between whom something changed

    def have_met(self, user: str, other: str) -> bool:
        """Whether the other is there for the user: active, and no block between them, as of now; as social_met says."""
        found = self.authors.get(other)
        between = (self.blocks.get((user, other)), self.blocks.get((other, user)))
        is_apart = any(edge is not None and edge.state == "active" for edge in between)
        return found is not None and found.state == "active" and not is_apart

    def seen(self, viewer: str, post_id: str | None) -> Seen | None:
        """The post, if the viewer may see it."""
        if post_id is None:
            return None
        own = self.posts.get(post_id)
        if own is not None and own.author_id == viewer and own.state == "published":
            return self._seen.get((viewer, post_id)) or Seen(
                post_id, viewer, own.root_id, is_open=own.visibility == "public"
            )
        return None if own is not None and own.state == "deleted" else self._seen.get((viewer, post_id))

    def put_post(self, post: Post) -> None:
        """The post from now on: a version more, or none any more."""
        self.posts.put(post)
        if post.state == "deleted":
            self._forgotten.add(post.post_id)
        else:
            self._versions.append(post)

    def put_follow(self, edge: Edge) -> bool:
        """The follow from now on, counted; False when it was so already."""
        before = self.follows.get((edge.user_id, edge.target_id))
        if before == edge:
            return False
        self._added[edge.target_id] += followers_added(before, edge)
        self.follows.put(edge)
        self._between(edge)
        return True

    def room(self, user: str) -> Room:
        """What the user holds of media, with the uploads that were begun in this batch."""
        return self._room[user]

    def begin_upload(self, new: Media, parts: Sequence[tuple[int, str]]) -> None:
        """The new upload, with length and SHA-256 of each of its parts, in order."""
        self.media.put(new)
        self._room[new.owner_id] = self._room[new.owner_id].with_more(new.size)
        media_id = new.media_id
        self._parts += [(media_id, number, size, sha256) for number, (size, sha256) in enumerate(parts, 1)]

    def end_upload(self, after: Media) -> None:
        """The end of what its owner held until now: there is room for others of this batch, too."""
        self.media.put(after)
        if room := self._room.get(after.owner_id):
            self._room[after.owner_id] = room.with_more(-after.size)

    def put_block(self, edge: Edge) -> None:
        """The block from now on."""
        self.blocks.put(edge)
        self._between(edge)

    def _between(self, edge: Edge) -> None:
        self._pairs.add((min(edge.user_id, edge.target_id), max(edge.user_id, edge.target_id)))

    def tell(self, notice: Notice) -> None:
        """Tells a user, once. Nobody is told of itself."""
        if notice.user_id != notice.actor_id:
            self._notices.setdefault(notice.notification_id, notice)

    def writes(self) -> list[Statement]:
        """Everything that changed, always in this order."""
        return [
            *self._apart(),
            *self.authors.writes(),
            *self._counts(),
            *self.posts.writes(),
            *self._texts(),
            *self.follows.writes(),
            *self.blocks.writes(),
            *self.mutes.writes(),
            *self.reactions.writes(),
            *self.media.writes(),
            *self._declared(),
            *self.docket.writes(),
            *self.erasures.writes(),
            *self.exports.writes(),
            *self._told(),
        ]

    def _apart(self) -> list[Statement]:
        if not self._pairs:
            return []
        first, second = zip(*sorted(self._pairs), strict=True)
        return [(SQL["pairs_apart"], (Texts(list(first)), Texts(list(second))))]

    def _counts(self) -> list[Statement]:
        added = sorted((user, n) for user, n in self._added.items() if n)
        if not added:
            return []
        users, counts = zip(*added, strict=True)
        most = str(limits.PUSH_FOLLOWERS_MAX)
        return [(SQL["followers_count"], (Texts(list(users)), Bigints(list(counts)), most, most))]

    def _texts(self) -> list[Statement]:
        found: list[Statement] = []
        if self._versions:
            v = self._versions
            columns = (
                Texts([post.post_id for post in v]),
                Bigints([post.version for post in v]),
                Texts([post.text for post in v]),
                lists([post.media_ids for post in v]),
                Texts([post.visibility for post in v]),
                Bigints([post.edited_at or post.created_at for post in v]),
            )
            found.append((SQL["versions_insert"], columns))
        if self._forgotten:
            found.append((SQL["versions_delete"], (Texts(sorted(self._forgotten)),)))
        return found

    def _declared(self) -> list[Statement]:
        if not self._parts:
            return []
        media_ids, numbers, sizes, sums = (list(column) for column in zip(*self._parts, strict=True))
        columns = (Texts(media_ids), Integers(numbers), Bigints(sizes), Texts(sums))
        return [(SQL["parts_insert"], columns)]

    def _told(self) -> list[Statement]:
        told = [self._notices[key] for key in sorted(self._notices)]
        if not told:
            return []
        columns = (
            Texts([one.notification_id for one in told]),
            Texts([one.user_id for one in told]),
            Texts([one.kind for one in told]),
            Texts([one.actor_id for one in told]),
            Texts([one.post_id for one in told]),
            Bigints([one.created_at for one in told]),
            Texts([one.decision_id for one in told]),
        )
        return [(SQL["notifications_insert"], columns)]
