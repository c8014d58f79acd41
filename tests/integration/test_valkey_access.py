"""Valkey lets each kind of process do what is declared for it with its keys, and nobody else do anything."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import subprocess
from importlib import resources
from typing import TYPE_CHECKING, Final

import pytest
import redis
from typer.testing import CliRunner

from compose.cli import app
from compose.settings.service_processes import WORKERS
from compose.settings.valkey_access import ACCESS, KINDS, users
from compose.stack.ports import PortLeases
from compose.stack.valkey import Valkey
from limiter.policy.level import level_of
from limiter.store.shard_server import connected
from limiter.store.store import CounterStore, StoreUnavailable
from limiter.store.stored_bucket import bucket_of
from sinks.redis.homes import HomeWriter
from sinks.redis.rules import differences
from sinks.redis.user import url_as, user_name
from tests.eventually import eventually
from tests.worlds.limiter.counter_server import PATIENT_S, policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.servers
COUNTER, VELOCITY, HOME = "rl:{a}:b", "millrace:velocity:ip:a", "millrace:social:home:a"
KEYS: Final = {"rl1": COUNTER, "velocity": VELOCITY, "home": HOME}
FANOUT, ERASER, MONITOR = "social_fanout", "social_eraser", "tenancy_monitor"
OWN: Final = {
    "ingress": {COUNTER, VELOCITY, HOME},
    "limiter_gateway": {COUNTER},
    "limiter_leases": {COUNTER},
    FANOUT: {HOME},
    ERASER: {HOME},
    MONITOR: {COUNTER},
}
FORBIDDEN: Final = (
    *("FLUSHALL", "FLUSHDB", "KEYS *", "CONFIG GET *", "SCRIPT FLUSH", "FUNCTION FLUSH"),
    *(
        "FUNCTION DELETE x",
        "FUNCTION LOAD x",
        "SCRIPT LOAD x",
        "ACL LIST",
        "ACL WHOAMI",
        "SHUTDOWN",
        "REPLICAOF NO ONE",
    ),
    *("MONITOR", "CLIENT LIST", "SAVE", "SWAPDB 0 1", "PUBLISH a b", "EVAL x 0"),
)
#: the texts that each kind of process calls
CALLED: Final = {
    "limiter/rl1.lua": ("ingress", "limiter_gateway", "limiter_leases", MONITOR),
    **{f"payments/{name}.lua": ("ingress",) for name in ("velocity", "velocity_epoch")},
    **{f"social/home_{name}.lua": ("ingress",) for name in ("read", "begin", "finish")},
    **{f"social/home_{name}.lua": (FANOUT, ERASER) for name in ("push", "building")},
}


class Server:
    """A Valkey with every user."""

    def __init__(self, folder: Path, port: int) -> None:
        self._passwords = {kind: secrets.token_hex(8) for kind in KINDS}
        self.users = users(self._passwords.__getitem__)
        operator, *others = self.users
        self.valkey = Valkey(folder, port, operator.password, others)

    def url(self, kind: str) -> str:
        """As one kind of process."""
        return url_as(self.valkey.url, kind, self._passwords[kind])

    def as_(self, kind: str) -> redis.Redis:
        """A client of such a process."""
        return redis.Redis.from_url(self.url(kind), client_name=kind)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    ports = PortLeases()
    made = Server(tmp_path_factory.mktemp("valkey"), ports.take_any())
    made.valkey.prepare()
    process = subprocess.Popen(made.valkey.command(), stdout=subprocess.DEVNULL)
    eventually(lambda: made.valkey.unhealthy() is None, what="a Valkey that answers")
    yield made
    process.kill()
    process.wait()
    ports.close()


def test_every_kind_of_process_that_is_given_a_server_is_a_user() -> None:
    """What a worker is told of follows from what it declares."""
    declared = {name for name, worker in WORKERS.items() if {"homes", "redis"} & {*worker.secrets}}
    assert set(ACCESS) == set(OWN) == declared | {"ingress", "limiter_gateway", "limiter_leases"}


@pytest.mark.parametrize("kind", ACCESS)
def test_nobody_but_the_operator_changes_the_server_or_loads(server: Server, kind: str) -> None:
    with server.as_(kind) as client, server.as_("operator") as operator:
        for command in FORBIDDEN:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())
        asked = "DEBUG", "SLEEP", "0"  # which is off here for everybody
        said = operator.execute_command("ACL", "DRYRUN", user_name(kind), *asked)
        assert said != b"OK"
        assert operator.execute_command("ACL", "DRYRUN", user_name("operator"), *asked) == b"OK"


@pytest.mark.parametrize("kind", ACCESS)
def test_each_kind_writes_its_own_keys_and_no_others(server: Server, kind: str) -> None:
    """``zadd`` and ``hset`` are what they share; the monitor reads whatever there is."""
    word = ("ZADD", "1", "m") if "+zadd" in ACCESS[kind][1] else ("HSET", "f", "v")
    with server.as_(kind) as client, server.as_("operator") as operator:
        operator.flushall()
        for key in (*KEYS.values(), "somebody:elses", "rl", "millrace:velocity"):
            write = word[0], key, *word[1:]
            if key in OWN[kind]:
                assert client.execute_command(*write) == 1
            else:
                with pytest.raises(redis.exceptions.NoPermissionError):
                    client.execute_command(*write)
        operator.hset("somebody:elses", "f", "v")
        if kind == MONITOR:
            assert client.hscan("somebody:elses")[1] == {b"f": b"v"}


def test_who_has_no_name_of_ours_is_told_nothing(server: Server) -> None:
    """Also not one who knows a password: it is of another."""
    own = server.url("operator").partition("@")[2]
    password = server.valkey.password
    for who in ("", f":{password}@", f"default:{password}@", f"{user_name('ingress')}:{password}@"):
        with redis.Redis.from_url(f"redis://{who}{own}") as client, pytest.raises(redis.AuthenticationError):
            client.ping()


def test_a_gateway_counts_with_functions_that_the_operator_loaded(server: Server) -> None:
    """Without them it is an outage, which ends when they are there; it never loads any."""
    level = level_of(policy(capacity=10, consistency="exact"), {})
    bucket = bucket_of(level, "u")

    async def test() -> None:
        store = CounterStore(server.url("limiter_gateway"), timeout_s=PATIENT_S)
        try:
            await store.load()
            with pytest.raises(StoreUnavailable) as refused:
                await store.peek(bucket)
            assert "Function not found" in str(refused.value.context)
            with connected(server.url("operator")) as shard:
                shard.load()
            code, *_ = await store.decide([bucket], [bucket.plain_terms], 3, b"", b"", b"")
            assert (code, (await store.peek(bucket)).used, store.unfit) == (1, 3, None)
        finally:
            await store.close()

    with server.as_("operator") as operator:
        operator.flushall()
        operator.function_flush("SYNC")
    asyncio.run(test())


def test_a_process_that_writes_homes_calls_what_the_operator_loaded(server: Server) -> None:
    writer = HomeWriter(server.url(FANOUT), PATIENT_S * 1_000)
    scripts = resources.files("sinks.redis") / "scripts" / "social"
    pushes = [(["a", "b"], [(1, "po_1")])]
    with server.as_("operator") as operator:
        operator.flushall()
        operator.script_flush()
        with pytest.raises(redis.RedisError):
            writer.push(pushes)
        for name in ("home_push", "home_building"):
            operator.script_load((scripts / f"{name}.lua").read_text())
        writer.push(pushes)
        assert writer.building_of("a") is None
        writer.drop(["a", "b"])
        writer.forget(["a"], "po_1")
    writer.close()


@pytest.mark.parametrize("text", CALLED)
def test_who_calls_a_text_may_use_the_commands_in_it(text: str) -> None:
    """It runs as who calls it: a command that is not declared would fail in the middle."""
    found = (resources.files("sinks.redis") / "scripts" / text).read_text()
    used = {name.lower() for name in re.findall(r"\bcall\('(\w+)'", found)}
    assert used
    for kind in CALLED[text]:
        assert {f"+{name}" for name in used} <= {*ACCESS[kind][1]}, kind


def test_every_text_has_callers() -> None:
    """Those of operators alone, and what is no text of its own, are not among them."""
    root = resources.files("sinks.redis") / "scripts"
    texts = {f"{folder.name}/{one.name}" for folder in root.iterdir() for one in folder.iterdir()}
    assert texts - set(CALLED) == {"limiter/epoch.lua", "limiter/rl1_as_script.lua"}


# -- whether a server lets in whom it should ---------------------------------------------------------------------
#: what somebody may change, and how it is said
CHANGED: Final = {
    "a command": ("SETUSER millrace_ingress +flushall", ("millrace_ingress", "has: +flushall")),
    "a key": ("SETUSER millrace_social_fanout ~rl:*", ("millrace_social_fanout", "has: ~rl:*")),
    "one less": ("SETUSER millrace_limiter_leases -fcall", ("millrace_limiter_leases", "has: -fcall; lacks: +fcall")),
    "a password": ("SETUSER millrace_operator >second", ("millrace_operator", "has: another password")),
    "a user that is off": ("SETUSER millrace_limiter_gateway off", ("millrace_limiter_gateway", "has: off; lacks: on")),
    "a user that is gone": ("DELUSER millrace_social_eraser", ("millrace_social_eraser", "is missing")),
    "the default user": ("SETUSER default on", ("default", "has: on; lacks: off")),
    "a stranger": ("SETUSER stranger on", ("stranger", "is nobody who is declared")),
}


@pytest.fixture
def restored(server: Server) -> Iterator[redis.Redis]:
    """Whatever is changed, its file has the rules."""
    with server.as_("operator") as operator:
        yield operator
        operator.execute_command("ACL", "LOAD")


@pytest.mark.parametrize("way", CHANGED)
def test_whatever_is_not_as_declared_is_found(server: Server, restored: redis.Redis, way: str) -> None:
    command, found = CHANGED[way]
    assert list(differences(server.url("operator"), server.users, is_ours=True)) == []
    restored.execute_command("ACL", *command.split())
    said = list(differences(server.url("operator"), server.users, is_ours=True))
    assert [name for name, _ in said] == [found[0]]
    assert said[0][1].startswith(found[1])
    assert "#" not in said[0][1]
    at_others = list(differences(server.url("operator"), server.users, is_ours=False))
    assert at_others == ([] if way == "a stranger" else said)


def test_the_commands_that_are_printed_make_the_users(
    restored: redis.Redis, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a server that has none of them but who applies them; no password is printed."""
    passwords = {user.kind: user.password for user in server.users}
    monkeypatch.setenv("MILLRACE_REDIS_URL", "redis://elsewhere:6379/0")
    monkeypatch.setenv("MILLRACE_REDIS_PASSWORDS", json.dumps(passwords))
    done = CliRunner().invoke(app, ["limiter", "shards", "users"])
    assert done.exit_code == 0
    assert not any(password in done.stdout for password in passwords.values())
    restored.execute_command("ACL", "DELUSER", *(user_name(kind) for kind in ACCESS))
    restored.execute_command("ACL", "SETUSER", "default", "on", "nopass", "+@all", "~*")
    for line in done.stdout.splitlines():
        restored.execute_command(*line.split())
    assert list(differences(server.url("operator"), server.users, is_ours=True)) == []
    monkeypatch.setenv("MILLRACE_REDIS_URL", "redis://:one@elsewhere:6379/0")
    monkeypatch.delenv("MILLRACE_REDIS_PASSWORDS")
    refused = CliRunner().invoke(app, ["limiter", "shards", "users"])
    assert "set MILLRACE_REDIS_PASSWORDS" in str(refused.exception)
