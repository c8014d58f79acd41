"""What the console's pipeline page reads of partitions, on the running system."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import dict_row

from schemas.services import SERVICES
from tests.eventually import eventually
from tests.worlds.payments.console_world import Scene, scene
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public", "scene"]  # the fixtures of this module
pytestmark = pytest.mark.servers

EVENTS = {service.commands_topic: service.events_topic for service in SERVICES}


def test_each_partition_is_beside_the_events_of_its_own_topic(public: PublicSystem, scene: Scene) -> None:
    """Partition 0 of the limiter owes nothing of what payments committed in theirs."""
    assert scene  # payments, with events
    sql = (resources.files("ingress.console.queries") / "pipeline_partitions.sql").read_bytes()
    dsn = public.settings.addresses().postgres_dsns["millrace_console"]

    def is_beside_its_own() -> bool:
        with psycopg.connect(dsn, row_factory=dict_row) as console:
            shown = console.execute(sql, {"limit": 1_000}).fetchall()
        assert {row["topic"] for row in shown} == EVENTS.keys()
        told = {(EVENTS[row["topic"]], row["partition"]): row["last_seq"] for row in shown}
        newest = {row[:2]: row[2] for row in public.rows("select topic, partition, max(seq) from outbox group by 1, 2")}
        assert any(newest.values())
        assert told == {place: newest.get(place, 0) for place in told}
        return True

    eventually(is_beside_its_own)  # payments of earlier tests may still commit between the two readings
