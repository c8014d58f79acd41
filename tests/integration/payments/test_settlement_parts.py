"""Lines after the first one of a movement: later parts and duplicates, each told with its own amount and fee."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.payments.settlement_world import SettlementWorld, line_of, payout_of, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def test_a_part_of_a_later_report_ends_the_shortage(world: SettlementWorld) -> None:
    """Split over days: what was short is explained, and suspense is empty again."""
    charge = line_of(world.capture(), "ln_1")
    first = charge | {"gross": 500, "net": 500 - charge["fee"]}
    world.take_in([first, payout_of([first])])
    assert world.open_discrepancies() == [("short", charge["reference"], 1_500)]
    assert world.suspense() == -1_500
    rest = charge | {"line_id": "ln_rest", "gross": 1_500, "fee": 0, "net": 1_500}
    world.take_in([rest, payout_of([rest], "ln_payout_2")], "rpt_2")
    assert world.open_discrepancies() == []
    assert world.suspense() == 0
    assert world.sql("select state from repair_case") == [("resolved",)]


def test_fees_of_parts_over_two_reports_must_add_up(world: SettlementWorld) -> None:
    """Every part brings its own fee; what all of them are off by is told when the last one is there."""
    charge = line_of(world.capture(), "ln_1")
    fee = charge["fee"]
    first = charge | {"gross": 500, "fee": 3, "net": 497}
    world.take_in([first, payout_of([first])])
    rest = charge | {"line_id": "ln_rest", "gross": 1_500, "fee": fee, "net": 1_500 - fee}
    world.take_in([rest, payout_of([rest], "ln_payout_2")], "rpt_2")
    before = world.state()
    world.take_in([rest, payout_of([rest], "ln_payout_2")], "rpt_resent")
    assert world.state() == before
    assert world.open_discrepancies() == [("fee_difference", charge["reference"], 3)]
    assert world.due() == {"ln_1": ("short", 500, 3, 1_500), "ln_rest": ("duplicate", 1_500, fee, 1_500)}
    assert world.suspense() == 0
    assert world.sql("select state from repair_case order by 1") == [("open",), ("resolved",)], "of the fee; of short"


def test_a_duplicate_is_told_with_the_fee_that_was_taken_for_it(world: SettlementWorld) -> None:
    charge = line_of(world.capture(), "ln_1")
    world.take_in([charge, charge | {"line_id": "ln_again"}])
    assert world.due()["ln_again"] == ("duplicate", 2_000, 12, 2_000)
    assert world.sql("select evidence ->> 'detail' from repair_case") == [("charge of 2000, fee 12, expected 2000",)]
