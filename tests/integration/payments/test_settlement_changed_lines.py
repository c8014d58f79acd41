"""Lines that come again and say something else: by how much, in whose result, and what a person settled of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from schemas.payments import limits
from tests.integration.payments.test_settlement_files import STRIPE, given
from tests.worlds.payments.settlement_world import SettlementWorld, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reconciliation.payments.settlement.file_result import FileResult
    from tests.servers import World

pytestmark = pytest.mark.servers

FIRST = b"10.00,0.50,9.50"


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def changed(result: FileResult) -> list[tuple[int, str | None]]:
    """What a result tells of lines that changed."""
    return [(one.amount, one.detail) for one in result.discrepancies if one.found_class == "changed_line"]


def saying(world: SettlementWorld, path: Path, amounts: bytes) -> FileResult:
    """A file that has the first line with these amounts, and none that is new."""
    return given(world, path, STRIPE.replace(FIRST, amounts), "stripe")


def settle(world: SettlementWorld, case_id: str) -> None:
    """Two persons close a case."""
    close = "select case_close(%s, %s, 'explained', 'as the processor wrote', 'ann', '\\x01', %s)"
    closing_id, days = f"cc_{case_id}", limits.SETTLEMENT_HORIZON_DAYS
    assert world.sql(close, closing_id, case_id, days) == [("proposed",)]
    assert world.sql("select case_close_approve(%s, %s, 'bob', %s)", closing_id, case_id, days) == [("closed",)]


@pytest.mark.parametrize(
    ("amounts", "differs"),
    [
        (b"10.00,0.70,9.30", (20, "charge in line 2 says fee 70, net 930 now and said fee 50, net 950 before")),
        (b"9.00,0.50,8.50", (100, "charge in line 2 says gross 900, net 850 now and said gross 1000, net 950 before")),
        (b"10.00,0.50,9.40", (10, "charge in line 2 says net 940 now and said net 950 before")),
    ],
)
def test_a_line_that_changed_is_told_by_what_changed_and_in_the_result_of_the_file_that_says_so(
    world: SettlementWorld, tmp_path: Path, amounts: bytes, differs: tuple[int, str]
) -> None:
    assert changed(given(world, tmp_path / "first.csv", STRIPE, "stripe")) == []
    assert changed(saying(world, tmp_path / "second.csv", amounts)) == [differs]
    again = saying(world, tmp_path / "second.csv", amounts)
    assert (again.state, changed(again)) == ("known", [differs])
    same = given(world, tmp_path / "same.csv", STRIPE + b"\n", "stripe")
    assert changed(same) == [], "a file that says what the first one said"


def test_a_line_of_another_currency_differs_by_all_of_it(world: SettlementWorld, tmp_path: Path) -> None:
    given(world, tmp_path / "first.csv", STRIPE, "stripe")
    (found,) = changed(given(world, tmp_path / "euros.csv", STRIPE.replace(b"USD,10", b"EUR,10"), "stripe"))
    assert found == (1_000, "charge in line 2 says currency EUR now and said currency USD before")


def test_what_a_person_settled_comes_back_only_as_another_version(world: SettlementWorld, tmp_path: Path) -> None:
    """With a case of its own; the version that was settled says nothing more, in whatever file it stands."""
    given(world, tmp_path / "first.csv", STRIPE, "stripe")
    saying(world, tmp_path / "second.csv", b"10.00,0.70,9.30")
    case = "select id from repair_case where reference = 'txn_1' and state <> 'resolved'"
    ((case_id,),) = world.sql(case)
    settle(world, case_id)
    resent = given(world, tmp_path / "resent.csv", STRIPE.replace(FIRST, b"10.00,0.70,9.30") + b"\n", "stripe")
    assert (changed(resent), world.sql(case)) == ([], [])
    third = saying(world, tmp_path / "third.csv", b"10.00,0.80,9.20")
    assert [amount for amount, _ in changed(third)] == [30]
    ((new_case,),) = world.sql(case)
    assert new_case != case_id
    settle(world, new_case)
    back = given(world, tmp_path / "back.csv", STRIPE.replace(FIRST, b"10.00,0.70,9.30") + b"\n\n", "stripe")
    assert (changed(back), world.sql(case)) == ([], [])


def test_a_third_version_is_told_while_the_second_waits(world: SettlementWorld, tmp_path: Path) -> None:
    """One question about one line: with what was said last, and as old as it is."""
    given(world, tmp_path / "first.csv", STRIPE, "stripe")
    (second,) = (one for one in saying(world, tmp_path / "2.csv", b"10.00,0.70,9.30").discrepancies if one.amount == 20)
    third = saying(world, tmp_path / "3.csv", b"10.00,0.80,9.20").discrepancies
    (found,) = (one for one in third if one.found_class == "changed_line")
    assert (found.amount, found.case_id, found.first_seen) == (30, second.case_id, second.first_seen)
