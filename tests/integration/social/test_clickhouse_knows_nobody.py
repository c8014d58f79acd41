"""No user is in ClickHouse in clear: every column of every table there is asked, whatever service it is of."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.services import SINKS
from tests.eventually import becomes
from tests.worlds.public_system import public
from tests.worlds.social_system import SocialUser, sharing_a_client

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = pytest.mark.servers
_COLUMNS = "select table, name from system.columns where database = currentDatabase() order by table, position"
#: of a row every column, of whatever type, as its bytes
_LOOK = (
    "select count() from `{}` where multiSearchAnyCaseInsensitive(formatRow('RowBinary', {}), {{words:Array(String)}})"
)
_READ = "select kafka_partition, max(seq) from social_events group by 1"
_COMMITTED = "select partition, max(seq) from outbox where topic = 'events.social.v1' group by 1"


def columns_of(client: Client) -> dict[str, list[str]]:
    """All tables and views of the database."""
    found: dict[str, list[str]] = {}
    for table, name in client.query(_COLUMNS).result_rows:
        found.setdefault(table, []).append(f"`{name}`")
    return found


def holding(client: Client, *words: str) -> set[str]:
    """Those that have one of these anywhere, in any case."""
    asked = {table: _LOOK.format(table, ", ".join(names)) for table, names in columns_of(client).items()}
    given: dict[str, Any] = {"words": list(words)}
    return {table for table, text in asked.items() if client.query(text, given).result_rows != [(0,)]}


def do_all_that_users_do(author: SocialUser, fan: SocialUser, word: str) -> str:
    """With this word in every text that it takes. Returns the id of a post."""
    for user in (author, fan):
        user.read("/v1/me")
    author.do("PATCH", "/v1/me", {"display_name": f"{word} Name", "is_private": True})
    fan.follow(author)
    author.do("POST", f"/v1/follows/requests/{fan.name}/accept")
    author.do("PATCH", "/v1/me", {"is_private": False})
    post_id: str = author.post(f"{word} text @{fan.name}")["post_id"]
    one = f"/v1/posts/{post_id}"
    author.do("PATCH", one, {"text": f"{word} again"}, version=1)
    fan.post(f"{word} reply", reply_to=post_id)
    for reaction in ("likes", "reposts"):
        fan.do("POST", f"{one}/{reaction}")
    for object_id in (author.name, post_id):
        said = {"object_id": object_id, "reason": "other", "comment": f"{word} comment"}
        fan.do("POST", "/v1/moderation/reports", said)
    fan.read("/v1/search", q=word)
    fan.do("POST", "/v1/media/uploads", {"mime": "image/png", "bytes": 9, "sha256": "ab" * 32})
    fan.do("PUT", f"/v1/mutes/{author.name}")
    fan.do("PUT", f"/v1/blocks/{author.name}")
    fan.do("POST", "/v1/me/exports")
    author.do("DELETE", one, version=2)
    fan.do("POST", "/v1/me/erasure", {"confirm": fan.name})
    return post_id


def test_clickhouse_knows_nobody_in_clear(public: PublicSystem) -> None:
    word = f"Planted{uuid.uuid4().hex[:8]}"
    with (
        sharing_a_client(public),
        closing(ClickHouseConnection(url=public.settings.addresses().clickhouse_url).client()) as client,
    ):
        author, fan = SocialUser(public), SocialUser(public)
        post_id = do_all_that_users_do(author, fan, word)
        committed = dict(public.rows(_COMMITTED))

        def is_read() -> bool:
            read = dict(client.query(_READ).result_rows)
            return all(read.get(partition, 0) >= seq for partition, seq in committed.items())

        becomes(is_read, True, 60, what="all that they did is there")
        assert {table.name for sink in SINKS.values() for table in sink.own_tables} <= columns_of(client).keys()
        assert "social_events" in holding(client, post_id)
        assert holding(client, author.name, fan.name, word) == set()
