"""What fan-out, propagation and moderation did is in ClickHouse once, whenever fan-out and the sink are killed."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.services import SINKS
from sinks.clickhouse.social.measures import MEASURE_SINK
from tests.eventually import becomes, eventually, patient
from tests.services.counter_world import process
from tests.worlds.social_system import SCOPES_OF_USERS, SocialUser, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from subprocess import Popen

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers, pytest.mark.faults, pytest.mark.timeout(300)]
COLUMNS = "seq, measure, subject, quantity, took_us"
SEEN = "update moderation_propagation set state = 'verified', verified_at = clock_timestamp() where consumer = 'homes'"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    with social_system(tmp_path_factory.mktemp("measures")) as made:  # fan-out and the sink run when a test says so
        yield made


def sink(system: PublicSystem, fail_point: str = "") -> AbstractContextManager[Popen[bytes]]:
    """The process that feeds these alone."""
    number = str(list(SINKS).index(MEASURE_SINK.name))
    return process(system, "clickhouse_sink", fail_point, number, {"MILLRACE_CLICKHOUSE_SINKS": "apart"})


def in_clickhouse(system: PublicSystem) -> list[tuple[Any, ...]]:
    client = ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()
    try:
        return [tuple(row) for row in client.query(f"select {COLUMNS} from social_measures order by seq").result_rows]
    finally:
        client.close()


def totals(rows: list[tuple[Any, ...]]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for _, measure, subject, quantity, _ in rows:
        if subject == "late_deliveries":  # as many as homes were there when edges had their turn
            continue
        found[measure, subject] = found.get((measure, subject), 0) + quantity
    return found


def test_each_measure_is_in_clickhouse_once_wherever_fan_out_and_the_sink_are_killed(system: PublicSystem) -> None:
    author, *fans = (SocialUser(system) for _ in range(5))
    moderator = SocialUser(system, (*SCOPES_OF_USERS, "moderator"))
    author.read("/v1/me")
    for fan in fans:
        fan.follow(author)
        assert fan.home == []
    made = [author.post(f"number {n}")["post_id"] for n in range(3)]

    def reported(by: SocialUser) -> None:
        by.do("POST", "/v1/moderation/reports", {"object_id": made[0], "reason": "spam"})

    for point in (
        "fanout_before_deliveries",
        "fanout_after_deliveries",
    ):  # the second one has counted, and does not know
        with process(system, "social_fanout", point) as dying:
            assert dying.wait(timeout=patient(60)) == -signal.SIGKILL
    with process(system, "social_fanout", ""):
        made.append(author.post("afterwards")["post_id"])
        for fan in fans:
            becomes(lambda fan=fan: fan.home, made[::-1], 60)  # type: ignore[misc]
    for fan, point in zip(fans, ("sink_after_plan", "sink_after_insert", "sink_after_mark"), strict=False):
        reported(fan)
        with sink(system, point) as doomed:
            assert doomed.wait(timeout=patient(60)) == -signal.SIGKILL
    said = {"object_id": made[0], "decision": "limit", "reason": "as said", "policy_version": 1}
    moderator.do("POST", "/v1/moderation/decisions", said)
    moderator.do("POST", "/v1/moderation/decisions", said | {"decision": "none"})  # nobody waited for this one
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(SEEN)
        wanted = {
            ("fanout", "pushes"): 4,
            ("fanout", "deliveries"): 4 * len(fans),
            ("report", "spam"): 3,
            ("decision", "limit"): 1,
            ("decision", "none"): 1,
            ("answer", "limit"): 1,
            ("propagation", "homes"): 2,
        }
        with process(system, "social_fanout", ""), sink(system):  # the one before was killed, maybe before it counted
            eventually(lambda: totals(in_clickhouse(system)) == wanted, 60, what="every measure is there")
            there = connection.execute(f"select {COLUMNS} from social_measure order by seq".encode()).fetchall()
        rows = in_clickhouse(system)
        assert (rows, [row[0] for row in rows]) == (there, list(range(1, len(there) + 1)))
        assert all(
            took_us > 0 for _, measure, subject, _, took_us in rows if (measure, subject) == ("fanout", "pushes")
        )
        assert min(took_us for _, measure, _, _, took_us in rows if measure in {"answer", "propagation"}) > 0
