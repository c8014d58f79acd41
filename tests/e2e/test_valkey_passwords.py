"""Passwords of Valkey's users: of a home that had one for all, of a server elsewhere; and what is loaded for them."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import redis

from compose.settings.settings import Settings, load_settings
from compose.settings.valkey_access import ACCESS, KINDS
from compose.stack.errors import StackError
from compose.stack.home import Home
from compose.stack.ports import PortLeases
from compose.stack.valkey import Valkey
from compose.supervise.counter_stores import StoreTexts
from limiter.store.store_script import LIBRARY
from sinks.redis.rules import differences
from sinks.redis.user import user_name
from tests.eventually import becomes, eventually
from tests.integration.operator_shell import Operator
from tests.servers import World, world
from tests.worlds.limiter.counter_server import CounterServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.servers
ELSEWHERE = {
    "MILLRACE_KAFKA_BOOTSTRAP": "elsewhere:9092",
    "MILLRACE_POSTGRES_DSN": "postgresql://postgres@elsewhere/millrace",
    "MILLRACE_CLICKHOUSE_URL": "http://elsewhere:8123",
}
#: as a release wrote it that had one password
ONE_PASSWORD = """\
bind 127.0.0.1
port {port}
protected-mode yes
requirepass {password}
dir {data}
appendonly yes
appendfsync always
save ""
databases 256
maxmemory-policy noeviction
daemonize no
"""


@pytest.fixture
def older(tmp_path: Path) -> tuple[Home, str]:
    """A home of such a release with a counter in it, and its password."""
    home, ports = Home(tmp_path / "home"), PortLeases()
    home.prepare()
    port, password = ports.take_any(), home.secret("redis")
    data = home.data("redis")
    data.mkdir()
    configuration = data / "valkey.conf"
    configuration.write_text(ONE_PASSWORD.format(port=port, password=password, data=data))
    command = [Valkey(data, port, "").command()[0], str(configuration)]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL) as process,
        redis.Redis(port=port, password=password) as client,
    ):
        eventually(lambda: _answers(client), what="a Valkey that answers")
        client.set("rl:epoch", 3)
        process.kill()
    ports.close()
    return home, password


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_a_home_of_one_password_starts_with_a_user_for_each_kind(older: tuple[Home, str]) -> None:
    """What it held is there; its password opens nothing and is kept nowhere; another start changes no password."""
    home, password = older
    operator, kept = Operator(home.path, ELSEWHERE), {}
    try:
        for _ in range(2):
            operator.up()
            addresses = Settings(home=home.path).addresses()
            where = urlsplit(addresses.redis_url).netloc.rpartition("@")[2]
            with redis.Redis.from_url(addresses.redis_url) as client:
                assert client.get("rl:epoch") == b"3"
                assert client.acl_users() == ["default", *sorted(map(user_name, KINDS))]
            for name in ("", "default", *map(user_name, KINDS)):
                before = redis.Redis.from_url(f"redis://{name}:{password}@{where}")
                with before, pytest.raises(redis.AuthenticationError):
                    before.ping()
            for kind in ACCESS:
                with redis.Redis.from_url(addresses.redis_url_of(kind)) as client:
                    assert client.ping()
            assert list(differences(addresses.redis_url, Settings(home=home.path).valkey_users(), is_ours=True)) == []
            found = {path.name: path.read_text() for path in home.secrets.iterdir() if path.is_file()}
            assert kept in ({}, found)
            assert password not in found.values()
            kept = found
            operator.run("down")
    finally:
        operator.run("down")
    operator.assert_nothing_left()


GIVEN = {kind: f"secret of {kind}" for kind in KINDS}
WITHOUT_ONE = {kind: secret for kind, secret in GIVEN.items() if kind != "ingress"}


@pytest.mark.parametrize(
    ("url", "passwords", "refused"),
    [
        ("redis://host:6379/0", "ingress=a", "give a JSON object$"),
        (
            "redis://host:6379/0",
            json.dumps(GIVEN | {"ingres": "a"}),
            "there is no kind of process ingres; there are op",
        ),
        ("redis://host:6379/0", json.dumps(WITHOUT_ONE), "give one for ingress, too$"),
        ("redis://host:6379/0", json.dumps(GIVEN | {"ingress": ""}), "each kind of process needs a password"),
        ("redis://host:6379/0", json.dumps(dict.fromkeys(GIVEN, "one")), "needs a password, and one of its own$"),
        ("redis://host:6379/0", json.dumps(GIVEN | {"ingress": 1}), "ingress: Input should be a valid string"),
        ("redis://:one@host:6379/0", json.dumps(GIVEN), "MILLRACE_REDIS_URL has a name or password in it: leave"),
        ("", json.dumps(GIVEN), "the embedded Valkey has passwords of its own; set MILLRACE_REDIS_URL$"),
    ],
)
def test_wrong_passwords_are_refused(monkeypatch: pytest.MonkeyPatch, url: str, passwords: str, refused: str) -> None:
    if url:
        monkeypatch.setenv("MILLRACE_REDIS_URL", url)
    monkeypatch.setenv("MILLRACE_REDIS_PASSWORDS", passwords)
    with pytest.raises(StackError, match=f"MILLRACE_REDIS_PASSWORDS is wrong: .*{refused}") as error:
        load_settings()
    assert "secret of" not in str(error.value)


def test_passwords_in_files_are_refused_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And a process of ours, which is told where they lie, opens its own alone."""
    paths = {kind: tmp_path / kind for kind in GIVEN}
    for kind, path in paths.items():
        path.write_text(GIVEN[kind])
    monkeypatch.setenv("MILLRACE_REDIS_URL", "redis://host:6379/0")
    monkeypatch.setenv("MILLRACE_REDIS_PASSWORDS_FILE", json.dumps({kind: str(path) for kind, path in paths.items()}))
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    assert load_settings().redis_password("ingress") == "secret of ingress"
    paths["operator"].write_text(GIVEN["ingress"])
    with pytest.raises(StackError, match="one of its own"):
        load_settings()
    for kind, path in paths.items():
        if kind != "ingress":
            path.unlink()
    assert load_settings(opens_files=False).redis_password("ingress") == "secret of ingress"


def test_each_kind_is_a_user_of_its_own_elsewhere(tmp_path: Path) -> None:
    """Homes at a server of their own, too, unless its URL names who comes; without passwords the URL stays as it is."""
    ports: dict[str, Any] = {f"{name}_port": 1 for name in ("kafka", "kafka_controller", "postgres", "redis")}

    def urls(**given: Any) -> tuple[str, str]:
        settings = Settings(home=tmp_path, **given)
        home = settings.the_home()
        home.prepare()
        home.ports_file.write_text(json.dumps(dict.fromkeys(settings.preferred_ports(), 1) | ports))
        addresses = settings.addresses()
        return addresses.redis_url_of("social_fanout"), addresses.social_homes_url_of("social_fanout")

    who, given = "millrace_social_fanout:secret%20of%20social_fanout", {"redis_passwords": GIVEN}
    own = f"rediss://{who}@host:6379/0"
    assert urls(redis_url="rediss://host:6379/0", **given) == (own, own)
    apart = {"redis_url": "rediss://host:6379/0", "social_homes_url": "rediss://apart:1/0"}
    assert urls(**apart, **given) == (own, f"rediss://{who}@apart:1/0")
    named = {"redis_url": "rediss://host:6379/0", "social_homes_url": "rediss://homes:p@apart:1/0"}
    assert urls(**named, **given) == (own, "rediss://homes:p@apart:1/0")
    assert urls(redis_url="rediss://u:p@host:6379/0") == ("rediss://u:p@host:6379/0",) * 2
    assert urls(social_homes_url="rediss://apart:1/0")[1] == "rediss://apart:1/0", "our own passwords stay here"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[tuple[World, CounterServer]]:
    """A world with a Valkey of its own."""
    (tmp_path / "valkey").mkdir()
    server = CounterServer(tmp_path / "valkey")
    with world(tmp_path / "home", redis_url=server.url) as made:
        yield made, server
    server.close()


def _work(client: redis.Redis) -> tuple[int, ...]:
    """How often texts were loaded there so far, and somebody came."""
    calls = client.info("commandstats")
    loads = (calls.get(f"cmdstat_{name}|load", {}).get("calls", 0) for name in ("function", "script"))
    return (*loads, client.info("stats")["total_connections_received"])


def test_a_server_that_forgot_what_is_called_is_told_again(alone: tuple[World, CounterServer]) -> None:
    """The supervisor does that for as long as it runs; one that is away is said once."""
    made, server = alone
    with closing(StoreTexts(made.addresses, encrypted=False)) as texts, redis.Redis.from_url(server.url) as client:

        def held() -> tuple[bool, int]:
            libraries = client.function_list()
            return LIBRARY in str(libraries).encode(), int(client.info("memory")["number_of_cached_scripts"])

        assert texts.load() == ""
        assert held() == (True, 7)
        client.function_flush("SYNC")
        client.script_flush()
        assert held() == (False, 0)
        becomes(lambda: texts.look() or held(), (True, 7))
        before = _work(client)
        assert [texts.load() for _ in range(5)] == [""] * 5
        assert _work(client) == before, "a server that has everything is only asked, over connections that are open"
        server.process.kill()
        said = eventually(texts.look, what="what is wrong")
        assert "functions of shard main are not looked after" in said
        assert urlsplit(server.url).password not in said
