"""``millrace check`` beside sinks that nobody runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from reconciliation import limits as reconciliation_limits
from reconciliation.check.run import run_check
from reconciliation.contract.checked_service import checked
from schemas.limiter.topics import DECISIONS
from schemas.services import BY_NAME
from sinks.kafka.topics import ensure_topics
from tests.eventually import patient
from tests.worlds.sink_stage import new_stage

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers


def test_every_sink_is_asked_whether_it_stands_still(stack: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of counted usage, which lies in Postgres, and of decisions, which have no seq."""
    monkeypatch.setattr(reconciliation_limits, "CHECK_SINK_WAIT_S", 0.5)
    with new_stage(stack.settings, payments=1) as stage:
        ensure_topics(stage.kafka)
        producer = Producer(stage.kafka.producer("decisions"))
        producer.produce(stage.kafka.topic(DECISIONS), b"a decision", partition=0)
        assert producer.flush(patient(30)) == 0
        event = "insert into outbox values ('events.limiter.v1', 0, 1, 'an event', 'of something', 1, 's', 'a record', now())"
        stage.sql("insert into usage_counted (partition, last_seq) values (3, 5)", event)
        settings = replace(
            stage.check_settings(), services=tuple(checked(BY_NAME[name]) for name in ("limiter", "tenancy"))
        )
        (found,) = run_check(settings, only=["sinks"]).invariants
        assert sorted(row["sink"] for row in found.sample) == ["limiter", "limiter_decisions", "tenancy_usage"]
        stage.sql(
            "insert into stream_position (follower, topic, partition, next_offset, last_seq) values"
            " ('limiter', 'events.limiter.v1', 0, 9, 1), ('tenancy_usage', 'tenancy.counted.v1', 3, 9, 5),"
            f" ('limiter_decisions', '{DECISIONS}', 0, 1000, 1000)"
        )
        (found,) = run_check(settings, only=["sinks"]).invariants
        assert found.gaps == 0, found.note
