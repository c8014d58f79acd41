"""Lists of what owners have to be told: every line that is due stands in one, and they are read in bounded parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reconciliation.payments.settlement.posting import (
    Posted,
    book_late_fees,
    post_due,
    refused_tell_anew,
    tell_outcomes,
)
from reconciliation.payments.settlement.store import SQL, execute
from schemas.payments import limits
from schemas.payments.facts import outcome_key
from tests.gate import examples
from tests.integration.test_check_invariants import rows_handled
from tests.worlds.payments.settlement_world import SettlementWorld, line_of, payout_of, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from schemas.records import Command
    from tests.servers import World

pytestmark = pytest.mark.servers


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
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
        (first,) = execute(connection, "due_lists", after=0, until=2**62, limit=1).fetchall()
        rest = execute(connection, "due_lists", after=first[0], until=2**62, limit=5_000).fetchall()
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


class Owners:
    """Decide what they are told, but for the lines that they are away for."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.away_for: set[str] = set()
        self.refuse = False

    def tell(self, commands: Sequence[Command]) -> dict[tuple[str, str], tuple[str, bytes]]:
        self.told += [c.idempotency_key for c in commands]
        here = [c for c in commands if c.idempotency_key not in self.away_for]
        said = ("rejected", b'{"code": "invalid_command"}') if self.refuse else ("committed", b"{}")
        return {(c.scope, c.idempotency_key): said for c in here}


def further_lines(world: SettlementWorld, first: int, count: int, **changes: Any) -> None:
    """Lines that were decided: of further payments of a charge, each with a fee of its own."""
    said = {"type": "charge", "finding": "duplicate", "posting": "decided", "fee": 12} | changes
    world.sql(
        """insert into settlement_line (processor, line_id, report_id, line_no, type, currency, gross, fee, net,
                                        net_currency, class, finding, posting)
           select 'simulator', 'ln_' || lpad(n::text, 7, '0'), 'rpt', n, %s, 'USD', 2000, %s, 1988, 'USD', 'x', %s, %s
           from generate_series(%s::int, %s::int) n""",
        said["type"], said["fee"], said["finding"], said["posting"], first, first + count - 1,
    )  # fmt: skip


def test_a_fee_is_looked_for_once_and_booked_when_it_is_nowhere(world: SettlementWorld) -> None:
    further_lines(world, 0, 3)
    further_lines(world, 3, 1, type="refund", finding="matched")
    further_lines(world, 4, 1, posting="refused")
    further_lines(world, 5, 1, posting="due")
    further_lines(world, 6, 1, fee=0)
    further_lines(world, 7, 1, finding="matched")  # its fee stands in the posting that settles it
    owners = Owners()
    expected = [f"simulator:ln_{n:07}:fee" for n in (0, 1, 2, 3)]
    owners.away_for = {expected[1]}
    with world.operator() as connection:
        assert book_late_fees(connection, owners) == 3  # type: ignore[arg-type] # a teller without a broker
        assert owners.told == expected
        owners.away_for = set()
        assert [book_late_fees(connection, owners) for _ in range(2)] == [1, 0]  # type: ignore[arg-type]
    assert owners.told == [*expected, expected[1]]


def test_looking_for_fees_costs_what_is_new_and_not_what_was(world: SettlementWorld) -> None:
    further_lines(world, 0, 20_000)
    further_lines(world, 20_000, 20_000, finding="matched")
    owners = Owners()
    with world.operator() as connection:
        assert book_late_fees(connection, owners) == 20_000  # type: ignore[arg-type]
        further_lines(world, 40_000, 3)
        for kept_up in ("vacuum settlement_line", "vacuum analyze settlement_line"):  # as the server does by itself
            world.sql(kept_up)
            explained = connection.execute(
                f"explain (analyze, timing off, format json) {SQL['fees_unchecked']}".encode(), {"limit": 5_000}
            ).fetchone()
            assert explained is not None
            assert 3 <= rows_handled(explained[0][0]["Plan"]) < 100, explained


def test_what_an_earlier_release_refused_is_told_anew_once(world: SettlementWorld) -> None:
    """An exchange and an unknown line, each as another command; refused again it is a person's, with its case open."""
    lines = {"ln_1/exchange": "exchange", "ln_2": "other", "ln_3": "payout"}
    for line_id, kind in lines.items():
        world.sql(
            """insert into settlement_line (processor, line_id, report_id, line_no, type, currency, gross, fee, net,
                                            net_currency, class, posted_gross, posting)
               values ('simulator', %s, 'rpt', 1, %s, 'EUR', 20, 0, 22, 'USD', 'x', 20, 'due')""",
            line_id, kind,
        )  # fmt: skip
    world.sql("insert into settlement_due (processor, report_id, lines, line_count) values ('simulator', 'rpt', %s, 3)",
              list(lines))  # fmt: skip
    owners = Owners()
    owners.refuse = True

    def run() -> Posted:
        with world.operator() as connection:
            refused_tell_anew(connection)
            return post_due(connection, owners, lambda _: None)  # type: ignore[arg-type] # a teller without a broker

    assert run().refused == 3
    assert [finding for finding, *_ in world.open_discrepancies()] == ["posting_refused"] * 3
    assert run().refused == 2
    assert [finding for finding, *_ in world.open_discrepancies()] == ["posting_refused"] * 3
    assert run() == Posted()
    assert len(set(owners.told)) == len(owners.told) == 5
    assert world.sql("select distinct state from repair_case") == [("open",)]


def test_what_was_refused_is_posted_after_the_upgrade(world: SettlementWorld) -> None:
    world.sql(
        """insert into settlement_line (processor, line_id, report_id, line_no, type, currency, gross, fee, net,
                                        net_currency, class, posted_gross, posting)
           values ('simulator', 'ln_2', 'rpt', 1, 'other', 'USD', 20, 0, 20, 'USD', 'x', 20, 'due')""")  # fmt: skip
    world.sql(
        "insert into settlement_due (processor, report_id, lines, line_count) values ('simulator', 'rpt', '{ln_2}', 1)"
    )
    owners = Owners()
    owners.refuse = True
    with world.operator() as connection:
        post_due(connection, owners, lambda _: None)  # type: ignore[arg-type] # a teller without a broker
        owners.refuse = False
        refused_tell_anew(connection)
        assert post_due(connection, owners, lambda _: None).decided == 1  # type: ignore[arg-type]
    assert world.sql("select posting, told from settlement_line") == [("decided", 2)]
    assert (world.open_discrepancies(), world.sql("select state from repair_case")) == ([], [("resolved",)])


def test_what_no_owner_decides_hides_nothing_that_is_due_behind_it(
    world: SettlementWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payment that is parked in every full list: all other lines are told, and the rest waits behind them."""
    full, lists = examples(500, limits.SETTLEMENT_COPY_LINES), 3
    monkeypatch.setattr(limits, "SETTLEMENT_COPY_LINES", full)
    for number in range(lists):
        further_lines(world, number * full, full if number < lists - 1 else 10, posting="due")
        world.sql(
            """insert into settlement_due (processor, report_id, lines, line_count)
               select processor, report_id, array_agg(line_id), count(*) from settlement_line
               where line_no >= %s and line_no < %s group by 1, 2""",
            number * full, (number + 1) * full,
        )  # fmt: skip
    lines = world.sql("select line_id from settlement_line order by line_no")
    parked = {lines[number * full][0] for number in range(lists)}
    owners = Owners()
    owners.away_for = set(parked)

    def run() -> Posted:
        with world.operator() as connection:
            return post_due(connection, owners, lambda _: None)  # type: ignore[arg-type] # a teller without a broker

    def due() -> set[str]:
        return {line_id for (line_id,) in world.sql("select line_id from settlement_line where posting = 'due'")}

    assert run() == Posted(decided=2 * full + 10 - lists, undecided=lists)
    assert due() == parked == {line_id for _, line_id in listed(world)}
    assert run() == Posted(undecided=lists)
    assert {line_id for _, line_id in listed(world)} == parked
    owners.away_for = set()
    assert run() == Posted(decided=lists)
    assert (due(), listed(world)) == (set(), [])


def test_a_fact_that_no_owner_decides_hides_none_behind_it(
    world: SettlementWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of parked payments there may be as many as are told at once; where owners are away, the rest is for the next run."""
    monkeypatch.setattr(limits, "SETTLEMENT_COPY_LINES", 2)
    open_here = [world.capture(700 + n, status="unknown", provider_ref=None) for n in range(5)]
    world.take_in([line_of(one | {"provider_ref": f"sim_{n}"}, f"ln_{n}") for n, one in enumerate(open_here)])
    facts_of = [outcome_key(one["operation_id"], "captured") for one in open_here]
    owners = Owners()
    owners.away_for = {facts_of[0]}
    with world.operator() as connection:
        assert tell_outcomes(connection, owners) == 5  # type: ignore[arg-type] # a teller without a broker
        assert owners.told == facts_of
        owners.away_for = set(facts_of)
        assert tell_outcomes(connection, owners) == 2  # type: ignore[arg-type]
