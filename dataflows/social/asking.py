"""What a batch has to read, collected over its commands: each table once, in one order, locks first."""

from __future__ import annotations

from dataflows.owner.batch import Statement
from dataflows.social.rows import SQL
from sinks.postgres.arrays import Texts

Pair = tuple[str, str]


class Asking:
    """Sets of keys. What nobody asks for is not read."""

    def __init__(self) -> None:
        self.locked: set[str] = set()
        self.authors: set[str] = set()
        self.follows: set[Pair] = set()
        self.blocks: set[Pair] = set()
        self.mutes: set[Pair] = set()
        self.posts: set[str] = set()
        self.seen: set[Pair] = set()  # (viewer, post)
        self.media: set[str] = set()
        self.media_of_posts: set[str] = set()
        self.media_room: set[str] = set()  # of users who upload
        self.targets: set[str] = set()  # what is decided about
        self.cases: set[str] = set()
        self.reportable: set[Pair] = set()  # (viewer, object)
        self.reports: set[Pair] = set()  # (object, user)
        self.erasures: set[str] = set()  # of these users
        self.erasure_ids: set[str] = set()
        self.rulings: set[Pair] = set()  # (decision, appeal), one of them ""
        self.reactions: set[tuple[str, str, str]] = set()  # (kind, user, post)
        self.keys: set[str] = set()  # of users whose texts are sealed

    def lock(self, *users: str) -> None:
        """Users whose rows, edges or counts are changed."""
        self.locked.update(users)
        self.authors.update(users)

    def statements(self) -> list[tuple[str, Statement]]:
        """Name and statement of each query."""
        asked: list[tuple[str, list[tuple[str, ...]]]] = [
            ("authors_lock", [(user,) for user in sorted(self.locked)]),
            ("users_of_rulings", sorted(self.rulings)),
            ("posts_judged", [(one,) for one in sorted(self.targets)]),
            ("media_judged", [(one,) for one in sorted(self.targets)]),
            ("posts_of_rulings", sorted(self.rulings)),
            ("media_of_rulings", sorted(self.rulings)),
            ("authors_read", [(user,) for user in sorted(self.authors)]),
            ("keys_read", [(user,) for user in sorted(self.keys)]),
            ("follows_read", sorted(self.follows)),
            ("blocks_read", sorted(self.blocks)),
            ("mutes_read", sorted(self.mutes)),
            ("posts_read", [(post,) for post in sorted(self.posts)]),
            ("posts_seen", sorted(self.seen)),
            ("reactions_read", sorted(self.reactions)),
            ("media_block_waits", [(media,) for media in sorted(self.media)]),
            ("media_read", [(media,) for media in sorted(self.media)]),
            ("media_removed", [(media,) for media in sorted(self.media)]),
            ("media_blocked", [(media,) for media in sorted(self.media)]),
            ("media_room", [(user,) for user in sorted(self.media_room)]),
            ("media_of_posts", [(post,) for post in sorted(self.media_of_posts)]),
            ("objects_read", [(one, one, one) for one in sorted(self.targets)]),
            ("objects_of_rulings", sorted(self.rulings)),
            ("reportable_read", sorted(self.reportable)),
            ("currents_read", [(one,) for one in sorted(self.targets)]),
            ("cases_of_rulings", sorted(self.rulings)),
            ("labels_read", [(one,) for one in sorted(self.targets)]),
            ("labels_of_rulings", sorted(self.rulings)),
            ("cases_read", [(one,) for one in sorted(self.cases)]),
            ("reports_read", sorted(self.reports)),
            ("rulings_read", sorted(self.rulings)),
            ("appeals_read", sorted(self.rulings)),
            ("erasures_read", [(user,) for user in sorted(self.erasures)]),
            ("erasures_by_id", [(one,) for one in sorted(self.erasure_ids)]),
            ("authors_erased", [(one,) for one in sorted(self.erasure_ids)]),
        ]
        return [
            (name, (SQL[name], tuple(Texts(list(column)) for column in zip(*keys, strict=True))))
            for name, keys in asked
            if keys
        ]
