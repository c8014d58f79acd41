"""What goes back: payouts that the bank had booked, refunds and disputes that no report names, findings that come again."""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from reconciliation.payments.settlement.bank.statement import take_in_statements
from reconciliation.payments.settlement.commands import Due, command_of
from reconciliation.payments.settlement.ingest import early_lines_wait, take_in_waiting
from reconciliation.payments.settlement.store import execute
from tests.worlds.payments.settlement_world import SettlementWorld, line_of, payout_of, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
PAYOUT, NET = "po_ln_payout", 1_988  # of one capture of 2000, less 60 basis points


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def reported(world: SettlementWorld, *, came_back: bool = False) -> None:
    """A report with a payout, which comes back in a later one."""
    rows = [line_of(world.capture(), "ln_1")]
    payout = payout_of(rows)
    world.take_in([*rows, payout])
    if came_back:
        processor_says_it_came_back(world)


def processor_says_it_came_back(world: SettlementWorld) -> None:
    back = {"type": "payout_reversal", "operation_id": "", "reference": PAYOUT, "provider_ref": PAYOUT, "gross": NET,
            "fee": 0, "net": NET}  # fmt: skip
    world.take_in([line_of(world.attempts[0], "ln_back") | back], "rpt_2")


def booked(world: SettlementWorld, name: str, amount: int, about: str = PAYOUT, *, reversal: bool = False) -> str:
    """One entry of a statement of its own; the class that it was given."""

    def money(minor: int) -> str:
        side = "CRDT" if minor >= 0 else "DBIT"
        return f'<Amt Ccy="USD">{abs(minor) // 100}.{abs(minor) % 100:02d}</Amt><CdtDbtInd>{side}</CdtDbtInd>'

    name = name.replace(" ", "-")
    said = "<RvslInd>true</RvslInd>" if reversal else ""
    xml = (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt>'
        f"<Id>{name}</Id><Acct><Id><IBAN>NL00BACK</IBAN></Id></Acct>"
        f"<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp>{money(0)}</Bal>"
        f"<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp>{money(amount)}</Bal>"
        f"<Ntry>{money(amount)}{said}<Sts><Cd>BOOK</Cd></Sts><NtryDtls><TxDtls><Refs><EndToEndId>{about}</EndToEndId>"
        "</Refs></TxDtls></NtryDtls></Ntry></Stmt></BkToCstmrStmt></Document>"
    ).encode()
    with world.operator() as connection:
        take_in_statements(connection, (name, xml), lambda: io.BytesIO(xml))
    ((found,),) = world.sql("select class from settlement_line where report_id = %s", name)
    return str(found)


def posted(world: SettlementWorld) -> dict[str, int]:
    """What owners are told of payouts, added up by account; and that each is told once."""
    with world.operator() as connection:
        lists = [row[0] for row in execute(connection, "due_lists", after=0, until=2**62, limit=5_000)]
        rows = [Due(**dict(zip(Due.__struct_fields__, row, strict=True))) for row in execute(connection, "postings_due", ids=lists)]  # fmt: skip
    commands = [command_of(due, 0) for due in rows if due.finding is None]
    references = [str(command.payload["reference"]) for command in commands]
    assert len(references) == len(set(references))
    balances: Counter[str] = Counter()
    for command in commands:
        entries = command.payload["entries"]
        assert isinstance(entries, list)
        for entry in entries:
            balances[entry["account_id"]] += entry["debit"] - entry["credit"]
    return {account: amount for account, amount in balances.items() if amount}


@pytest.mark.parametrize("reversal", [False, True])
@pytest.mark.parametrize(
    "order", ["received, said, taken back", "received, taken back, said", "said, received, taken back"]
)
def test_a_payout_that_failed_after_the_bank_had_booked_it_leaves_nothing_in_transit(
    world: SettlementWorld, order: str, reversal: bool
) -> None:
    """Paid, then failed: in whatever order processor and bank say so, the processor owes it again and nobody else does."""
    reported(world)
    classes = []
    for step in order.split(", "):
        if step == "said":
            processor_says_it_came_back(world)
        else:
            taken_back = step == "taken back"
            classes.append(booked(world, step, -NET if taken_back else NET, reversal=reversal and taken_back))
    assert classes == ["matched", "matched"]
    assert posted(world) == {}
    assert world.open_discrepancies() == [("payout_returned", PAYOUT, NET)]


def test_what_the_bank_takes_back_is_the_payout_by_name_and_amount_and_once(world: SettlementWorld) -> None:
    """Anything else that leaves the account is a person's, and never posted."""
    reported(world, came_back=True)
    assert booked(world, "before it came", -NET) == "bank_difference"
    assert booked(world, "came", NET) == "matched"
    assert booked(world, "another amount", -NET - 1) == "bank_unmatched"
    assert booked(world, "another name", -NET, "po_another") == "bank_unmatched"
    assert booked(world, "back", -NET) == "matched"
    assert booked(world, "back again", -NET) == "bank_unmatched"
    assert posted(world) == {}


def test_a_payout_that_came_back_is_not_guessed_to_be_an_entry_without_its_name(world: SettlementWorld) -> None:
    reported(world, came_back=True)
    assert booked(world, "of its amount", NET, "somebody") == "bank_unmatched"


def test_refunds_and_disputes_that_no_report_names_are_missing(world: SettlementWorld) -> None:
    """They are money of ours that a processor keeps, or took without saying; their lines end it."""
    first, refund = world.capture(), world.refund()
    disputed = world.capture(5_000)
    world.sql(
        "insert into dispute values ('dp_1', %s, 'm_1', 'simulator', 'sim_dp_1', 3000, 'USD', 1500, null, 'lost',"
        " 'withdrawn', 1, %s, %s)",
        disputed["intent_id"], disputed["created_at"], disputed["updated_at"],
    )  # fmt: skip
    last = world.capture(700)
    world.take_in([line_of(attempt, f"ln_{n}") for n, attempt in enumerate((first, disputed, last))])
    expected = [("missing", refund["intent_id"], 500), ("missing", disputed["intent_id"], 3_000)]
    assert world.open_discrepancies() == sorted(expected)
    taken = line_of(disputed, "ln_d", type="dispute", provider_ref="sim_dp_1", gross=-3_000, fee=1_500)
    world.take_in([line_of(refund, "ln_r"), taken], "rpt_2")
    assert world.open_discrepancies() == []


def judged_again(world: SettlementWorld) -> None:
    """As every run does with what waits."""
    with world.operator() as connection:
        early_lines_wait(connection)
        for processor, report_id in execute(connection, "reports_waiting").fetchall():
            take_in_waiting(connection, processor, report_id)


@pytest.mark.parametrize("name", ["sim_dp_1", "another"])
def test_a_dispute_that_a_report_names_first_is_explained_once_it_is_known(world: SettlementWorld, name: str) -> None:
    """Until its webhook comes it is about nothing that we know, and a case; known by name, or by payment and amount."""
    disputed = world.capture(5_000)
    taken = line_of(disputed, "ln_d", type="dispute", provider_ref=name, gross=-3_000, fee=1_500)
    world.take_in([line_of(disputed, "ln_1"), taken])
    for _ in range(2):
        assert world.open_discrepancies() == [("orphan", disputed["intent_id"], 3_000)]
        assert open_cases(world) == [(disputed["intent_id"], "open")]
        judged_again(world)
    dispute_known(world, disputed)
    for _ in range(2):
        judged_again(world)
        assert (world.open_discrepancies(), open_cases(world)) == ([], [])
        assert world.sql("select class, matched, case_id, posting from settlement_line where line_id = 'ln_d'") == [
            ("matched", "dp_1", None, "none")
        ]
    assert world.sql("select lines, matched from settlement_report") == [(2, 2)]


def test_a_dispute_that_a_person_works_on_stays_with_that_person(world: SettlementWorld) -> None:
    """Something was proposed for its case, or decided, before we were told of it."""
    disputed = world.capture(5_000)
    world.take_in([line_of(disputed, "ln_d", type="dispute", provider_ref="sim_dp_1", gross=-3_000, fee=1_500)])
    dispute_known(world, disputed)
    for state in ("proposed", "open"):
        world.sql("update repair_case set state = %s", state)
        judged_again(world)
        assert len(world.open_discrepancies()) == (state == "proposed")
    world.sql("update settlement_line set class = 'orphan', matched = null")  # as a person's end of it leaves the line
    judged_again(world)
    assert world.sql("select class from settlement_line where line_id = 'ln_d'") == [("orphan",)]


def dispute_known(world: SettlementWorld, disputed: dict[str, Any], name: str = "dp_1") -> None:
    world.sql(
        "insert into dispute values (%s, %s, 'm_1', 'simulator', %s, 3000, 'USD', 1500, null, 'lost',"
        " 'withdrawn', 1, now(), now())",
        name, disputed["intent_id"], f"sim_{name}",
    )  # fmt: skip


@pytest.mark.parametrize("known_first", [True, False])
def test_a_dispute_that_took_its_money_twice_has_two_lines_of_one_name(
    world: SettlementWorld, *, known_first: bool
) -> None:
    """The second withdrawal is a dispute of its own here; the third such line is one too many."""
    disputed = world.capture(5_000)
    lines = [
        line_of(disputed, f"ln_{n}", type="dispute", provider_ref="sim_dp_1", gross=-3_000, fee=1_500) for n in range(3)
    ]
    dispute_known(world, disputed)
    if known_first:
        dispute_known(world, disputed, "dp_1:2")
    world.take_in([line_of(disputed, "ln_c"), lines[0]])
    world.take_in([lines[1]], "rpt_2")
    assert len(world.open_discrepancies()) == (not known_first)
    if not known_first:
        judged_again(world)
        dispute_known(world, disputed, "dp_1:2")
        judged_again(world)
    assert (world.open_discrepancies(), open_cases(world)) == ([], [])
    assert world.sql("select matched, class from settlement_line where type = 'dispute' order by line_id") == [
        ("dp_1", "matched"),
        ("dp_1:2", "matched"),
    ]
    world.take_in([lines[2]], "rpt_3")
    judged_again(world)
    assert world.open_discrepancies() == [("duplicate", disputed["intent_id"], 3_000)]


def test_of_two_lines_too_many_one_is_explained_and_the_other_stays_told(world: SettlementWorld) -> None:
    disputed = world.capture(5_000)
    dispute_known(world, disputed)
    for n in range(3):
        line = line_of(disputed, f"ln_{n}", type="dispute", provider_ref="sim_dp_1", gross=-3_000, fee=1_500)
        world.take_in([line], f"rpt_{n}")
    assert len(world.open_discrepancies()) == 2
    dispute_known(world, disputed, "dp_1:2")
    for _ in range(2):
        judged_again(world)
        assert world.open_discrepancies() == [("duplicate", disputed["intent_id"], 3_000)]
        assert open_cases(world) == [(disputed["intent_id"], "open")]


@pytest.mark.parametrize("named", [True, False])
def test_money_that_our_record_denied_is_settled_once_it_was_taken_over(world: SettlementWorld, *, named: bool) -> None:
    """The capture was adopted by two persons; until its line is judged again the merchant's money stays pending."""
    denied = world.capture(700, status="declined", error_code="card_declined")
    line = line_of(denied, "ln_d") | ({} if named else {"operation_id": "", "provider_ref": ""})
    world.take_in([line])
    for _ in range(2):
        assert world.open_discrepancies() == [("orphan", denied["intent_id"], 700)]
        judged_again(world)
    world.sql("update processor_attempt set status = 'captured', error_code = null")
    judged_again(world)
    assert (world.open_discrepancies(), open_cases(world)) == ([], [])
    assert world.due() == {"ln_d": ("matched", 700, line["fee"], 0)}


def test_a_refund_that_came_back_in_a_report_first_is_explained_once_we_know(world: SettlementWorld) -> None:
    world.capture(5_000)
    refund = world.refund()
    back = line_of(refund, "ln_b", type="refund_reversal", gross=500)
    world.take_in([line_of(refund, "ln_r"), back])
    assert world.open_discrepancies() == [("orphan", refund["intent_id"], 500)]
    world.sql("update processor_attempt set settled_line = 'ln_r', status = 'failed' where kind = 'refund'")
    judged_again(world)
    assert (world.open_discrepancies(), open_cases(world)) == ([], [])
    world.take_in([back | {"line_id": "ln_again"}], "rpt_2")
    assert world.open_discrepancies() == [("duplicate", refund["intent_id"], 500)]


def test_a_young_refund_is_not_missing_yet(world: SettlementWorld) -> None:
    """It may still be called back; the report of tomorrow may have it."""
    first = world.capture()
    world.refund()
    last = world.capture(700)
    world.sql("update processor_attempt set created_at = now(), updated_at = now()")
    world.take_in([line_of(attempt, f"ln_{n}") for n, attempt in enumerate((first, last))])
    assert world.open_discrepancies() == []


def open_cases(world: SettlementWorld) -> list[tuple[str, str]]:
    return world.sql("select reference, state from repair_case where state <> 'resolved'")  # type: ignore[return-value]  # rows of two


def test_what_comes_back_after_it_was_explained_waits_for_a_person_again(world: SettlementWorld) -> None:
    broken = "line_id;gross\n".encode("utf-16")
    for text in (broken, None, broken, None, broken):
        world.take_in([], text=text)
        expected = [("rpt_1", "open")] if text else []
        assert open_cases(world) == expected
        assert [reference for _, reference, _ in world.open_discrepancies()] == [name for name, _ in expected]
    assert world.sql("select count(*) from repair_case") == [(1,)]


def test_what_a_person_settled_does_not_come_back(world: SettlementWorld) -> None:
    """The capture stays without a line for ever; that its loss was written off is the end of it."""
    rows = [line_of(world.capture(2_000 + n), f"ln_{n}") for n in range(3)]
    world.take_in([rows[0], rows[2]])
    assert world.open_discrepancies() == [("missing", rows[1]["reference"], 2_001)]
    world.sql(
        "update repair_case set state = 'resolved', resolved_at = clock_timestamp(), resolved_by = 'ann, bob';"
        "update settlement_discrepancy set state = 'resolved', resolved_at = clock_timestamp()"
    )
    world.take_in([], "rpt_2")
    assert (world.open_discrepancies(), open_cases(world)) == ([], [])
