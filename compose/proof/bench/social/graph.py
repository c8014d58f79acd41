"""A social network to measure in, written into the tables at once: who follows whom, and what they have posted.

The graph is that of a file (two numbers a line, mutual: SNAP's musae-github as it is published), or one that grows by
preferential attachment, so that few have many followers as in real ones.
"""

from __future__ import annotations

import csv
import gzip
import random
from collections import Counter
from typing import TYPE_CHECKING, Final

from schemas.social import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import psycopg

_USERS: Final = 20_000  # of a graph that is made
_LINKS: Final = 8  # of each of them with earlier ones
_BEGAN_US: Final = 1_700_000_000_000_000
_POSTS: Final = """
insert into post (post_id, author_id, visibility, text, version, state, root_id, is_pushed, created_at)
select 'po_bench' || lpad(n::text, 12, '0'), a.user_id, 'public', 'A post about ' || md5((n %% 1000)::text), 1,
       'published', 'po_bench' || lpad(n::text, 12, '0'), not a.is_pulled, %(began)s + n::bigint * 1000
from generate_series(0, %(count)s - 1) as n
join author a on a.user_id = 'u_bench' || (n::bigint * 2654435761 %% %(users)s)
"""


def edges(path: Path | None) -> list[tuple[int, int]]:
    """Pairs that follow each other."""
    if path is None:
        return _grown()
    with gzip.open(path, "rt") as file:
        return [(int(one), int(other)) for one, other in csv.reader(file) if one.isdigit()]


def _grown() -> list[tuple[int, int]]:
    chance = random.Random(0)
    ends, found = [0], []
    for user in range(1, _USERS):
        others = {chance.choice(ends) for _ in range(_LINKS)}
        found += [(other, user) for other in others]
        ends += [user, *others]
    return found


def name_of(number: int) -> str:
    """A user of the graph."""
    return f"u_bench{number}"


def load_graph(connection: psycopg.Connection, pairs: list[tuple[int, int]], posts: int) -> int:
    """Users, edges, and posts of all users in turn; returns how many users there are.

    What was written is vacuumed and on disk then, as of a network that has been there: no read pays for the load.
    """
    followers = Counter(user for pair in pairs for user in pair)
    users = max(followers) + 1
    load_users(connection, ((name_of(n), followers[n]) for n in range(users)))
    load_follows(connection, ((name_of(one), name_of(other)) for pair in pairs for one, other in (pair, pair[::-1])))
    connection.execute(_POSTS, {"began": _BEGAN_US, "count": posts, "users": users})
    connection.execute("vacuum (analyze) author, follow, post, block, mute, reaction, moderation_current")
    connection.execute("checkpoint")
    return users


def load_users(connection: psycopg.Connection, users: Iterable[tuple[str, int]], pushed_max: int = 0) -> None:
    """Users with so many followers; whose are more than are pushed, is pulled."""
    most = pushed_max or limits.PUSH_FOLLOWERS_MAX
    _copy(
        connection,
        "copy author (user_id, followers, is_pulled) from stdin",
        (f"{name}\t{count}\t{'t' if count > most else 'f'}\n" for name, count in users),
    )


def load_follows(connection: psycopg.Connection, follows: Iterable[tuple[str, str]]) -> None:
    """Edges, active."""
    _copy(
        connection,
        "copy follow (follower_id, followee_id, state, version, created_at, updated_at) from stdin",
        (f"{one}\t{other}\tactive\t1\t{_BEGAN_US}\t{_BEGAN_US}\n" for one, other in follows if one != other),
    )


def _copy(connection: psycopg.Connection, statement: str, lines: Iterator[str]) -> None:
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for line in lines:
            copy.write(line)
