"""What /readyz says of partitions that nobody decides: what is known, and nothing of what is not."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ingress import limits
from ingress.http import ownership
from ingress.http.ownership import Ownership
from schemas import errors
from schemas.services import SERVICES
from sinks.kafka.connection import KafkaConnection

PAYMENTS, OTHER = SERVICES[0], SERVICES[1]
CONNECTION = KafkaConnection(bootstrap="localhost:1", prefix="here-")


def member(topic: str, *partitions: int) -> Any:
    places = [SimpleNamespace(topic=f"here-{topic}", partition=number) for number in partitions]
    return SimpleNamespace(assignment=SimpleNamespace(topic_partitions=places))


class Groups:
    """Kafka's admin client, with a group of two owners that miss one partition; other groups may not be seen."""

    asked = 0
    is_there, is_slow = True, False

    def list_topics(self, topic: str, timeout_s: float) -> None:
        assert (topic, timeout_s) == (f"here-{PAYMENTS.commands_topic}", limits.OWNERSHIP_WAIT_S)
        if not self.is_there:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def describe_consumer_groups(self, names: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        assert request_timeout == 3_600, "the most that it takes: a client that gives up may end the process"
        Groups.asked += 1
        found: dict[str, Future[Any]] = {name: Future() for name in names}
        *rest, last = range(PAYMENTS.partitions)
        members = [member(PAYMENTS.commands_topic, *rest), member(OTHER.commands_topic, last)]
        for name, future in found.items():
            if self.is_slow:
                continue
            if name == f"here-owner-{PAYMENTS.name}":
                future.set_result(SimpleNamespace(members=members))
            else:
                future.set_exception(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
        return found


class Rows:
    def __init__(self, *rows: tuple[str, int]) -> None:
        self.rows_found = list(rows)

    async def rows(self, query: str, _: object) -> list[tuple[str, int]]:
        assert query == "partitions_halted"
        if not self.rows_found:
            raise errors.Unavailable
        return self.rows_found


def test_what_is_not_decided_is_named_and_what_is_not_known_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "KafkaAdmin", lambda _: Groups())
    monkeypatch.setattr(Groups, "asked", 0)

    async def ask() -> None:
        nobodys = {"without_owner": {PAYMENTS.name: [PAYMENTS.partitions - 1]}}
        halted = Ownership(CONNECTION, Rows((OTHER.commands_topic, 3)))  # type: ignore[arg-type] # what is asked of it
        assert await halted.missing() == nobodys | {"halted": {OTHER.name: [3]}}
        assert await halted.missing() == nobodys | {"halted": {OTHER.name: [3]}}
        assert Groups.asked == 1, "an answer holds for a moment"
        monkeypatch.setattr(limits, "OWNERSHIP_LOOK_INTERVAL_S", 0.0)
        assert await Ownership(CONNECTION, Rows()).missing() == nobodys  # type: ignore[arg-type] # Postgres is away

    asyncio.run(ask())


def test_a_kafka_that_does_not_answer_is_asked_one_question_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question for a group's coordinator that times out ends the process: its client ends before, and asks no more."""
    groups = Groups()
    clients = []
    monkeypatch.setattr(ownership, "KafkaAdmin", lambda _: clients.append(groups) or groups)
    monkeypatch.setattr(Groups, "asked", 0)
    monkeypatch.setattr(limits, "OWNERSHIP_LOOK_INTERVAL_S", 0.0)
    monkeypatch.setattr(limits, "OWNERSHIP_WAIT_S", 0.001)

    async def ask() -> None:
        looks = Ownership(CONNECTION, Rows())  # type: ignore[arg-type] # what is asked of it
        groups.is_there = False
        assert await looks.missing() == {}
        assert Groups.asked == 0
        groups.is_there = groups.is_slow = True
        for _ in range(3):
            assert await looks.missing() == {}
        assert (Groups.asked, len(clients)) == (1, 1)
        monkeypatch.setattr(limits, "OWNERSHIP_GIVEN_UP_S", 0.0)
        given_up = Ownership(CONNECTION, Rows())  # type: ignore[arg-type] # what is asked of it
        for _ in range(3):
            assert await given_up.missing() == {}
        assert (Groups.asked, len(clients)) == (3, 3), "asked, dropped with its client, asked anew"

    asyncio.run(ask())
