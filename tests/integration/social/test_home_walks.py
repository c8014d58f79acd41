"""The statement of a home walks whom its reader follows and mutes once, however many candidates it judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.social.test_social_rule import planted, rows_read, text_of

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
_EDGES = "insert into follow (follower_id, followee_id, state, version, created_at, updated_at)"
_POSTS = """insert into post (post_id, author_id, visibility, text, version, state, root_id, is_pushed, created_at)"""
#: somebody who follows 300, mutes 100 of them and 100 others; the followed have 10 posts each, of which half are pulled
_FOLLOWED = (
    "insert into author (user_id) select 'u_' || n from generate_series(1, 400) n",
    "insert into author (user_id) values ('u_home')",
    f"{_EDGES} select 'u_home', 'u_' || n, 'active', 1, 0, 0 from generate_series(1, 300) n",
    "insert into mute (user_id, target_id, state, version, created_at, updated_at)"
    " select 'u_home', 'u_' || n, 'active', 1, 0, 0 from generate_series(201, 400) n",
    f"{_POSTS} select 'po_' || n, 'u_' || n % 300 + 1, 'public', '', 1, 'published', 'po_' || n, n % 2 = 0, 30000 - n"
    " from generate_series(1, 3000) n",
    "analyze",
)


def test_a_home_walks_once_whom_its_reader_follows_and_mutes(stack: World) -> None:
    pushed = list(range(2, 50, 2))
    page = {"viewer": "u_home", "at": 2**62, "id": "", "count": 24, "since": 30_000 - pushed[-1]}
    asked = page | {"times": [30_000 - n for n in pushed], "ids": [f"po_{n}" for n in pushed]}
    with planted(stack, *_FOLLOWED) as connection:
        found = connection.execute(text_of("timeline_home").encode(), asked).fetchall()
        assert [(row[5], row[2]) for row in found] == [(f"po_{n}", True) for n in range(1, 25)]
        assert rows_read(connection, text_of("timeline_home"), asked, "follow") <= 300
        assert rows_read(connection, text_of("timeline_home"), asked, "mute") <= 200
        muting = "update mute set target_id = 'u_2' where target_id = 'u_400'"  # the author of po_1
        connection.execute(muting.encode())
        found = connection.execute(text_of("timeline_home").encode(), asked).fetchall()
        assert [row[5] for row in found if not row[2]] == []
        assert [row[5] for row in found if row[2]] == [f"po_{n}" for n in range(2, 26)]


#: whoever has ended what is said, and who has not; each has a pushed post and a pulled one
_ENDED = (
    "insert into author (user_id) select unnest(array['u_home', 'u_follows', 'u_left', 'u_heard', 'u_muted', 'u_blocks',"
    " 'u_blocked', 'u_unblocked'])",
    f"{_EDGES} select 'u_home', user_id, case user_id when 'u_left' then 'removed' else 'active' end, 1, 0, 0"
    " from author where user_id <> 'u_home' and user_id ~ '^u_[a-z]+$'",
    *(
        f"insert into {table} (user_id, target_id, state, version, created_at, updated_at) values {values}"
        for table, values in (
            ("mute", "('u_home', 'u_heard', 'removed', 2, 0, 0), ('u_home', 'u_muted', 'active', 1, 0, 0)"),
            ("block", "('u_blocks', 'u_home', 'active', 1, 0, 0), ('u_home', 'u_blocked', 'active', 1, 0, 0)"),
            ("block", "('u_home', 'u_unblocked', 'removed', 2, 0, 0)"),
        )
    ),
    f"{_POSTS} select kind || user_id, user_id, 'public', '', 1, 'published', kind || user_id, kind = 'pushed:', 1"
    " from author cross join unnest(array['pushed:', 'pulled:']) kind where user_id ~ '^u_[a-z]+$'",
)


def test_what_was_ended_counts_no_more_and_what_was_not_still_does(stack: World) -> None:
    """Of all that is in a home, and of all that is pulled into it."""
    users = ["u_follows", "u_left", "u_heard", "u_muted", "u_blocks", "u_blocked", "u_unblocked"]
    asked = {"viewer": "u_home", "at": 2**62, "id": "", "count": 24, "since": -1}
    with planted(stack, *_ENDED) as connection:
        given = {"times": [1] * len(users), "ids": [f"pushed:{user}" for user in users]}
        found = connection.execute(text_of("timeline_home").encode(), asked | given).fetchall()
        shown = {row[5] for row in found if row[2]}
    seen = {"u_home", "u_follows", "u_heard", "u_unblocked"}
    assert shown == {f"{kind}:{user}" for user in seen for kind in ("pushed", "pulled")}
