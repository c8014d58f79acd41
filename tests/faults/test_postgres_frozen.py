"""Postgres stops and says nothing: callers hear so in time, and find out with the same identity when it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest

from compose.stack.processes import descendants, send
from compose.supervise.launch import world
from compose.supervise.state import read_state
from ingress import limits
from ingress.http.store import Store
from schemas.errors import DependencyTimeout
from sinks.postgres.hang_up import NoAnswer
from tests import servers
from tests.eventually import becomes
from tests.freezing import freeze
from tests.worlds.public_system import PublicSystem, no_processes_but
from vault import limits as vault_limits
from vault import store as vault_store
from vault.store import VaultStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.faults, pytest.mark.timeout(300)]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[PublicSystem]:
    changes = {"services": ("ingress", "owner"), "ingress_processes": 1, "worker_processes": no_processes_but()}
    elsewhere = servers.without("clickhouse") | servers.kafka_of_the_run("frozen")
    with servers.own_servers(tmp_path / "home", servers_only=False, **changes, **elsewhere) as settings:
        state = read_state(settings.the_home())
        assert state is not None
        yield PublicSystem(settings, world(settings, state)["base_url"])


@contextmanager
def frozen_postgres(system: PublicSystem) -> Iterator[None]:
    """With all its sessions; what connects meanwhile waits in the backlog of its socket."""
    state = read_state(system.settings.the_home())
    assert state is not None
    (server,) = [one.process for one in state.processes if one.name == "postgres"]
    assert server is not None
    stopped = [server, *descendants(server)]
    for process in stopped:
        freeze(process.pid)
    try:
        yield
    finally:
        for process in stopped:
            send(process, signal.SIGCONT)


def test_calls_are_answered_and_the_same_identity_finds_out(system: PublicSystem) -> None:
    with system.merchant().http as http:
        _asked_while_postgres_is_frozen(system, http)


def _asked_while_postgres_is_frozen(system: PublicSystem, http: httpx.Client) -> None:
    payload = {"amount": 100, "currency": "USD"}
    made = http.post("/v1/payment_intents", json=payload, headers={"Idempotency-Key": uuid.uuid4().hex})
    before = made.json()["result"]["id"]
    envelope = {"idempotency_key": uuid.uuid4().hex, "payload": payload}
    with frozen_postgres(system):
        # the caller's wait is over before the database is taken to be stopped
        bounded = {"headers": {"Prefer": "wait=2"}, "timeout": limits.STORE_ANSWER_S - 2}
        waited = http.post("/v1/payment_intents", json=envelope, **bounded)
        assert waited.status_code in {202, 503}, waited.text
        read = http.get(f"/v1/payment_intents/{before}", timeout=3 * limits.STORE_ANSWER_S)
        assert (read.status_code, read.json()["code"]) == (503, "unavailable"), read.text
        assert "Retry-After" in read.headers
    becomes(lambda: http.post("/v1/payment_intents", json=envelope).status_code, 201, 90)
    assert http.get(f"/v1/payment_intents/{before}").status_code == 200


def test_a_session_that_says_nothing_is_hung_up_and_replaced(
    stack: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "asks_who" / "queries"
    folder.mkdir(parents=True)
    (folder / "who.sql").write_text("-- Whose session it is.\nselect pg_backend_pid()\n")
    (tmp_path / "asks_who" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(limits, "STORE_ANSWER_S", 0.5)
    store = Store(stack.addresses.postgres_superuser_dsn, packages=("asks_who",), pool_max=1)
    of_one_moment = partial(store.snapshot, ("select pg_backend_pid()", ()))
    asyncio.run(_asked_while_frozen(store, partial(store.rows, "who", {}), of_one_moment))


def test_so_is_a_session_of_the_vault(stack: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STORE_ANSWER_S", 0.5)
    monkeypatch.setattr(vault_limits, "VAULT_POSTGRES_POOL_MAX", 1)
    monkeypatch.setattr(vault_store, "query", lambda _: "select pg_backend_pid()")
    store = VaultStore(stack.addresses.postgres_superuser_dsn)
    asyncio.run(_asked_while_frozen(store, partial(store.rows, "who", {})))


async def _asked_while_frozen(store: Store | VaultStore, *asks: Callable[[], Awaitable[object]]) -> None:
    await store.open()
    try:
        for ask in asks:
            ((pid,),) = await store.rows("who", {})
            freeze(pid)
            try:
                with pytest.raises(DependencyTimeout) as told:
                    await ask()
                assert isinstance(told.value.__cause__, NoAnswer)
            finally:
                os.kill(pid, signal.SIGCONT)
            assert (await store.rows("who", {})) != [(pid,)]
    finally:
        await store.close()
