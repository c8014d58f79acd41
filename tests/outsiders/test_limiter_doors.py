"""What outsiders try at the limiter, through its public doors: a store that is emptied, a request of a million, new versions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
import redis

from tests.eventually import becomes, eventually
from tests.worlds.limiter.limiter_public import OK, OVER_LIMIT, Envoy, envoy
from tests.worlds.payments.repair_world import millrace
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["envoy", "public"]  # the fixtures of this module
pytestmark = [pytest.mark.servers, pytest.mark.proof, pytest.mark.alone]
_MILLION = 1_000_000


def test_a_store_that_is_emptied_answers_nobody_until_it_is_restored(public: PublicSystem, envoy: Envoy) -> None:
    """Whoever used up a quota has it not again because somebody said FLUSHALL."""
    envoy.in_force(capacity=10)
    assert envoy.allowed(12) == 10
    with redis.Redis.from_url(public.settings.addresses().redis_url) as store:
        store.flushall()
    try:
        answers = [envoy.check() for _ in range(20)]
        assert set(answers) == {OVER_LIMIT}, "failure mode closed"
        told = millrace(public, "limiter", "shards", "--json")
        assert "lost its counters" in told.stdout, told.stdout + told.stderr
    finally:
        restored = millrace(public, "limiter", "shards", "restore", "main")
    assert restored.returncode == 0, restored.stdout + restored.stderr
    becomes(lambda: envoy.check("another"), OK, 90, what="the restored store decides")


def test_a_request_of_a_million_permits_is_refused_and_holds_none(envoy: Envoy) -> None:
    """In one call, and everybody else is answered meanwhile."""
    envoy.in_force(capacity=5)
    assert envoy.decided("greedy", cost=_MILLION) == OVER_LIMIT
    assert envoy.decided("greedy", cost=_MILLION) == OVER_LIMIT
    assert [envoy.decided("quiet") for _ in range(2)] == [OK, OK]
    assert envoy.allowed(6, user="greedy") == 5, "nothing of the refused million was taken"


def test_a_window_that_is_published_again_neither_forgives_nor_punishes(envoy: Envoy) -> None:
    """Another version of the same quota: who was at the limit stays there, and not for longer."""
    quota = {"algorithm": "sliding_window", "capacity": 5, "window_ms": 3_600_000}
    first = envoy.in_force(**quota)
    assert envoy.allowed(6) == 5
    before_s = _reset_s(envoy)
    for version in range(1, 4):
        answer = envoy.publish(
            policy_id=first["policy_id"], expected_version=version, **quota | {"audit": ["full", "denied"][version % 2]}
        )
        assert answer.status_code in {200, 201}, answer.text
        assert envoy.decided() == OVER_LIMIT
        assert _reset_s(envoy) <= before_s, "an hour stays an hour"
    assert envoy.decided(f"idle-{uuid.uuid4().hex[:6]}") == OK, "and who was idle has all of it"


def _reset_s(envoy: Envoy) -> float:
    """How long a user at the limit waits, as a gateway of the store tells it."""

    def told() -> float | None:
        answer = envoy.ask({"tenant": envoy.tenant, "user": "u", "route": "/r"})
        status = answer.statuses[0]
        return status.duration_until_reset.ToNanoseconds() / 1e9 if status.HasField("current_limit") else None

    return eventually(told, 60, what="the store answers")
