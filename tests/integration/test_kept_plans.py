"""What a session is asked again and again is kept at the server, and answers whatever becomes of what was kept."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ingress.http.store import Store
from sinks import limits
from sinks.postgres.kept_plans import KeptPlansConnection
from sinks.postgres.numbered_text import NumberedText
from tests.integration.tenancy.test_pooled_contexts import pooled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.servers import World

__all__ = ["pooled"]  # the fixtures of this module
pytestmark = pytest.mark.servers
OFTEN = limits.PLAN_KEPT_AFTER + 2
_SAID = NumberedText("select %(said)s || '!', 100 %% 7")
_READ = NumberedText("select * from kept_plans_read where id = %(id)s::int")


@asynccontextmanager
async def session(dsn: str) -> AsyncIterator[KeptPlansConnection]:
    connection = await KeptPlansConnection.connect(dsn, autocommit=True)
    try:
        yield connection
    finally:
        await connection.close()


async def rows(connection: KeptPlansConnection, text: NumberedText, times: int = OFTEN, **given: Any) -> list[Any]:
    """What it says each time, when it is the same."""
    found = [(await connection.plans.asked(text, given))[1] for _ in range(times)]
    assert all(one == found[0] for one in found)
    return found[0]


async def kept(connection: KeptPlansConnection) -> int:
    found = await (await connection.execute("select count(*) from pg_prepared_statements")).fetchall()
    return int(found[0][0])


def test_a_statement_is_prepared_once_for_all_types_of_its_parameters(stack: World) -> None:
    async def ask() -> None:
        async with session(stack.addresses.postgres_superuser_dsn) as connection:
            assert (await rows(connection, _SAID, 1, said="a"), await kept(connection)) == ([("a!", 2)], 0)
            assert await rows(connection, _SAID, said="b") == [("b!", 2)]
            assert await kept(connection) == 1
            assert await rows(connection, NumberedText("select %(n)s + 1"), n=1) == [(2,)]
            assert await rows(connection, NumberedText("select %(n)s + 1"), n=2**40) == [(2**40 + 1,)]
            assert await rows(connection, _SAID, said="c") == [("c!", 2)]
            assert await kept(connection) == 3, "two of the numbers, and one of the texts"

    asyncio.run(ask())


def test_what_is_kept_has_a_bound_and_the_one_asked_longest_ago_goes(stack: World) -> None:
    async def ask() -> None:
        async with session(stack.addresses.postgres_superuser_dsn) as connection:
            for n in range(limits.PLANS_KEPT_MAX + 20):
                assert await rows(connection, NumberedText(f"select %(said)s || '{n}'"), said="a") == [(f"a{n}",)]
                await rows(connection, _SAID, 1, said="a")
            assert await kept(connection) <= limits.PLANS_KEPT_MAX
            first = NumberedText("select statement from pg_prepared_statements order by prepare_time limit 1")
            assert await rows(connection, first, 1) == [(_SAID.query.decode(),)], "asked all the time, it never went"

    asyncio.run(ask())


@pytest.mark.parametrize("lost", ["discard all", "deallocate all"])
def test_a_session_that_lost_what_it_kept_answers_and_keeps_it_again(stack: World, lost: str) -> None:
    async def ask() -> None:
        async with session(stack.addresses.postgres_superuser_dsn) as connection:
            await rows(connection, _SAID, said="a")
            assert await kept(connection) == 1
            await connection.execute(lost.encode())
            assert await kept(connection) == 0
            assert await rows(connection, _SAID, said="b") == [("b!", 2)]
            assert await kept(connection) == 1

    asyncio.run(ask())


def test_a_session_that_loses_them_again_and_again_keeps_none(stack: World) -> None:
    async def ask() -> None:
        async with session(stack.addresses.postgres_superuser_dsn) as connection:
            for _ in range(limits.PLANS_LOST_MAX):
                await rows(connection, _SAID, said="a")
                assert await kept(connection) == 1, "ours, and none of the driver's own"
                await connection.execute("deallocate all")
            assert await rows(connection, _SAID, said="b") == [("b!", 2)], "the last that it lost"
            assert await rows(connection, _SAID, said="c") == [("c!", 2)]
            assert await kept(connection) == 0, "each call would cost another round trip for nothing"

    asyncio.run(ask())


def test_a_migration_that_changes_what_a_kept_statement_reads_is_followed(stack: World) -> None:
    async def ask() -> None:
        async with session(stack.addresses.postgres_superuser_dsn) as connection:
            await connection.execute("create table kept_plans_read (id int, said text)")
            try:
                await connection.execute("insert into kept_plans_read values (1, '7')")
                assert await rows(connection, _READ, id=1) == [(1, "7")]
                await connection.execute("alter table kept_plans_read alter said type bigint using said::bigint")
                assert await rows(connection, _READ, id=1) == [(1, 7)]
                await connection.execute("alter table kept_plans_read add more text default 'new'")
                assert await rows(connection, _READ, id=1) == [(1, 7, "new")]
            finally:
                await connection.execute("drop table kept_plans_read")
            with pytest.raises(psycopg.errors.UndefinedTable):
                await rows(connection, _READ, id=1)
            assert await rows(connection, _SAID, said="a") == [("a!", 2)]

    asyncio.run(ask())


def test_an_error_is_that_of_the_statement_and_the_next_call_is_answered(stack: World) -> None:
    async def ask() -> None:
        async with session(stack.addresses.postgres_superuser_dsn) as connection:
            divided = NumberedText("select 1 / %(by)s::int")
            for _ in range(OFTEN):
                with pytest.raises(psycopg.errors.DivisionByZero):
                    await connection.plans.asked(divided, {"by": 0})
                assert await rows(connection, divided, 1, by=1) == [(1,)]
            await connection.execute("set statement_timeout = 50")
            with pytest.raises(psycopg.errors.QueryCanceled):
                await rows(connection, NumberedText("select pg_sleep(%(s)s::int)"), s=60)
            assert await rows(connection, divided, 1, by=1) == [(1,)]

    asyncio.run(ask())


def test_a_store_whose_sessions_all_ended_answers_on_new_ones(stack: World) -> None:
    async def ask() -> None:
        store = Store(stack.addresses.postgres_dsns["millrace_ingress"], pool_max=2)
        await store.open()
        try:
            for _ in range(2):
                for _ in range(OFTEN):
                    assert (
                        await store.rows("author_seen", {"user_id": "u_nobody_here", "viewer": "u_nobody_here"}) == []
                    )
                with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as superuser:
                    superuser.execute(
                        "select pg_terminate_backend(pid) from pg_stat_activity"
                        " where application_name = 'millrace-ingress' and datname = current_database()"
                    )
        finally:
            await store.close()

    asyncio.run(ask())


def test_behind_a_pooler_that_keeps_no_statements_every_call_is_answered(stack: World, pooled: str) -> None:
    """Sixteen callers share four sessions of the server: each of them prepares in one, and asks in another."""
    texts = [NumberedText(f"select %(said)s || '{n}', pg_backend_pid()") for n in range(8)]

    async def call(caller: int) -> set[int]:
        async with session(pooled) as connection:
            sessions: set[int] = set()
            for n in range(60):
                _, ((said, pid),) = await connection.plans.asked(texts[(caller + n) % 8], {"said": f"{caller}:"})
                assert said == f"{caller}:{(caller + n) % 8}"
                sessions.add(pid)
            return sessions

    async def ask() -> set[int]:
        return set.union(*await asyncio.gather(*map(call, range(16))))

    assert 1 < len(asyncio.run(ask())) <= 4, "callers have to share sessions, or this proves nothing"
