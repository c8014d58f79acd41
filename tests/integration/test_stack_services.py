"""The whole stack with every service of ours, as ``millrace up`` starts it."""

from __future__ import annotations

import http.client
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from compose.settings.service_processes import PROCESSES
from compose.settings.settings import SERVICES
from tests.eventually import becomes, eventually, patient
from tests.integration.operator_shell import Operator, pids

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.servers, pytest.mark.faults]


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    two_of_each = {"MILLRACE_OWNER_PROCESSES": "2", "MILLRACE_INGRESS_PROCESSES": "2"}
    made = Operator(tmp_path_factory.mktemp("services") / "home", two_of_each)
    yield made
    made.run("down")
    made.assert_nothing_left()


@pytest.fixture(scope="module")
def world(operator: Operator) -> dict[str, Any]:
    done = operator.run("up", "--detach", "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def get(url: str, path: str) -> int:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=patient(10))
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_world_has_every_process_and_every_address(operator: Operator, world: dict[str, Any]) -> None:
    """Two owners, two ingresses, one of each other service; addresses answer; metrics of each are reachable."""
    counts = {service: sum(name.rpartition("-")[0] == service for name in pids(world)) for service in SERVICES}
    assert counts == dict.fromkeys(SERVICES, 1) | {"owner": 2, "ingress": 2}
    assert get(world["base_url"], "/healthz") == 200
    assert list(world["processor_urls"]) == ["simulator", "simulator_b"]
    assert world["processor_urls"]["simulator"] == world["processor_url"]
    for url in world["processor_urls"].values():
        assert get(url, "/book") == 200
    for name, url in world["ops"].items():
        assert get(url.removesuffix("/metrics"), "/metrics") == 200, name
        # a consumer group that grew by the last starter may still share its partitions out
        becomes(lambda u=url: get(u.removesuffix("/metrics"), "/readyz"), 200, what=name)
    again = operator.run("up", "--detach", "--json")
    assert json.loads(again.stdout) == world


def test_the_printed_dsn_reads_and_never_writes(world: dict[str, Any]) -> None:
    with psycopg.connect(world["postgres_dsn"]) as connection:
        assert connection.execute("SELECT count(*) FROM payment_intent").fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM payment_intent")


def test_killed_services_come_back(operator: Operator, world: dict[str, Any]) -> None:
    """kill -9 of one ingress and one owner: both are started again and ready, the others never stopped."""
    killed = ("ingress-1", "owner-0")
    for name in killed:
        os.kill(pids(world)[name], signal.SIGKILL)

    def back() -> bool:
        entries = {entry.name: entry for entry in operator.state().processes}
        return all(entries[name].restarts == 1 and entries[name].condition == "ready" for name in killed)

    eventually(back, within_s=60, what="both are back")
    now = {entry.name: entry.pid for entry in operator.state().processes}
    assert {name for name, pid in pids(world).items() if now[name] != pid} == set(killed)
    assert get(world["base_url"], "/healthz") == 200


def test_without_the_fork_server_every_service_comes_back_all_the_same(
    operator: Operator, world: dict[str, Any]
) -> None:
    """kill -9 of the fork server, then of every service: each is executed, as ``python -m compose.services`` by itself."""
    assert operator.run("status").returncode == 0
    os.kill(operator.process("fork_server").pid, signal.SIGKILL)
    killed = {name: operator.process(name) for name in pids(world) if name.endswith("-0")}
    for process in killed.values():
        os.kill(process.pid, signal.SIGKILL)

    def not_back() -> list[str]:
        entries = {entry.name: entry for entry in operator.state().processes}
        return [
            name
            for name, process in killed.items()
            if entries[name].condition != "ready" or entries[name].process == process
        ]

    becomes(not_back, [], within_s=100, what="all are back")
    assert len(killed) == len(SERVICES) + len(PROCESSES) + 1  # two simulators
    assert {entry.name: entry.condition for entry in operator.state().processes}["fork_server"] == "stopped"
    assert get(world["base_url"], "/healthz") == 200


def test_servers_only_is_satisfied_by_a_stack_that_has_more(operator: Operator) -> None:
    """The other way round is refused: see test_stack_lifecycle."""
    assert operator.run("up", "--detach", "--json", "--servers-only").returncode == 0
    status = json.loads(operator.run("status", "--json").stdout)
    assert status["ready"] is True


def test_down_drains_services_before_it_stops_servers(operator: Operator) -> None:
    """Nothing had to be killed, and no owner lost its database while it drained."""
    assert operator.run("down").returncode == 0
    log = operator.run("logs", "supervisor", "-n", "20").stdout
    assert log.strip().splitlines()[-1].endswith(" stopped")
    assert "was killed" not in log
    owners = operator.run("logs", "owner-1", "-n", "200").stdout
    assert "partition_released" in owners
    assert "Traceback" not in owners
