"""Bank entries about our payouts to merchants: which are told to the owner, and which are findings."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from reconciliation.payments.settlement.bank.statement import take_in_statements
from reconciliation.payments.settlement.commands import Due, command_of
from schemas import identity
from tests.worlds.payments.settlement_world import SettlementWorld, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
ACCOUNT = identity.account_id("m_1")


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def payout(world: SettlementWorld, key: str, amount: int = 600, state: str = "pending") -> str:
    made = identity.payout_id(ACCOUNT, key)
    world.sql(
        "insert into payout values (%s, %s, 'm_1', %s, 'EUR', %s, 'main', null, '{}', 1, now(), now())",
        made,
        ACCOUNT,
        amount,
        state,
    )
    return made


def booked(world: SettlementWorld, name: str, *entries: tuple[str, int]) -> list[tuple[Any, ...]]:
    """Takes a statement in; class, posting and matched payout of each of its entries. Below zero left us."""
    return booked_entries(
        world, name, sum(amount for _, amount in entries), "".join(_entry(*entry) for entry in entries)
    )


def booked_entries(world: SettlementWorld, name: str, total: int, entries: str) -> list[tuple[Any, ...]]:
    opening = max(0, -total)
    xml = (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt>'
        f"<Id>{name}</Id><Acct><Id><IBAN>NL00PAYOUT</IBAN></Id></Acct>{_balance('OPBD', opening)}"
        f"{_balance('CLBD', opening + total)}{entries}</Stmt></BkToCstmrStmt></Document>"
    ).encode()
    with world.operator() as connection:
        take_in_statements(connection, (f"{name}.xml", xml), lambda: io.BytesIO(xml))
    return world.sql(
        "select class, posting, matched from settlement_line where report_id = %s order by line_no, line_id", name
    )


def _money(amount: int) -> str:
    side = "DBIT" if amount < 0 else "CRDT"
    return f'<Amt Ccy="EUR">{abs(amount) // 100}.{abs(amount) % 100:02d}</Amt><CdtDbtInd>{side}</CdtDbtInd>'


def _balance(code: str, amount: int) -> str:
    return f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp>{_money(amount)}</Bal>"


def _entry(end_to_end_id: str, amount: int) -> str:
    refs = f"<Refs><EndToEndId>{end_to_end_id}</EndToEndId></Refs>"
    return f"<Ntry>{_money(amount)}<Sts><Cd>BOOK</Cd></Sts><NtryDtls><TxDtls>{refs}</TxDtls></NtryDtls></Ntry>"


def test_an_entry_of_exactly_the_amount_is_told_once(world: SettlementWorld) -> None:
    made = payout(world, "a")
    assert booked(world, "S1", (made.upper(), -600)) == [("matched", "due", made)]
    assert booked(world, "S1", (made, -600)) == [("matched", "due", made)]
    assert booked(world, "S2", (made, -600)) == [("bank_duplicate", "none", None)]
    assert booked(world, "S3", (made, 600)) == [("matched", "due", made)]
    assert world.open_discrepancies() == [("bank_duplicate", made, 600)]


def test_what_is_known_already_is_not_told_again(world: SettlementWorld) -> None:
    """An operator was faster; or the money came back in an earlier statement than the one in which it left."""
    paid, failed, turned = payout(world, "p", state="paid"), payout(world, "f", state="failed"), payout(world, "t")
    assert booked(world, "S1", (paid, -600), (failed, 600)) == [("matched", "none", paid), ("matched", "none", failed)]
    assert booked(world, "S2", (turned, 600), (turned, -600)) == [
        ("matched", "due", turned),
        ("matched", "none", turned),
    ]
    assert world.open_discrepancies() == []


def test_a_payout_that_failed_and_was_paid_is_told_to_be_refused(world: SettlementWorld) -> None:
    """The owner refuses it as stale, and the refusal opens a case: the merchant may have the money twice."""
    made = payout(world, "x", state="failed")
    assert booked(world, "S1", (made, -600)) == [("matched", "due", made)]


@pytest.mark.parametrize(
    ("entry", "found"),
    [(-599, "bank_difference"), (-601, "bank_difference"), (1, "bank_difference")],
)
def test_another_amount_is_a_finding_and_no_fact(world: SettlementWorld, entry: int, found: str) -> None:
    made = payout(world, "d")
    assert booked(world, "S1", (made, entry)) == [(found, "none", None)]
    assert world.open_discrepancies() == [(found, made, abs(abs(entry) - 600))]


def test_an_entry_that_names_two_payouts_or_none_of_ours_is_for_a_person(world: SettlementWorld) -> None:
    one, two = payout(world, "1"), payout(world, "2")
    assert booked(world, "S1", (f"{one} {two}", -1_200), ("pt_unknown_aaaaaaaaaaaaaa", -5)) == [
        ("bank_unmatched", "none", None),
        ("bank_unmatched", "none", None),
    ]


def batch(world: SettlementWorld, name: str, total: int, *payments: tuple[str, int | None], size: int = 0) -> list[Any]:
    """One entry for several payments; a payment without an amount is only named, without payments it is a sum."""
    details = "".join(
        f"<TxDtls><Refs><EndToEndId>{payment}</EndToEndId></Refs>"
        f"{'' if amount is None else _money(amount).partition('<CdtDbtInd>')[0]}</TxDtls>"
        for payment, amount in payments
    )
    today = datetime.now(UTC).date().isoformat()
    entry = (
        f"<Ntry>{_money(total)}<Sts><Cd>BOOK</Cd></Sts><BookgDt><Dt>{today}</Dt></BookgDt>"
        f"<NtryDtls><Btch><NbOfTxs>{size or len(payments)}</NbOfTxs></Btch>{details}</NtryDtls></Ntry>"
    )
    return booked_entries(world, name, total, entry)


BATCH = ("batch", "none", None)


@pytest.mark.parametrize("told", [True, False])
def test_a_batch_is_matched_payment_by_payment(world: SettlementWorld, told: bool) -> None:
    one, two = payout(world, "1"), payout(world, "2", 700)
    payments = [(one, -600 if told else None), (two, -700 if told else None)]
    matched = [BATCH, ("matched", "due", one), ("matched", "due", two)]
    for _ in range(2):  # a statement that comes again changes nothing
        assert batch(world, "S1", -1_300, *payments) == matched
    assert world.open_discrepancies() == []
    assert world.sql("select lines, matched from settlement_report where report_id = 'S1'") == [(1, 1)]
    assert batch(world, "S2", -1_300, *payments) == [("bank_unmatched", "none", None)], "both left before"


def test_what_remains_of_a_batch_is_a_finding_of_its_amount(world: SettlementWorld) -> None:
    one, two = payout(world, "1"), payout(world, "2")
    payments = [(one, -600), (one, -600), ("stranger", -5), (two, -601)]
    assert batch(world, "S1", -1_806, *payments) == [
        BATCH,
        ("matched", "due", one),
        ("bank_duplicate", "none", None),
        ("bank_unmatched", "none", None),
        ("bank_difference", "none", None),
    ]
    assert world.open_discrepancies() == [
        ("bank_difference", two, 1),
        ("bank_duplicate", one, 600),
        ("bank_unmatched", "bank:NL00PAYOUT/S1", 5),
    ]
    assert world.sql("select lines, matched from settlement_report where report_id = 'S1'") == [(1, 0)]


def test_names_that_do_not_make_the_sum_match_nothing(world: SettlementWorld) -> None:
    one, two = payout(world, "1"), payout(world, "2")
    assert batch(world, "S1", -1_100, (one, None), (two, None)) == [("bank_unmatched", "none", None)]
    assert [(found, amount) for found, _, amount in world.open_discrepancies()] == [("bank_unmatched", 1_100)]


def test_a_batch_that_is_only_a_sum_is_matched_by_the_one_choice_that_makes_it(world: SettlementWorld) -> None:
    one, two, early = payout(world, "1"), payout(world, "2", 700), payout(world, "3", 650)
    world.sql("update payout set created_at = created_at - interval '2 days' where id = %s", early)
    payout(world, "4", 800, state="paid")
    assert batch(world, "S1", -1_300, size=3) == [("bank_unmatched", "none", None)], "another number of payments"
    assert batch(world, "S2", -1_301, size=2) == [("bank_unmatched", "none", None)]
    assert batch(world, "S3", -1_350, size=2) == [("bank_unmatched", "none", None)], "of two days, and not all"
    assert batch(world, "S4", 1_300, size=2) == [("bank_unmatched", "none", None)], "money that came in"
    matched = sorted([("matched", "due", one), ("matched", "due", two)])
    first, *singles = batch(world, "S5", -1_300, size=2)
    assert (first, sorted(singles)) == (BATCH, matched)
    assert batch(world, "S6", -1_300, size=2) == [("bank_unmatched", "none", None)], "they were matched"
    assert batch(world, "S7", -650, size=1) == [BATCH, ("matched", "due", early)]


def test_of_two_choices_none_is_taken(world: SettlementWorld) -> None:
    payout(world, "1"), payout(world, "2")
    world.sql("update payout set created_at = created_at - interval '2 days' where id = %s", payout(world, "3"))
    world.sql("update payout set created_at = created_at - interval '2 days' where id = %s", payout(world, "4"))
    assert batch(world, "S1", -1_200, size=2) == [("bank_unmatched", "none", None)]
    assert batch(world, "S2", -2_400, size=4)[0] == BATCH


def test_the_command_of_an_entry_is_the_same_whatever_statement_told_it() -> None:
    made = identity.payout_id(ACCOUNT, "a")
    line = dict.fromkeys(Due.__struct_fields__) | {"fee": 0, "difference": 0, "net": -600, "net_currency": "EUR"}
    line |= {"processor": "bank:NL00", "type": "bank_debit", "currency": "EUR", "gross": -600, "matched": made}
    first, second = (
        command_of(Due(**(line | {"line_id": name, "counterpart": "merchant:m_1"})), at)  # type: ignore[arg-type]
        for name, at in (("S1:1", 1), ("S2:7", 2))
    )
    assert (first.idempotency_key, first.request_hash) == (second.idempotency_key, second.request_hash)
    assert (first.aggregate_key, first.scope) == (ACCOUNT, "ledger:reconciliation")
    assert first.payload["status"] == "paid"
