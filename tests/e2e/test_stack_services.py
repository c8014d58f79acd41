"""The whole stack with every service of ours, as ``millrace up`` starts it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from compose import limits
from compose.services.background import BACKGROUND
from compose.settings.kafka_access import ACCESS
from compose.settings.service_processes import PROCESSES
from compose.settings.settings import SERVICES
from compose.stack import varnish
from compose.stack.home import Home
from compose.stack.processes import descendants
from tests.eventually import becomes, eventually, patient
from tests.integration.operator_shell import Operator, pids
from tests.worlds.alerts import metrics_named
from tests.worlds.opened_secrets import sitecustomize as opened_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = [pytest.mark.servers, pytest.mark.faults]


#: what an operator may give in the environment, each with a text that is in no other
MARKED = {
    "POSTGRES_INGRESS_PASSWORD": "marked-secret-of-the-ingress",
    "POSTGRES_OWNER_PASSWORD": "marked-secret-of-owners",
    "POSTGRES_VAULT_PASSWORD": "marked-secret-of-the-vault",
    "VAULT_SECRET": "marked-secret-of-forwarding-to-the-vault",
    "MEDIA_URLS_SECRET": "marked-secret-of-urls-of-media-objects",
    "SOCIAL_HOMES_URL": "redis://homes:marked-secret-of-homes@127.0.0.1:9/0",  # where nothing is: all are ready without
    "WEBHOOK_SECRETS_STRIPE": "whsec_marked_secret_of_webhooks",
    "PROCESSOR_WEBHOOK_SECRETS": '{"simulator_b": "whsec_bWFya2VkIHNlY3JldCBvZiBhIHNpbXVsYXRvcg=="}',
}
#: what each kind of process opens, of generated secrets and given ones. Only the supervisor opens them all: it gives
#: their passwords to users and roles, and runs the migrations
OPENED: dict[str, set[str]] = {
    "guard": set(),
    "fork_server": set(),
    **{server: set() for server in ("kafka", "postgres", "redis", "clickhouse")},
    **({"media_cache": set()} if varnish.is_installed() else {}),
    "simulator": {"webhook_simulator"},
    "simulator_b": {"processor_webhook_secrets.simulator_b"},
    "vault": {"postgres_vault_password", "vault_secret"},
    "owner": {"kafka_owner", "postgres_owner_password"},
    "processor_worker": {"kafka_processor_worker", "millrace_worker", "vault_secret"},
    "webhook_worker": {"kafka_webhook_worker", "millrace_worker", "millrace_settlement"},  # reports have an hour
    "merchant_webhooks": {"kafka_merchant_webhooks", "millrace_worker"},
    "clickhouse_sink": {"kafka_clickhouse_sink", "millrace_sink", "clickhouse"},
    "limiter_owner": {"kafka_limiter_owner", "millrace_limiter_owner"},
    "limiter_usage": {"kafka_limiter_usage", "millrace_worker"},
    "limiter_leases": {"kafka_limiter_leases", "millrace_leases", "redis_limiter_leases"},
    "limiter_gateway": {"kafka_limiter_gateway", "redis_limiter_gateway"},
    "social_media": {"media_urls_secret", "millrace_social_media"},
    "ingress": {
        *(
            "kafka_ingress",
            "postgres_ingress_password",
            "millrace_console",
            "redis_ingress",
            "media_urls_secret",
            "social_homes_url",
        ),
        *("webhook_secrets_stripe", "webhook_standard", "webhook_adyen", "webhook_simulator"),
        "processor_webhook_secrets.simulator_b",
    },
    "tenancy_owner": {"kafka_tenancy_owner", "millrace_tenancy_owner"},
    "social_owner": {"kafka_social_owner", "millrace_social_owner"},
    "tenancy_mover": {"kafka_tenancy_mover", "millrace_tenancy_mover"},
    "tenancy_metering": {"kafka_tenancy_metering", "millrace_tenancy_metering"},
    # what it probes, it asks as those who serve it would
    "tenancy_monitor": {
        *("kafka_tenancy_monitor", "millrace_tenancy_monitor", "postgres_ingress_password", "clickhouse"),
        "redis_tenancy_monitor",
    },
    "social_fanout": {"kafka_social_fanout", "millrace_social_worker", "social_homes_url"},
    "social_propagation": {"kafka_social_propagation", "millrace_social_propagation", "media_urls_secret"},
    "social_eraser": {"kafka_social_eraser", "millrace_social_eraser", "media_urls_secret", "social_homes_url"},
    "social_scanner": {"kafka_social_scanner", "millrace_social_scanner"},
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each process that opened secrets, by its pid."""
    return tmp_path_factory.mktemp("opened")


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory, opened: Path) -> Iterator[Operator]:
    two_of_each = {"MILLRACE_OWNER_PROCESSES": "2", "MILLRACE_INGRESS_PROCESSES": "2"}
    watched = {"PYTHONPATH": str(Path(opened_secrets.__file__).parent), "MILLRACE_TEST_OPENED_SECRETS": str(opened)}
    two_of_each |= {"MILLRACE_PROCESSOR_REPORT_HOURS": '{"simulator": 0}'}
    marked = {f"MILLRACE_{name}": secret for name, secret in MARKED.items()}
    made = Operator(tmp_path_factory.mktemp("services") / "home", two_of_each | watched | marked)
    yield made
    made.run("down")
    made.assert_nothing_left()
    assert not Home(made.home).given_secrets.exists()


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


def test_every_metric_that_an_alert_is_about_is_told_by_some_process(world: dict[str, Any]) -> None:
    told: set[str] = set()
    for url in world["ops"].values():
        text = httpx.get(url, timeout=patient(10), trust_env=False).text
        told |= set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert sorted(metrics_named() - told) == []


def test_who_is_not_waited_for_gives_way_to_who_is(world: dict[str, Any]) -> None:
    """A flood is answered first, and carried out and counted later."""
    nice = {name: os.getpriority(os.PRIO_PROCESS, pid) for name, pid in pids(world).items()}
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    background = {name for name, of in nice.items() if of == min(19, ours + limits.BACKGROUND_NICENESS)}
    late = BACKGROUND | {"simulator_b"}
    assert background == {name for name in nice if name == "clickhouse" or name.rpartition("-")[0] in late}
    assert {of for name, of in nice.items() if name not in background} == {ours}


def test_no_process_has_a_secret_in_its_environment(operator: Operator, world: dict[str, Any]) -> None:
    """Neither of those that were given in the operator's, nor of those that the home made; servers neither."""
    state = operator.state()
    running = {entry.process.pid: entry.process for entry in state.processes if entry.process is not None}
    lasting = set(running)
    for process in list(running.values()):
        running |= {below.pid: below for below in descendants(process)}
    home = operator.home / "secrets"
    secrets = {path.name: path.read_text().encode() for path in home.rglob("*") if path.is_file()}
    assert {f"given/{name.lower()}" for name in MARKED} <= {f"given/{name.partition('.')[0]}" for name in secrets}
    assert len(running) >= len(world["services"]) > 20
    for pid in running:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except FileNotFoundError:
            assert pid not in lasting  # a session of Postgres may have ended meanwhile
            continue
        assert not [name for name, secret in secrets.items() if secret in environment or secret in command], command


def test_each_process_opens_its_own_secrets_and_no_others(opened: Path, world: dict[str, Any]) -> None:
    """What a process opened once stays told; some open one when they first need it."""

    def found() -> dict[str, set[str]]:
        kinds: dict[str, set[str]] = {}
        for name, pid in pids(world).items():
            kind, told = name.rpartition("-")[0] or name, opened / str(pid)
            names = told.read_text().split() if told.exists() else []
            drafts = {one for one in names if one.startswith(".")}  # of a file that this process made
            kinds[kind] = kinds.get(kind, set()) | {*names} - drafts
        return kinds

    supervisor = found()["supervisor"]
    assert {"postgres", "kafka_broker", *(f"kafka_{user}" for user in ACCESS)} <= supervisor
    becomes(found, OPENED | {"supervisor": supervisor}, 60)


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


@pytest.mark.proof
def test_every_service_comes_back_and_without_the_fork_server_all_the_same(
    operator: Operator, world: dict[str, Any]
) -> None:
    """kill -9 of every service, which is forked again; then of the fork server, too: what was killed is executed."""
    assert operator.run("status").returncode == 0
    first = [name for name in pids(world) if name.endswith("-0")]
    assert len(first) == len(SERVICES) + len(PROCESSES) + 1  # two simulators
    _killed_and_back(operator, first)
    os.kill(operator.process("fork_server").pid, signal.SIGKILL)
    _killed_and_back(operator, first)
    assert {entry.name: entry.condition for entry in operator.state().processes}["fork_server"] == "stopped"
    assert get(world["base_url"], "/healthz") == 200


def _killed_and_back(operator: Operator, names: Sequence[str]) -> None:
    killed = {name: operator.process(name) for name in names}
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
