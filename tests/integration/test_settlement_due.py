"""Lists of what owners have to be told: every line that is due stands in one, and they are read in bounded parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciliation.settlement.store import execute
from tests.settlement_world import SettlementWorld, line_of, payout_of, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Stack

pytestmark = pytest.mark.servers


@pytest.fixture
def world(stack: Stack) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def listed(world: SettlementWorld) -> list[tuple[str, str]]:
    """Lines in the lists of what owners have to be told."""
    return world.sql("select processor, unnest(lines) from settlement_due order by 1, 2")


def test_what_is_due_is_listed_once_and_read_in_bounded_lists(world: SettlementWorld) -> None:
    """Plain lines, judged ones and payouts alike; a line that came before is in no second list."""
    attempts = [world.capture(2_000 + n) for n in range(6)] + [world.refund()]
    rows = [line_of(attempt, f"ln_{n:04}") for n, attempt in enumerate(attempts)]
    rows[1] |= {"gross": rows[1]["gross"] - 1, "net": rows[1]["net"] - 1}
    orphan = rows[0] | {"line_id": "ln_x", "operation_id": "op_x_1", "reference": "pi_x", "provider_ref": "sim_x"}
    world.take_in([*rows, orphan, payout_of([*rows, orphan], "ln_payout")])
    due = world.sql("select processor, line_id from settlement_line where posting = 'due' order by 1, 2")
    assert len(due) == 8
    assert listed(world) == due
    world.take_in([*rows, orphan, payout_of([*rows, orphan], "ln_payout")], "rpt_again")
    assert listed(world) == due
    with world.operator() as connection:
        (first,) = execute(connection, "due_lists", after=0, limit=1).fetchall()
        rest = execute(connection, "due_lists", after=first[0], limit=5_000).fetchall()
        told = [
            row[1]
            for ids in ([first[0]], [row[0] for row in rest])
            for row in execute(connection, "postings_due", ids=ids)
        ]
        assert sorted(told) == [line_id for _, line_id in due]
        processors, lines = zip(*due, strict=True)
        execute(
            connection, "postings_done", processors=list(processors), lines=list(lines), postings=["decided"] * len(due)
        )
        assert execute(connection, "postings_due", ids=[first[0], *(row[0] for row in rest)]).fetchall() == []
