"""Who sees what, in a few lines of Python: what the service is compared with after every step."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Said:
    """A post."""

    author: str
    visibility: str
    reply_to: str | None = None
    quote_of: str | None = None
    text: str = ""
    has_media: bool = False
    is_deleted: bool = False
    version: int = 1


@dataclass
class Reference:
    """Everything that decides."""

    posts: dict[str, Said] = field(default_factory=dict)
    follows: dict[tuple[str, str], str] = field(default_factory=dict)
    blocks: set[tuple[str, str]] = field(default_factory=set)
    mutes: set[tuple[str, str]] = field(default_factory=set)
    reposts: set[tuple[str, str]] = field(default_factory=set)  # user, post
    likes: set[tuple[str, str]] = field(default_factory=set)  # user, post
    private: set[str] = field(default_factory=set)
    suspended: set[str] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)
    decisions: dict[str, str] = field(default_factory=dict)  # limits and removals in force, by post
    labels: dict[str, dict[str, str]] = field(default_factory=dict)  # by post; of each its decision, the last one last
    changes: Counter[str] = field(default_factory=Counter)  # of a post or user: what makes new URLs of media

    def blocked(self, one: str, other: str) -> bool:
        """Either blocks the other."""
        return (one, other) in self.blocks or (other, one) in self.blocks

    def is_following(self, one: str, other: str) -> bool:
        """A request is no follow."""
        return self.follows.get((one, other)) == "active"

    def is_open(self, post_id: str) -> bool:
        """What its author lets everybody see."""
        post = self.posts[post_id]
        return post.visibility == "public" and post.author not in self.private

    def sees(self, viewer: str, post_id: str) -> bool:
        """The rule."""
        post = self.posts[post_id]
        if post.is_deleted or post.author in self.suspended:
            return False
        if post.author == viewer:
            return True
        if self.decisions.get(post_id) == "remove":
            return False
        if post.visibility == "private" or self.blocked(viewer, post.author):
            return False
        return self.is_open(post_id) or self.is_following(viewer, post.author)

    def seen(self, viewer: str) -> set[str]:
        """All that the viewer sees."""
        return {post_id for post_id in self.posts if self.sees(viewer, post_id)}

    def listed(self, viewer: str) -> set[str]:
        """What search finds, when every post has its words."""
        return {post_id for post_id in self.seen(viewer) if self.decisions.get(post_id) != "limit"}

    def thread(self, viewer: str, post_id: str) -> set[str]:
        """All of the post's thread that the viewer sees."""
        root = self.root(post_id)
        return {other for other in self.seen(viewer) if self.root(other) == root}

    def root(self, post_id: str) -> str:
        """The post that the thread began with."""
        while (above := self.posts[post_id].reply_to) is not None:
            post_id = above
        return post_id

    def counts(self, viewer: str, post_id: str) -> dict[str, int]:
        """What users who are there did, and the replies that the viewer sees."""
        done = {"likes": self.likes, "reposts": self.reposts}
        found = {name: sum(p == post_id and u not in self.suspended for u, p in who) for name, who in done.items()}
        return found | {"replies": sum(self.posts[p].reply_to == post_id for p in self.seen(viewer))}

    def replies(self, viewer: str, post_id: str) -> set[str] | None:
        """The direct answers that the viewer sees; None where nobody ever answered."""
        answers = {other for other, post in self.posts.items() if post.reply_to == post_id}
        return answers & set(self.seen(viewer)) if answers else None

    def own(self, user: str) -> set[str]:
        """What an export has."""
        return {post_id for post_id, post in self.posts.items() if post.author == user and not post.is_deleted}

    def may_bring(self, user: str, post_id: str) -> bool:
        """Whether a user that sees a post may answer, quote or repost it: its author not what was taken down."""
        return self.posts[post_id].author != user or self.decisions.get(post_id) != "remove"

    def is_served(self, post_id: str) -> bool:
        """Whether its media are at any URL."""
        post = self.posts[post_id]
        hidden = post.is_deleted or post.author in self.suspended or self.decisions.get(post_id) == "remove"
        return post.has_media and not hidden

    def access(self, post_id: str) -> int:
        """Rises with all that makes new URLs of a post's media."""
        return self.changes[post_id] + self.changes[self.posts[post_id].author]

    def home(self, viewer: str) -> set[str]:
        """What a home has when fan-out is done."""
        return {post_id for post_id in self.seen(viewer) if self._brought(viewer, post_id)}

    def _brought(self, viewer: str, post_id: str) -> bool:
        author = self.posts[post_id].author
        heard = {
            other
            for (one, other), state in self.follows.items()
            if one == viewer and state == "active" and (viewer, other) not in self.mutes
        }
        reposters = heard - self.suspended
        if author == viewer or author in heard:
            return True
        return (viewer, author) not in self.mutes and any((user, post_id) in self.reposts for user in reposters)

    def decide(self, post_id: str, decision: str, label: str | None, decision_id: str, *, beside: bool) -> None:
        """What is in force afterwards: beside what there was, or instead of it."""
        labels = self.labels.get(post_id, {}) if beside else {}
        self.labels[post_id] = {name: by for name, by in labels.items() if name != label}
        if decision == "label" and label is not None:
            self.labels[post_id][label] = decision_id
        if not beside or label is None:
            self.decisions[post_id] = "none" if decision == "label" else decision

    def follow(self, one: str, other: str) -> None:
        """Follows, or asks."""
        if not self.is_following(one, other):
            self.follows[one, other] = "requested" if other in self.private else "active"

    def block(self, one: str, other: str) -> None:
        """Ends both edges."""
        self.blocks.add((one, other))
        for pair in ((one, other), (other, one)):
            if pair in self.follows:
                self.follows[pair] = "removed"

    def erase(self, user: str) -> None:
        """Takes away what a user made; the posts of others in answer to it stay."""
        self.erased.add(user)
        for post in self.posts.values():
            post.is_deleted |= post.author == user
        for pair in self.follows:
            if user in pair:
                self.follows[pair] = "removed"
        for made in (self.blocks, self.mutes, self.likes, self.reposts):
            made -= {one for one in made if one[0] == user}
        self.private.discard(user)
