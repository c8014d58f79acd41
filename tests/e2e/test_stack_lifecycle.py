"""``millrace up``, ``down`` and ``status`` as an operator types them, and what survives a kill of each part."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import clickhouse_connect
import psycopg
import pytest
import redis
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from compose.stack.home import Home, write_private
from compose.stack.processes import identify, marked
from sinks.kafka.admin import KafkaAdmin
from tests.eventually import eventually, patient
from tests.freezing import freeze
from tests.gate import matrix
from tests.integration.operator_shell import MILLRACE, Operator, alive, pids
from tests.worlds.ports_of_ours import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compose.settings.settings import Settings

pytestmark = [pytest.mark.servers, pytest.mark.faults]

SERVERS = {"kafka", "postgres", "redis", "clickhouse"}
#: where a test is about the supervisor alone, the slow servers stand elsewhere and are not started
ONLY_REDIS = {
    "MILLRACE_KAFKA_BOOTSTRAP": "elsewhere:9092",
    "MILLRACE_POSTGRES_DSN": "postgresql://postgres@elsewhere/millrace",
    "MILLRACE_CLICKHOUSE_URL": "http://elsewhere:8123",
}


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    made = Operator(tmp_path / "home")
    yield made
    assert made.run("down").returncode == 0
    made.assert_nothing_left()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """A home for all four servers; the tests that need them go through its life one after the other.

    A stack that is down holds no port, and others that start then take preferred and drawn ones: it has none of these.
    """
    made = Operator(tmp_path_factory.mktemp("lasting") / "home")
    names = made.settings().preferred_ports()
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    made.settings().the_home().prepare()
    write_private(made.settings().the_home().ports_file, json.dumps(ports))
    yield made
    assert made.run("down").returncode == 0
    made.assert_nothing_left()


@pytest.fixture(scope="module")
def first(lasting: Operator) -> dict[str, Any]:
    """What its first ``up`` printed; each server has one acknowledged fact since."""
    world = lasting.up()
    write_to_all(lasting.settings())
    return world


@pytest.fixture
def filled(lasting: Operator, first: dict[str, Any]) -> Operator:
    """The home with those facts; it may be down."""
    return lasting


def test_up_twice_is_one_stack_and_down_leaves_nothing(lasting: Operator, first: dict[str, Any]) -> None:
    """The second ``up`` prints the same world; every process is listed; ``down`` ends all of them, also twice."""
    world = first
    assert set(pids(world)) == SERVERS | {"supervisor", "guard"}
    assert lasting.up() == world
    attached = lasting.run("up", "--json", "--servers-only")  # in the foreground, of a stack that others started
    assert (attached.returncode, json.loads(attached.stdout)) == (0, world)
    assert "goes on" in attached.stderr
    more = lasting.run("up", "--detach")
    assert (more.returncode, "runs its servers only: run 'millrace down' first" in more.stderr) == (1, True)
    status = json.loads(lasting.run("status", "--json").stdout)
    assert status["ready"] is True
    told = json.loads(lasting.run("info", "--json").stdout)
    assert (told["kafka"]["bootstrap"], told["running"]) == (world["kafka_bootstrap"], True)
    password = urlsplit(world["redis_url"]).password
    assert password not in json.dumps(told)
    with_secrets = json.loads(lasting.run("info", "--json", "--secrets").stdout)
    assert with_secrets["valkey"] == with_secrets["social_homes"] == world["redis_url"] == world["social_homes_url"]
    assert urlsplit(with_secrets["clickhouse"]).username == "reader"
    client = dict(one.split("=", 1) for one in with_secrets["kafka"]["client"])
    assert client["sasl.username"] == "reader"
    assert client["sasl.password"] not in json.dumps(told)
    shown = lasting.run("info").stdout
    assert told["http"] in shown
    assert max(len(line) for line in shown.splitlines() if str(lasting.home) not in line) <= 80
    identities = [identify(pid) for pid in pids(world).values()]
    room_held_back = lasting.settings().the_home().run / "reserve"
    assert room_held_back.exists()
    assert lasting.run("down").returncode == 0
    assert [process for process in identities if process.alive()] == []
    assert not room_held_back.exists()
    again = lasting.run("down")
    assert (again.returncode, again.stdout.strip()) == (0, f"nothing runs in {lasting.home}")
    assert lasting.run("status").returncode == 3


def test_a_restart_keeps_data_and_addresses(filled: Operator, first: dict[str, Any]) -> None:
    """What was acknowledged by each of the four is there after ``down`` and ``up``, at the same addresses."""
    filled.run("down")
    assert {name: value for name, value in filled.up().items() if name != "services"} == {
        name: value for name, value in first.items() if name != "services"
    }
    assert_all_kept(filled.settings())


def test_killed_servers_come_back_with_their_data(filled: Operator) -> None:
    """kill -9 of every server: the supervisor starts each again and says so."""
    filled.up()
    before = {name: filled.process(name) for name in SERVERS}
    for process in before.values():
        os.kill(process.pid, signal.SIGKILL)

    def all_back() -> bool:
        entries = {entry.name: entry for entry in filled.state().processes}
        return all(
            entries[name].condition == "ready" and entries[name].process != before[name] and entries[name].restarts == 1
            for name in SERVERS
        )

    eventually(all_back, within_s=60, what="every server is back")
    assert_all_kept(filled.settings())
    log = filled.run("logs", "supervisor", "-n", "200").stdout
    assert all(f"{name}: restarting - killed by SIGKILL" in log for name in SERVERS)


def test_frozen_servers_are_told_and_left_alone(filled: Operator) -> None:
    """Whoever looks sees that the stack is not whole, and which servers answer nothing; they go on where they were."""
    filled.up()
    frozen = {name: filled.process(name) for name in SERVERS}
    for process in frozen.values():
        freeze(process.pid)
    try:
        eventually(lambda: conditions(filled) == {"silent"}, within_s=120, what="all are told to be silent")
        told = filled.run("status")
        assert told.returncode != 0
        assert "degraded" in told.stdout
        assert "has not answered for long" in " ".join(told.stdout.split())
    finally:
        for process in frozen.values():
            os.kill(process.pid, signal.SIGCONT)
    eventually(lambda: conditions(filled) == {"ready"}, within_s=120, what="all answer again")
    assert filled.run("status").returncode == 0
    assert {name: filled.process(name) for name in SERVERS} == frozen
    assert_all_kept(filled.settings())


def conditions(stack: Operator) -> set[str]:
    return {entry.condition for entry in stack.state().processes if entry.name in SERVERS}


def test_a_killed_supervisor_leaves_nothing(filled: Operator) -> None:
    """kill -9 of the supervisor: the guard stops what is left, and the next ``up`` has the data."""
    filled.up()
    state = filled.state()
    os.kill(filled.process("supervisor").pid, signal.SIGKILL)
    eventually(lambda: alive(state) == [] and marked(state.stack_id) == [], within_s=40, what="nothing is left")
    left = _secret_left(filled)
    filled.up()
    assert_all_kept(filled.settings())
    assert not left.exists()


def _secret_left(stack: Operator) -> Path:
    """As a start before was given it in its environment."""
    path = Home(stack.home).given_secrets / "clickhouse_url"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def _removed(home: Path) -> bool:
    """Whether nothing of it is left: whoever still runs in it may write while it is removed."""
    shutil.rmtree(home, ignore_errors=True)
    return not home.exists()


@pytest.mark.parametrize("supervisor_too", matrix([False, True], lambda too: not too))
def test_a_removed_home_ends_what_ran_in_it(operator: Operator, *, supervisor_too: bool) -> None:
    """Left running, its services would join whatever stack gets the same ports next; the guard knows them by their mark."""
    operator.up(ONLY_REDIS)
    state, supervisor = operator.state(), operator.process("supervisor").pid
    if supervisor_too:
        freeze(supervisor)
    eventually(lambda: _removed(operator.home), what="the home is gone")
    if supervisor_too:
        os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: alive(state) == [] and marked(state.stack_id) == [], within_s=40, what="nothing is left")


def test_a_killed_supervisor_and_guard_are_cleaned_up_by_down(operator: Operator) -> None:
    """Both killed: servers still run; ``status`` names them and ``down`` ends them by identity."""
    operator.up(ONLY_REDIS)
    state = operator.state()
    for name in ("guard", "supervisor"):
        os.kill(operator.process(name).pid, signal.SIGKILL)
    eventually(lambda: not state.running(), what="the supervisor is gone")
    assert "left by a killed supervisor: redis" in operator.run("status").stdout
    left = _secret_left(operator)
    assert operator.run("down").stdout.strip() == "stopped"
    assert alive(state) == []
    assert not left.exists()


def test_a_killed_foreground_takes_its_stack_along(operator: Operator) -> None:
    """``millrace up`` in the foreground and kill -9 of it: nothing stays."""
    command = [MILLRACE, "up", "--json", "--servers-only"]
    with subprocess.Popen(
        command, env=operator.environment(ONLY_REDIS), stdout=subprocess.PIPE, text=True
    ) as foreground:
        assert foreground.stdout is not None
        assert json.loads(foreground.stdout.readline())["redis_url"]
        state = operator.state()
        foreground.kill()
    eventually(lambda: not state.running() and marked(state.stack_id) == [], within_s=40, what="nothing stays")


def test_a_foreground_stops_on_term(operator: Operator) -> None:
    command = [MILLRACE, "up", "--json", "--servers-only"]
    with subprocess.Popen(
        command, env=operator.environment(ONLY_REDIS), stdout=subprocess.PIPE, text=True
    ) as foreground:
        assert foreground.stdout is not None
        assert json.loads(foreground.stdout.readline())["redis_url"]
        foreground.terminate()
        assert foreground.wait(timeout=patient(60)) == 0
    assert not operator.state().running()
    assert operator.state().phase == "stopped"


@pytest.mark.proof
def test_two_stacks_start_at_once_on_ports_of_their_own(operator: Operator, tmp_path: Path) -> None:
    other = Operator(tmp_path / "other")
    command = [MILLRACE, "up", "--detach", "--json", "--servers-only"]
    with (
        subprocess.Popen(command, env=operator.environment(), stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen(command, env=other.environment(), stdout=subprocess.PIPE, text=True) as second,
    ):
        worlds = [json.loads(process.communicate(timeout=patient(150))[0]) for process in (first, second)]
    try:
        addresses = [{entry["url"] for entry in world["services"] if "url" in entry} for world in worlds]
        assert len(addresses[0] | addresses[1]) == 2 * len(SERVERS)
    finally:
        assert other.run("down").returncode == 0


def test_an_external_server_is_not_started(operator: Operator) -> None:
    """Each of the four may stand elsewhere: then its embedded server is not in the world, and its address is."""
    world = operator.up(ONLY_REDIS)
    assert set(pids(world)) == {"redis", "supervisor", "guard"}
    found = (world["kafka_bootstrap"], world["postgres_dsn"], world["clickhouse_url"])
    assert found == tuple(ONLY_REDIS.values())


def test_a_busy_port_that_was_set_is_refused_in_one_line(operator: Operator) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as holder:
        port = str(holder.getsockname()[1])
        done = operator.run("up", "--detach", "--servers-only", settings={"MILLRACE_POSTGRES_PORT": port})
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"millrace: port {port} for postgres_port is in use: stop what listens there "
        f"(ss -ltnp 'sport = :{port}') or set MILLRACE_POSTGRES_PORT to another port"
    )


def test_a_server_that_dies_at_start_is_named_with_its_last_line(operator: Operator) -> None:
    """Damaged data: one line with the server, its last words and its log; the others are stopped again."""
    beside_redis = {name: value for name, value in ONLY_REDIS.items() if name != "MILLRACE_POSTGRES_DSN"}
    operator.up(beside_redis)
    operator.run("down")
    control = operator.home / "data" / "postgres" / "global" / "pg_control"
    control.write_bytes(b"damaged")
    done = operator.run("up", "--detach", "--servers-only", settings=beside_redis)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("millrace: postgres does not start: ")
    assert "pg_control" in line
    assert str(operator.home / "logs" / "postgres.log") in line
    assert marked(operator.state().stack_id) == []


def test_a_recycled_pid_is_never_signalled(operator: Operator) -> None:
    """A state file whose pids belong to others by now: ``down`` and ``up`` touch none of them."""
    operator.up(ONLY_REDIS)
    operator.run("down")
    with subprocess.Popen(["sleep", f"{patient(150):.0f}"], start_new_session=True) as stranger:
        text = (operator.home / "run" / "state.json").read_text()
        found = json.loads(text)
        for entry in found["processes"]:
            entry["pid"] = stranger.pid
            entry["condition"] = "ready"
        found["phase"] = "ready"
        (operator.home / "run" / "state.json").write_text(json.dumps(found))
        assert operator.run("down").stdout.strip() == f"nothing runs in {operator.home}"
        operator.up(ONLY_REDIS)
        assert stranger.poll() is None
        stranger.kill()


# --- one acknowledged fact in each server ---------------------------------------------------------------------


def write_to_all(settings: Settings) -> None:
    addresses = settings.addresses()
    with psycopg.connect(addresses.postgres_superuser_dsn) as connection:
        connection.execute("CREATE TABLE kept (a bigint)")
        connection.execute("INSERT INTO kept VALUES (42)")
    with redis.Redis.from_url(addresses.redis_url) as client:
        client.set("kept", "42")
        assert client.execute_command("WAITAOF", 1, 0, int(patient(5) * 1_000))[0] == 1
    clickhouse = clickhouse_connect.get_client(dsn=addresses.clickhouse_url)
    clickhouse.command("CREATE TABLE kept (a Int64) ENGINE = MergeTree ORDER BY a")
    clickhouse.insert("kept", [[42]])
    clickhouse.close()
    admin = KafkaAdmin(addresses.kafka.admin())
    admin.create_topics([NewTopic("kept", 1)])["kept"].result(timeout=patient(10))
    producer = Producer(addresses.kafka.producer("test"))
    producer.produce("kept", b"42")
    assert producer.flush(patient(10)) == 0


def assert_all_kept(settings: Settings) -> None:
    addresses = settings.addresses()
    with psycopg.connect(addresses.postgres_superuser_dsn) as connection:
        assert connection.execute("SELECT a FROM kept").fetchall() == [(42,)]
    with redis.Redis.from_url(addresses.redis_url) as client:
        assert client.get("kept") == b"42"
    clickhouse = clickhouse_connect.get_client(dsn=addresses.clickhouse_url)
    assert clickhouse.query("SELECT a FROM kept").result_rows == [(42,)]
    clickhouse.close()
    with closing(Consumer(addresses.kafka.consumer("test", "test"))) as consumer:
        consumer.assign([TopicPartition("kept", 0, OFFSET_BEGINNING)])

        def read() -> Message | None:
            found = consumer.poll(0.5)  # a broker that has just started may say first that it does not lead yet
            return None if found is None or found.error() else found

        assert eventually(read, within_s=30, what="the record is there").value() == b"42"
