"""The rows of one batch: what was read, as the commands so far left it, and what is written in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from dataflows.owner.batch import Statement
from dataflows.social.docket import Docket
from dataflows.social.domain import refusals
from dataflows.social.domain.edge_decisions import followers_added
from dataflows.social.domain.media import Media, Room
from dataflows.social.domain.moderation import Target
from dataflows.social.domain.post_decisions import Seen
from dataflows.social.domain.records import Author, Edge, Post
from dataflows.social.rows import SQL, Held, lists
from dataflows.social.tables import AUTHORS, BLOCKS, ERASURES, EXPORTS, FOLLOWS, MEDIA, MUTES, POSTS, REACTIONS
from schemas import identity
from schemas.records import Rejection
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
        self.media_blocked = {row[0] for row in read("media_blocked")}
        self._room = {user: Room(*rest) for user, *rest in read("media_room")}
        self._parts: list[tuple[str, int, int, str]] = []
        self._seen = {(viewer, post_id): Seen(post_id, *rest) for viewer, post_id, *rest in read("posts_seen")}
        self._versions: list[Post] = []
        self._forgotten: set[str] = set()
        self._added: Counter[str] = Counter()
        self._notices: dict[str, Notice] = {}
        self._named: dict[str, frozenset[str]] = {}  # by post: the users whom all its texts of this batch name
        self._pairs: set[tuple[str, str]] = set()  # of users between whom something changed

    def target(self, object_id: str) -> Target | None:
        """What moderation decides about, in the version that the commands before left."""
        found = self.docket.targets.get(object_id)
        if found is None:
            return None
        now: Post | Media | Author | None
        if found.kind == "post":
            now = self.posts.get(object_id)
        else:
            now = self.media.get(object_id) if found.kind == "media" else self.authors.get(object_id)
        return found if now is None else structs.replace(found, version=now.version)

    def have_met(self, user: str, other: str) -> bool:
        """Whether the other is there for the user: active, and no block between them, as of now; as social_met says."""
        found = self.authors.get(other)
        return found is not None and found.state == "active" and not self._is_blocked(user, other)

    def _is_blocked(self, user: str, other: str) -> bool:
        """Whether a block that is known stands between both."""
        between = (self.blocks.get((user, other)), self.blocks.get((other, user)))
        return any(edge is not None and edge.state == "active" for edge in between)

    def seen(self, viewer: str, post_id: str) -> Seen | Rejection:
        """The post, if the viewer may see it after the commands before; DELETED for an own one that is deleted."""
        found = self._as_it_is(viewer, post_id)
        if found is None:
            return refusals.NO_POST
        if found.state == "deleted":
            return refusals.DELETED if found.author_id == viewer else refusals.NO_POST
        return found if found.author_id == viewer or self._is_left(viewer, found) else refusals.NO_POST

    def _as_it_is(self, viewer: str, post_id: str) -> Seen | None:
        """What was read of it, with what the commands before made of the post, its author and who follows whom."""
        found, post = self._seen.get((viewer, post_id)), self.posts.get(post_id)
        if found is None and post is not None and post.author_id == viewer:
            found = Seen(
                post_id, viewer, post.root_id, post.state, post.visibility, is_private=False, is_followed=False
            )
        if found is None:
            return None
        if post is not None:
            found = structs.replace(found, state=post.state, visibility=post.visibility)
        if author := self.authors.get(found.author_id):
            found = structs.replace(found, is_private=author.is_private)
        if decided := self.docket.currents.get(post_id):
            found = structs.replace(found, is_removed=decided.effect == "remove")
        if edge := self.follows.get((viewer, found.author_id)):
            found = structs.replace(found, is_followed=edge.state == "active")
        return found

    def _is_left(self, viewer: str, found: Seen) -> bool:
        """Whether none of the commands before took another's post out of the viewer's sight.

        The rule itself is ``social_sees``: this takes away, and never gives.
        """
        author, decided = self.authors.get(found.author_id), self.docket.currents.get(found.post_id)
        is_hidden = (
            (author is not None and author.state != "active")
            or (decided is not None and decided.effect == "remove")
            or self._is_blocked(viewer, found.author_id)
        )
        return not is_hidden and found.reaches_reader

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

    def keep_mentions(self, post_id: str, named: frozenset[str]) -> None:
        """Takes back what all others were told of being mentioned in the post; told again later it is news, once."""
        self._named[post_id] = self._named.get(post_id, named) & named
        for key, one in list(self._notices.items()):
            if (one.kind, one.post_id) == ("mention", post_id) and one.user_id not in named:
                del self._notices[key]

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
            *self._taken_back(),
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

    def _taken_back(self) -> list[Statement]:
        if not self._named:
            return []
        pairs = sorted((post_id, user) for post_id, named in self._named.items() for user in named)
        columns = (
            Texts(sorted(self._named)),
            Texts([post_id for post_id, _ in pairs]),
            Texts([user for _, user in pairs]),
        )
        return [(SQL["mentions_delete"], columns)]

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
