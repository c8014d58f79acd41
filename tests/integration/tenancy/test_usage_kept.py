"""Usage is removed behind a floor when it is too old and in ClickHouse, and whatever is checked knows the floor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.tenancy.usage.keeping import remove
from schemas.tenancy import limits
from schemas.tenancy.usage_topic import COUNTED
from sinks.postgres import owner_connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
KEPT = timedelta(seconds=limits.USAGE_KEPT_S)
DAY = timedelta(days=1)
EVENT = "insert into usage_event values ('tn_1', '/meter', %s, 'tokens', 1, null, %s, %s, %s)"
CONFLICT = (
    "insert into usage_conflict (tenant_id, source, event_id, dimension, quantity, occurred_at, digest, conflict_id)"
    " values ('tn_1', '/meter', %s, 'tokens', 2, now(), '\\x00', %s)"
)
FED = "insert into stream_position (follower, topic, partition, next_offset, last_seq) values ('tenancy_usage', %s, %s, 0, %s)"


@pytest.fixture(scope="module")
def superuser(stack: World) -> Iterator[psycopg.Connection[Any]]:
    """Partition 0: five old rows, a young one, two old ones. Partition 1: old rows, of which two are in ClickHouse."""
    ages = {0: [KEPT + DAY] * 5 + [KEPT - DAY, KEPT + DAY, KEPT + DAY], 1: [KEPT + DAY] * 4}
    with psycopg.connect(stack.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        for partition, old in ages.items():
            connection.execute("insert into usage_counted (partition, last_seq) values (%s, %s)", (partition, len(old)))
            for seq, age in enumerate(old, 1):
                place = (f"e{partition}-{seq}", datetime.now(UTC) - age, partition, seq)
                connection.execute(EVENT.encode(), place)
        connection.execute(FED.encode(), (COUNTED, 0, 8))
        connection.execute(FED.encode(), (COUNTED, 1, 2))
        for event_id in ("e0-1", "e0-6"):
            connection.execute(CONFLICT.encode(), (event_id, f"uc_{event_id}"))
        yield connection


def found_by(connection: psycopg.Connection[Any], name: str) -> list[Any]:
    text = (resources.files("reconciliation.tenancy") / "invariants" / f"{name}.sql").read_text()
    return connection.execute(text.encode()).fetchall()


def test_what_is_too_old_goes_from_below_and_nothing_else(
    stack: World, superuser: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USAGE_REMOVED_AT_ONCE", 3)
    assert found_by(superuser, "tenancy_usage_places") == []
    dsn = stack.settings.addresses().postgres_dsns["millrace_tenancy_metering"]
    with owner_connection.connect(dsn, "keeping") as metering:
        assert [remove(metering) for _ in range(4)] == [3 + 2, 2, 0, 0]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            metering.execute("delete from usage_event")
    left = superuser.execute("select partition, seq from usage_event order by 1, 2").fetchall()
    assert left == [(0, 6), (0, 7), (0, 8), (1, 3), (1, 4)]  # none behind a young one, nor what no other store has
    floors = superuser.execute(
        "select floor_seq, removed_until < now() - interval '400 days' from usage_counted order by partition"
    )
    assert floors.fetchall() == [(5, True), (2, True)]
    assert superuser.execute("select event_id from usage_conflict").fetchall() == [("e0-6",)]
    for name in ("tenancy_usage_places", "tenancy_conflicts_contradict", "tenancy_writes_metered"):
        assert found_by(superuser, name) == [], name


def test_the_floor_hides_no_loss(superuser: psycopg.Connection[Any]) -> None:
    for lost in ("seq = 6 and partition = 0", "seq = 7", "seq = 4 and partition = 1"):
        with superuser.transaction(force_rollback=True):
            superuser.execute(f"delete from usage_event where {lost}")
            assert found_by(superuser, "tenancy_usage_places"), lost
