"""Whoever stands still within a transaction is ended by Postgres, or who takes over would wait for its locks for ever."""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from dataflows.payments.attempts import dispatch_store
from dataflows.payments.merchant_webhooks import store as delivery_store
from dataflows.payments.webhooks import inbox_store
from dataflows.social.fanout import worker as fan_out
from dataflows.tenancy.billing import invoicing
from dataflows.tenancy.mover import worker as mover
from schemas.tenancy import limits as tenancy_limits
from sinks import limits
from sinks.postgres.lasting_session import LastingSession
from sinks.postgres.session import AsyncSession, Session
from sinks.streams import positions
from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
SESSIONS = {
    "streams": positions.SESSION,
    "attempts": dispatch_store._SESSION,
    "merchant webhooks": delivery_store._SESSION,
    "webhooks": inbox_store._SESSION,
    "fan-out": fan_out._SESSION,
    "lasting": LastingSession("any", "")._options,
}
ROOT: Final = Path(__file__).parents[2]
#: whose every session has the bound, be it one of a moment
HELD_BY_NONE: Final = ("dataflows", "compose/isolation", "sinks/clickhouse", "sinks/streams")
ONLY_READS: Final = "sinks/streams/stand_by.py"
CONNECTS: Final = ("psycopg.connect", "Session.connect", "ConnectionPool")
BOUNDS: Final = {"NOT_HELD", "SESSION", "_SESSION"}
_IN_A_TRANSACTION: Final = (
    "with connection.transaction(): connection.execute('select pg_advisory_xact_lock(9)'); stop()"
)
_OUTSIDE_OF_ONE: Final = "connection.execute('select pg_advisory_lock(9)'); stop()"
#: a process that stands still as soon as it has what others want; when it goes on, its work begins again
STANDS_STILL: Final = """
import os, signal, sys
from sinks.postgres.lasting_session import LastingSession

session = LastingSession("still", sys.argv[1], retry_s=0.1, held_ms=300, idle_ms={idle_ms})
tries = []

def stop():
    print("stands", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

def work(connection):
    tries.append(1)
    if len(tries) == 1:
        {takes}
        connection.execute("select 1")
    print("again", flush=True)
    session.stop()

session.run(work)
"""


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_that_does_nothing_in_a_transaction_is_ended(stack: World, name: str) -> None:
    shown = "select setting::int from pg_settings where name = 'idle_in_transaction_session_timeout'"
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, options=SESSIONS[name]) as connection:
        row = connection.execute(shown).fetchone()
    assert row is not None
    assert 0 < row[0] <= limits.IDLE_IN_TRANSACTION_TIMEOUT_MS


@pytest.mark.faults
@pytest.mark.parametrize(
    ("takes", "idle_ms"), [(_IN_A_TRANSACTION, 0), (_OUTSIDE_OF_ONE, 300)], ids=["in a transaction", "outside of one"]
)
def test_a_stopped_process_holds_nothing_from_who_takes_over(stack: World, takes: str, idle_ms: int) -> None:
    """SIGSTOP where it has a lock; another gets it. When it goes on it hears of that, and begins again."""
    dsn = stack.addresses.postgres_superuser_dsn
    code = STANDS_STILL.format(takes=takes, idle_ms=idle_ms)
    with subprocess.Popen([sys.executable, "-c", code, dsn], cwd=ROOT, stdout=subprocess.PIPE, text=True) as stopped:
        try:
            assert stopped.stdout is not None
            assert stopped.stdout.readline() == "stands\n"
            with psycopg.connect(dsn, autocommit=True) as another:
                taken = "select pg_try_advisory_lock(9)"
                eventually(lambda: another.execute(taken).fetchone() == (True,), what="the lock is another's")
            os.kill(stopped.pid, signal.SIGCONT)
            said, _ = stopped.communicate(timeout=patient(30))
            assert (said.splitlines()[-1], stopped.returncode) == ("again", 0)
        finally:
            stopped.kill()


def test_a_mover_that_stands_still_is_ended_after_what_it_does_elsewhere_meanwhile(stack: World) -> None:
    shown = "select name, setting::int from pg_settings where name like 'idle%%session_timeout'"
    options = mover.session("")._options
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, options=options) as connection:
        bounds = dict(connection.execute(shown).fetchall())
    assert bounds == {
        "idle_in_transaction_session_timeout": tenancy_limits.MOVER_HELD_MS,
        "idle_session_timeout": tenancy_limits.MOVER_IDLE_SESSION_MS,
    }
    assert bounds["idle_in_transaction_session_timeout"] > tenancy_limits.MOVER_STATEMENT_TIMEOUT_MS


def test_who_makes_an_invoice_and_stands_still_is_away_as_after_an_outage(stack: World) -> None:
    dsn = stack.addresses.postgres_dsns["millrace_tenancy_metering"]
    with invoicing.connected(dsn, "invoices") as connection:
        (held,) = connection.execute("show idle_in_transaction_session_timeout").fetchone() or ("",)
        assert held == f"{limits.IDLE_IN_TRANSACTION_TIMEOUT_MS // 1_000}s"
        connection.execute("set idle_in_transaction_session_timeout = 100")
        connection.execute("begin")
        there = ("select 1 from pg_stat_activity where pid = %s", (connection.info.backend_pid,))
        with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as superuser:
            eventually(lambda: superuser.execute(*there).fetchone() is None, what="its session is ended")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


@pytest.mark.parametrize("folder", HELD_BY_NONE)
def test_no_session_is_without_the_bound_and_each_that_it_ended_is_away(folder: str) -> None:
    """Every connection that is made there is a Session, given options that have the bound (looked at above)."""
    read_only = ROOT / ONLY_READS
    made = [
        (path, ast.unparse(call.func), {word.arg: ast.unparse(word.value) for word in call.keywords})
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != read_only
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(CONNECTS)
    ]
    assert made
    for path, connects, given in made:
        if connects.endswith("Pool"):
            assert given["connection_class"] in {"Session", "AsyncSession"}, path
            assert "'options': _SESSION" in given["kwargs"], path
        else:
            assert connects == "Session.connect", path
            assert given["options"] in BOUNDS, path


@pytest.mark.parametrize("bound", ["idle_in_transaction_session_timeout", "transaction_timeout"])
def test_a_session_that_its_bound_ended_is_away(stack: World, bound: str) -> None:
    """psycopg tells an error of another kind, which who waits for Postgres would not expect."""
    dsn = stack.addresses.postgres_superuser_dsn
    there = "select 1 from pg_stat_activity where pid = %s"

    async def asynchronous(asked: psycopg.Connection) -> None:
        async with await AsyncSession.connect(dsn, autocommit=True, options=f"-c {bound}=100") as session:
            await session.execute("begin")
            pid = session.info.backend_pid
            await asyncio.to_thread(
                eventually, lambda: asked.execute(there, (pid,)).fetchone() is None, what="it is ended"
            )
            with pytest.raises(psycopg.OperationalError):
                await session.execute("select 1")

    with psycopg.connect(dsn, autocommit=True) as asked:
        with Session.connect(dsn, autocommit=True, options=f"-c {bound}=100") as session:
            session.execute("begin")
            pid = session.info.backend_pid
            eventually(lambda: asked.execute(there, (pid,)).fetchone() is None, what="it is ended")
            with pytest.raises(psycopg.OperationalError):
                session.execute("select 1")
        asyncio.run(asynchronous(asked))
