"""Finished dispatch rows leave after their time, a step at a time, and what is done is not done again for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from schemas.payments import limits
from tests.eventually import becomes
from tests.worlds.payments.attempts_world import AttemptsWorld, new_attempt, world

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["world"]
pytestmark = pytest.mark.servers

_INSERT = """
insert into attempt_dispatch (operation_id, intent_id, attempt, processor, kind, amount, currency, payment_method, final,
    merchant_id, trace_id, status, in_doubt, send_count, next_at, first_at, updated_at)
select format('op_%%s_%%s', %(status)s::text, n), format('pi_%%s_%%s', %(status)s::text, n), 1, 'elsewhere', 'purchase', 1,
    'USD', 'tok', true, 'm_test', 't', %(status)s, false, 1, now() + interval '1 year', now(),
    now() - %(age_s)s * interval '1 second'
from generate_series(1, %(count)s) n
"""


@pytest.fixture(autouse=True)
def nothing_stays(world: AttemptsWorld) -> Iterator[None]:
    """What a test started ends with it, however it ends."""
    yield
    world.end_all()


def rows(world: AttemptsWorld, status: str) -> int:
    with world.database() as connection:
        return int(
            connection.execute(
                "select count(*) from attempt_dispatch where processor = 'elsewhere' and status = %s", (status,)
            ).fetchall()[0][0]
        )


def test_old_finished_rows_leave_and_nothing_else(world: AttemptsWorld) -> None:
    """More than one step's worth, at once; what is young or unfinished stays."""
    old_s, count = limits.ATTEMPT_DONE_KEPT_S + 60, limits.ATTEMPT_PRUNE_BATCH_MAX * 2 + 7
    with world.database() as connection:
        connection.execute(_INSERT, {"status": "done", "age_s": old_s, "count": count})
        connection.execute(_INSERT, {"status": "reported", "age_s": old_s, "count": 3})
        connection.execute(_INSERT, {"status": "review", "age_s": old_s, "count": 3})
        connection.execute(
            "update attempt_dispatch set updated_at = now() - %s * interval '1 second' where operation_id = 'op_done_1'",
            (limits.ATTEMPT_DONE_KEPT_S - 60,),
        )
    world.start("processor_worker")
    becomes(lambda: rows(world, "done"), 1, 15)
    assert (rows(world, "reported"), rows(world, "review")) == (3, 3)


def test_a_pruned_attempt_is_not_carried_out_again(world: AttemptsWorld) -> None:
    """The stream keeps its events for ever: read from the beginning, they meet an attempt that has its outcome."""
    world.start("simulator")
    world.start("processor_worker")
    settled, fresh = new_attempt(), new_attempt()
    with world.database() as connection:
        connection.execute(
            "insert into processor_attempt (intent_id, attempt, kind, status, operation_id, processor, amount, currency,"
            " payment_method, final, created_at, updated_at) values (%(intent_id)s, %(attempt)s, %(kind)s, 'captured',"
            " %(operation_id)s, %(processor)s, %(amount)s, %(currency)s, %(payment_method)s, %(final)s, now(), now())",
            settled,
        )
    world.publish(settled)
    world.publish(settled, fresh)
    world.fact(fresh, "captured")
    assert world.row(settled) is None
    assert world.effects()[settled["operation_id"]] == 0
    world.settle(settled, "captured")
    assert world.row_reaches(settled, "done")["send_count"] == 0
