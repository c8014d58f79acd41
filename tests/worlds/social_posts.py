"""Posts that are put into the database, some of them hidden, and walks over lists that show the others."""

from __future__ import annotations

import itertools
import random
import time
from typing import TYPE_CHECKING

from tests.gate import RUN_SEED, examples

if TYPE_CHECKING:
    import psycopg

    from tests.worlds.social_system import SocialUser

OTHERS_SEE, PAGE_MAX = ("public", "followers"), examples(gate=20, proof=100)
_PLANTED_POSTS = """
insert into post (post_id, author_id, visibility, text, version, state, media_ids, reply_to, root_id, is_pushed, created_at)
select t.post_id, %(author)s, t.visibility, %(word)s, 1, 'published', '{}', %(root)s, %(root)s, t.is_pushed, t.at
from unnest(%(ids)s::text[], %(visibilities)s::text[], %(pushed)s::bool[], %(times)s::bigint[])
     as t (post_id, visibility, is_pushed, at)
"""


class Planted:
    """Posts of one author, in the database before anybody asks: of some pages none is hidden, of others all."""

    def __init__(self, connection: psycopg.Connection, author: str, root: str, count: int) -> None:
        self.word = f"walk{author}"
        self._connection, self._author, self._root, self._chance = connection, author, root, random.Random(RUN_SEED)
        self._at, self._newer = time.time_ns() // 1_000, itertools.count(count)
        hidden = [(0.0, 1.0, 0.5, 0.1, 0.9)[n // 15 % 5] for n in range(count)]
        self.visibilities = {
            f"po_{self.word}{n:06}": "private" if self._chance.random() < share else self._chance.choice(OTHERS_SEE)
            for n, share in enumerate(hidden)
        }
        pushed = [self._chance.random() < 0.5 for _ in range(count)]
        self._insert(self.visibilities, pushed, [self._at + n // 3 for n in range(count)])

    def _insert(self, visibilities: dict[str, str], pushed: list[bool], times: list[int]) -> None:
        said = {"author": self._author, "word": self.word, "root": self._root, "ids": list(visibilities)}
        more = {"visibilities": list(visibilities.values()), "pushed": pushed, "times": times}
        self._connection.execute(_PLANTED_POSTS, said | more)

    def one_more(self) -> None:
        """The newest of all, for everybody; nobody's walk has to meet it."""
        n = next(self._newer)
        self._insert({f"po_{self.word}{n:06}": "public"}, [False], [self._at + n])

    def walked(self, user: SocialUser, path: str, **params: str) -> list[str]:
        """A list to its end in pages of any size, while there are more and more: those that were there before."""
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = user.read(
                path, limit=self._chance.randint(5, PAGE_MAX), **params, **({"cursor": cursor} if cursor else {})
            )
            found += [one["post_id"] for one in page["data"]]
            cursor = page["next_cursor"]
            self.one_more()
        assert len(found) == len(set(found)), path
        return [one for one in found if one in self.visibilities]
