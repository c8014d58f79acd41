"""Who sees what, in a few lines of Python: what the service is compared with after every step."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Said:
    """A post."""

    author: str
    visibility: str
    reply_to: str | None = None
    quote_of: str | None = None
    is_deleted: bool = False


@dataclass
class Reference:
    """Everything that decides."""

    posts: dict[str, Said] = field(default_factory=dict)
    follows: dict[tuple[str, str], str] = field(default_factory=dict)
    blocks: set[tuple[str, str]] = field(default_factory=set)
    mutes: set[tuple[str, str]] = field(default_factory=set)
    reposts: set[tuple[str, str]] = field(default_factory=set)  # user, post
    private: set[str] = field(default_factory=set)

    def blocked(self, one: str, other: str) -> bool:
        return (one, other) in self.blocks or (other, one) in self.blocks

    def is_following(self, one: str, other: str) -> bool:
        return self.follows.get((one, other)) == "active"

    def is_open(self, post_id: str) -> bool:
        post = self.posts[post_id]
        return post.visibility == "public" and post.author not in self.private

    def sees(self, viewer: str, post_id: str) -> bool:
        post = self.posts[post_id]
        if post.is_deleted or post.author == viewer:
            return not post.is_deleted
        if post.visibility == "private" or self.blocked(viewer, post.author):
            return False
        return self.is_open(post_id) or self.is_following(viewer, post.author)

    def seen(self, viewer: str) -> set[str]:
        return {post_id for post_id in self.posts if self.sees(viewer, post_id)}

    def home(self, viewer: str) -> set[str]:
        return {post_id for post_id in self.seen(viewer) if self._brought(viewer, post_id)}

    def _brought(self, viewer: str, post_id: str) -> bool:
        author = self.posts[post_id].author
        heard = {
            other
            for (one, other), state in self.follows.items()
            if one == viewer and state == "active" and (viewer, other) not in self.mutes
        }
        if author == viewer or author in heard:
            return True
        return (viewer, author) not in self.mutes and any((user, post_id) in self.reposts for user in heard)

    def follow(self, one: str, other: str) -> None:
        if not self.is_following(one, other):
            self.follows[one, other] = "requested" if other in self.private else "active"

    def block(self, one: str, other: str) -> None:
        self.blocks.add((one, other))
        for pair in ((one, other), (other, one)):
            if pair in self.follows:
                self.follows[pair] = "removed"
