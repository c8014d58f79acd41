"""Money of a dispute that ended for the merchant and never came back: a case until persons answer, and an invariant."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from reconciliation.payments.repair.lists import aged_cases_open
from schemas.payments.limits import SETTLEMENT_HORIZON_DAYS
from tests.worlds.sink_stage import Stage, cloned, new_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
ONE: str = "id = (select min(id) from dispute where state = 'lost' and funds = 'withdrawn')"


@pytest.fixture(scope="module")
def history(stack: World) -> Iterator[Stage]:
    """Payments with disputes that were lost, long ago, and all that was old then has its case."""
    with new_stage(stack.settings, payments=20) as stage:
        with psycopg.connect(stage.dsn(), autocommit=True) as connection:
            stage.world.store(connection)
        swept(stage)
        yield stage


@pytest.fixture
def stage(history: Stage) -> Iterator[Stage]:
    with cloned(history) as copied:
        yield copied


@contextmanager
def by(stage: Stage, role: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(stage.dsn(role), autocommit=True) as connection:
        yield connection


def swept(stage: Stage) -> list[Any]:
    """The cases that a sweep opened."""
    with by(stage, "millrace_operator") as connection:
        return aged_cases_open(connection)


def gaps(stage: Stage) -> int:
    return stage.finding("aged_disputes").gaps


def answered(stage: Stage, case_id: str) -> list[object]:
    """What closing the case comes to, by one person and then by another."""
    with by(stage, "millrace_ingress") as ingress:
        close = ("select case_close('cc_1', %s, 'explained', 'n', 'ann', '', %s)", (case_id, SETTLEMENT_HORIZON_DAYS))
        approve = ("select case_close_approve('cc_1', %s, 'bob', %s)", (case_id, SETTLEMENT_HORIZON_DAYS))
        return [row[0] for query, given in (close, approve) if (row := ingress.execute(query, given).fetchone())]


@pytest.mark.parametrize("state", ["won", "prevented", "warning_closed"])
def test_it_is_asked_for_until_two_persons_answer(stage: Stage, state: str) -> None:
    """It is the merchant's, lies at the processor, and nothing else would ever speak of it again."""
    assert gaps(stage) == 0
    stage.sql(f"update dispute set state = '{state}' where {ONE}")
    assert gaps(stage) == 1
    (opened,) = swept(stage)
    assert gaps(stage) == 0
    assert swept(stage) == [], "one is enough"
    assert answered(stage, opened["id"]) == ["proposed", "closed"]
    assert swept(stage) == []
    assert gaps(stage) == 0
    stage.sql("update repair_case set resolved_at = (select min(created_at) from dispute) where kind = 'aged_dispute'")
    assert gaps(stage) == 1, "something was heard of it since they answered"
    assert [case["reference"] for case in swept(stage)] == [opened["reference"]]


@pytest.mark.parametrize("later", ["updated_at = now()", "funds = 'reinstated'"])
def test_money_that_came_back_or_may_yet_is_no_case(stage: Stage, later: str) -> None:
    stage.sql(f"update dispute set state = 'won', {later} where {ONE}")
    assert gaps(stage) == 0
    assert swept(stage) == []
