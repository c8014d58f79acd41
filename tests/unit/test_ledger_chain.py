"""The hash chain: any changed, missing, added or reordered entry gives another hash."""

from __future__ import annotations

from sinks.postgres.ledger_chain import GENESIS, ChainRow, link_hash
from tests.each import each

ROWS: list[ChainRow] = [
    (1, "op_1:capture", "capture", 1_800_000_000_000_000, 0, "processor_receivable:sim:USD", 500, 0, "USD"),
    (1, "op_1:capture", "capture", 1_800_000_000_000_000, 1, "merchant_pending:m_1:USD", 0, 500, "USD"),
]
LINK = link_hash(GENESIS, ROWS)


def test_the_link_is_written_down() -> None:
    """A change of the form would make every ledger that exists look tampered with."""
    assert LINK.hex() == "99cc268266d880c4239473bba399373f2ced7f774711253264419c2673ba96fb"
    assert len(LINK) == len(GENESIS) == 32


@each("place", range(9))
@each("row", [0, 1])
def test_every_field_counts(row: int, place: int) -> None:
    changed = [list(r) for r in ROWS]
    value = changed[row][place]
    changed[row][place] = value + 1 if isinstance(value, int) else f"{value}x"
    assert link_hash(GENESIS, [tuple(r) for r in changed]) != LINK  # type: ignore[arg-type]  # rows of one shape


def test_every_row_and_its_place_count() -> None:
    assert len({LINK, link_hash(GENESIS, ROWS[:1]), link_hash(GENESIS, ROWS[::-1]), link_hash(GENESIS, ROWS * 2)}) == 4


def test_what_came_before_counts() -> None:
    assert link_hash(LINK, ROWS) != LINK
