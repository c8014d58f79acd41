"""The embedded servers as the CLI and the fixture start them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import clickhouse_connect
import psycopg
import pytest
import redis

from sinks.kafka.admin import KafkaAdmin

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
CONFIGURED = "select name, setting from pg_file_settings where sourcefile like '%/postgresql.conf'"


def test_every_server_answers_at_its_address(stack: World) -> None:
    """The addresses that the settings give are those of the servers that were started."""
    with psycopg.connect(stack.addresses.postgres_superuser_dsn) as connection:
        configured = dict(connection.execute(CONFIGURED).fetchall())  # by the stack: the session's tests forgo fsync
        assert configured["fsync"] == configured["full_page_writes"] == "on"
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        rounds = (
            "select distinct split_part(rolpassword, ':', 1) from pg_authid where rolpassword like 'SCRAM-SHA-256$%'"
        )
        assert [kept.partition("$")[2] for (kept,) in connection.execute(rounds)] == ["1"]  # of every role
    with redis.Redis.from_url(stack.addresses.redis_url) as client:
        assert client.ping()
    clickhouse = clickhouse_connect.get_client(dsn=stack.addresses.clickhouse_url)
    assert clickhouse.command("SELECT currentDatabase()") == urlsplit(stack.addresses.clickhouse_url).path.strip("/")
    clickhouse.close()
    kafka = KafkaAdmin(stack.addresses.kafka.admin())
    assert len(kafka.list_topics(timeout=10).brokers) == 1
