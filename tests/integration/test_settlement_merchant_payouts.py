"""Bank entries about our payouts to merchants: which are told to the owner, and which are findings."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from reconciliation.settlement.bank import take_in_statements
from reconciliation.settlement.commands import Due, command_of
from schemas import identity
from tests.settlement_world import SettlementWorld, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Stack

pytestmark = pytest.mark.servers
ACCOUNT = identity.account_id("m_1")


@pytest.fixture
def world(stack: Stack) -> Iterator[SettlementWorld]:
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
    total = sum(amount for _, amount in entries)
    opening = max(0, -total)
    xml = (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt>'
        f"<Id>{name}</Id><Acct><Id><IBAN>NL00PAYOUT</IBAN></Id></Acct>{_balance('OPBD', opening)}"
        f"{_balance('CLBD', opening + total)}{''.join(_entry(*entry) for entry in entries)}</Stmt></BkToCstmrStmt></Document>"
    ).encode()
    with world.operator() as connection:
        take_in_statements(connection, (f"{name}.xml", xml), lambda: io.BytesIO(xml))
    return world.sql("select class, posting, matched from settlement_line where report_id = %s order by line_no", name)


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
