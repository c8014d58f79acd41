"""Every process of the whole system killed under load. After each: no gap in any invariant, every 2xx exists."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from confluent_kafka import TopicPartition

from compose.settings.settings import Settings
from compose.supervise import launch
from schemas import topics
from sinks.kafka.admin import KafkaAdmin
from tests import servers
from tests.eventually import eventually, patient
from tests.faults.full_stack import System
from tests.gate import PROOF
from tests.worlds.public_system import no_processes_but

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.servers, pytest.mark.faults, pytest.mark.timeout(300)]
_KINDS = ("owner", "ingress", "processor_worker", "clickhouse_sink", "simulator")
#: what a payment passes through; the gate lets nothing else idle beside it
_OF_PAYMENTS = ("simulator", "owner", "processor_worker", "webhook_worker", "clickhouse_sink", "ingress")
_RESTARTS = {"kafka": 1, "postgres": 2, "clickhouse": 1, "redis": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, dict[str, object]]]:
    """Everything, with servers of its own; in the gate, which kills no server here, what payments ask for, on the run's.

    Its supervisor restarts what a test kills.
    """
    home = tmp_path_factory.mktemp("whole")
    if PROOF:
        with servers.own_servers(home, servers_only=False) as settings:
            yield settings, launch.world(settings, launch.up(settings))
        return
    with servers.world(home, services=_OF_PAYMENTS, worker_processes=no_processes_but()) as made:
        try:
            yield made.settings, launch.world(made.settings, servers.up(made.settings))
        finally:
            servers.end(made.settings)


@pytest.fixture
def system(whole: tuple[Settings, dict[str, object]], tmp_path: Path) -> Iterator[System]:
    """The whole system under load; the load ends with the test."""
    system = System(settings=whole[0], world=whole[1], folder=tmp_path)
    system.start_paying()
    yield system
    system.stop_paying()


@pytest.mark.proof
@pytest.mark.parametrize("name", _KINDS)
def test_all_processes_of_a_kind_killed(system: System, name: str) -> None:
    """Rule: a service is restarted and goes on from durable state; commands in flight finish once."""
    system.kill(name)
    system.more_payments()
    system.assert_nothing_lost(may_fail=name == "simulator")


@pytest.mark.proof
@pytest.mark.timeout(400)
def test_servers_killed_one_after_the_other(system: System) -> None:
    """A killed server comes back with its data and every service with it, without a human step.

    Postgres also by its immediate shutdown: sessions end with a word, and nothing is written back either.
    """
    for name in ("kafka", "postgres", "clickhouse", "redis"):
        system.crash(name)
        system.more_payments(within_s=60, after=f"{name} was killed")
    system.kill("postgres", signal.SIGQUIT)
    system.more_payments(within_s=60, after="Postgres was shut down at once")
    restarts = {p.name: p.restarts for p in system.state().processes if p.kind == "server"}
    assert all(restarts[name] >= times for name, times in _RESTARTS.items()), f"status says {restarts}"
    system.assert_nothing_lost()


def test_results_lost(system: System) -> None:
    """The results topic is emptied again and again: the stored result is the truth that a waiting caller gets."""
    kafka = system.settings.addresses().kafka
    admin = KafkaAdmin(kafka.admin())
    system.kill("ingress", signal.SIGSTOP)
    try:
        ends = [TopicPartition(kafka.topic(topics.RESULTS), p, -1) for p in range(topics.RESULTS_PARTITIONS)]
        for future in admin.delete_records(ends).values():
            future.result(patient(10))
    finally:
        system.kill("ingress", signal.SIGCONT)
    system.more_payments()
    system.assert_nothing_lost()


def test_ingress_killed_while_a_caller_waits(system: System) -> None:
    """A caller whose ingress dies asks again with its identity and gets the one stored answer."""
    system.kill("owner", signal.SIGSTOP)  # nothing is decided, so callers wait
    try:
        with httpx.Client(base_url=system.world["base_url"], trust_env=False, timeout=30) as http:
            token = system.token("m_waits")
            call = {
                "url": "/v1/payment_intents",
                "headers": {"Authorization": f"Bearer {token}", "Idempotency-Key": f"waits-{os.urandom(4).hex()}"},
                "json": {"amount": 5, "currency": "JPY", "payment_method": "tok_sim_approve"},
            }
            accepted = http.post(**(call | {"headers": call["headers"] | {"Prefer": "wait=1"}}))
            assert accepted.status_code == 202, accepted.text
            system.kill("ingress")
            system.kill("owner", signal.SIGCONT)
            answer = eventually(lambda: _answer(http, call), 45, what="an answer")
            assert answer.status_code == 201
            again = eventually(lambda: _answer(http, call), 45, what="the same answer")
            assert answer.json() == again.json()
    finally:
        system.kill("owner", signal.SIGCONT)
    system.more_payments()
    system.assert_nothing_lost()


def _answer(http: httpx.Client, call: dict[str, object]) -> httpx.Response | None:
    try:
        answer = http.post(**call)
    except httpx.TransportError:
        return None
    return answer if answer.status_code == 201 else None


def test_expired_deadline_leaves_nothing(system: System) -> None:
    """An owner does not start a command past its deadline; the same identity may try again and succeeds."""
    token, key = system.token("m_late"), f"late-{os.urandom(4).hex()}"
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key, "X-Request-Id": f"again-{key}"}
    body = {"amount": 700, "currency": "EUR", "payment_method": "tok_sim_approve"}
    with httpx.Client(base_url=system.world["base_url"], trust_env=False, timeout=40) as http:
        system.kill("owner", signal.SIGSTOP)
        try:
            too_late = {"X-Deadline-Ms": "300", "X-Request-Id": f"first-{key}"}
            late = http.post("/v1/payment_intents", json=body, headers=headers | too_late)
        finally:
            system.kill("owner", signal.SIGCONT)
        assert late.status_code in {202, 504}, late.text
        again = eventually(lambda: _answer(http, {"url": "/v1/payment_intents", "json": body, "headers": headers}), 30)
        assert again.status_code == 201
    with psycopg.connect(system.settings.addresses().postgres_reader_dsn) as reader:
        decided = reader.execute("select request_id from idempotency where key = %s", (key,)).fetchall()
    assert decided == [(f"again-{key}",)], "the late one did nothing"
    system.assert_nothing_lost()
