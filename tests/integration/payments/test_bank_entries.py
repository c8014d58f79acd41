"""Bank entries are known by what they are: a statement that has the name of an earlier one loses none of its own."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from reconciliation.payments.settlement.bank.statement import take_in_statements
from tests.worlds.payments.settlement_world import SettlementWorld, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def money(amount: int) -> str:
    side = "DBIT" if amount < 0 else "CRDT"
    return f'<Amt Ccy="EUR">{abs(amount) // 100}.{abs(amount) % 100:02d}</Amt><CdtDbtInd>{side}</CdtDbtInd>'


def balance(code: str, amount: int) -> str:
    return f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp>{money(amount)}</Bal>"


def entry(amount: int, name: str = "x", bank_name: str = "") -> str:
    own = f"<AcctSvcrRef>{bank_name}</AcctSvcrRef>" if bank_name else ""
    refs = f"<NtryDtls><TxDtls><Refs><EndToEndId>{name}</EndToEndId></Refs></TxDtls></NtryDtls>"
    return f"<Ntry>{money(amount)}<Sts>BOOK</Sts><BookgDt><Dt>2026-01-03</Dt></BookgDt>{own}{refs}</Ntry>"


def statement(name: str, total: int, *entries: str, balances: bool = True) -> str:
    both = balance("OPBD", 100_000) + balance("CLBD", 100_000 + total) if balances else ""
    account = "<Acct><Id><IBAN>NL00BANK</IBAN></Id></Acct>"
    return f"<Stmt><Id>{name}</Id>{account}{both}{''.join(entries)}</Stmt>"


def take_in(world: SettlementWorld, *statements: str) -> int:
    """Takes a file of these statements in; how many of its entries were new."""
    head = '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>'
    xml = f"{head}{''.join(statements)}</BkToCstmrStmt></Document>".encode()
    with world.operator() as connection:
        return take_in_statements(connection, ("bank.xml", xml), lambda: io.BytesIO(xml)).lines


def amounts(world: SettlementWorld) -> list[int]:
    return [row[0] for row in world.sql("select gross from settlement_line where part_of is null order by gross")]


def test_a_statement_of_a_known_name_with_other_entries_loses_none(world: SettlementWorld) -> None:
    first, second = statement("1", 300, entry(300)), statement("1", 430, entry(500, "y"), entry(-70, "z"))
    assert [take_in(world, first), take_in(world, second)] == [1, 2]
    assert amounts(world) == [-70, 300, 500]
    changed = [found for found in world.open_discrepancies() if found[0] == "changed_statement"]
    assert changed == [("changed_statement", "bank:NL00BANK/1", 500)], "only the first stands in the place of another"
    before = world.state()
    assert [take_in(world, first), take_in(world, second)] == [0, 0], "each of them is known now"
    assert world.state() == before


def test_an_entry_that_the_bank_names_is_the_same_in_every_statement(world: SettlementWorld) -> None:
    """A statement of the day, and one of the month that has its entries again with what came later."""
    day = statement("day", 300, entry(300, bank_name="R1"))
    month = statement("month", 600, entry(100, bank_name="R0"), entry(300, bank_name="R1"), entry(200, bank_name="R1"))
    assert [take_in(world, day), take_in(world, month), take_in(world, month)] == [1, 2, 0]
    assert amounts(world) == [100, 200, 300]


def test_equal_entries_of_one_statement_are_as_many_as_stand_there(world: SettlementWorld) -> None:
    assert take_in(world, statement("1", -10, entry(-5), entry(-5))) == 2
    assert take_in(world, statement("1", -15, entry(-5), entry(-5), entry(-5))) == 1
    assert take_in(world, statement("2", -5, entry(-5))) == 1, "without a name of the bank's it is another statement's"


def test_entries_that_were_taken_in_before_contents_were_kept_are_known(world: SettlementWorld) -> None:
    """A home of an earlier version."""
    whole = statement("1", 430, entry(500, "y"), entry(-70, "z"))
    assert take_in(world, whole) == 2
    world.sql("update settlement_line set content = null")
    assert take_in(world, whole) == 0
    assert take_in(world, statement("1", 501, entry(501, "y"))) == 1


def test_one_bad_entry_is_a_finding_and_the_rest_of_its_statement_is_one_case(world: SettlementWorld) -> None:
    """Nothing proves a statement without balances: it is taken in, and that is told once for the account."""
    bad = entry(5).replace("0.05", "0.055")
    unsound = entry(700, "u").replace("<Refs>", '<Amt Ccy="EUR">6.99</Amt><Refs>')
    for name in ("1", "2"):
        take_in(world, statement(name, 0, bad, entry(300, f"x{name}"), entry(-20, "y"), unsound, balances=False))
    assert amounts(world) == [-20, -20, 300, 300, 700, 700]
    group = [("bank_entry_unsound", 700), ("bank_unmatched", 20), ("bank_unmatched", 300), ("unreadable_line", 0)]
    found = [(word, f"bank:NL00BANK/{name}", amount) for word, amount in group for name in ("1", "2")]
    assert sorted(world.open_discrepancies()) == sorted(found + [("statement_unproven", "bank:NL00BANK", 0)] * 2)
    cases = world.sql("select reference, evidence ->> 'findings' from repair_case order by 1")
    assert cases == [("bank:NL00BANK", "1"), ("bank:NL00BANK/1", "4"), ("bank:NL00BANK/2", "4")]


def test_a_finding_names_an_entry_as_the_statement_does(world: SettlementWorld) -> None:
    """In units of its currency, with the day of its booking where the bank tells one: yen have no cents."""
    undated = entry(700, "u").replace("<BookgDt><Dt>2026-01-03</Dt></BookgDt>", "")
    timed = entry(5, "t").replace("<Dt>2026-01-03</Dt>", "<DtTm>2026-01-04T09:30:00+01:00</DtTm>")
    unsound = entry(900, "v").replace("<Refs>", '<Amt Ccy="EUR">6.99</Amt><Refs>')
    take_in(world, statement("1", 705 - 1_234 + 900, entry(-1_234, "r"), undated, timed, unsound))
    yen = statement("2", 0, entry(1_200, "y"), balances=False).replace("EUR", "JPY").replace("12.00", "1200")
    take_in(world, yen.replace("NL00BANK", "JP00BANK"))
    told = [
        row[0]
        for row in world.sql("select detail from settlement_discrepancy where detail like 'entry of %%' order by 1")
    ]
    assert told[:2] == ["entry of -12.34 EUR booked on 2026-01-03: r", "entry of 0.05 EUR booked on 2026-01-04: t"]
    assert told[2:4] == ["entry of 1200 JPY booked on 2026-01-03: y", "entry of 7.00 EUR without a booking date: u"]
    assert told[4].startswith("entry of 9.00 EUR booked on 2026-01-03: ")


def test_entries_that_a_published_rule_knows_are_nobodys_case(world: SettlementWorld) -> None:
    """A rule that is published later sorts what waits, when its file is given again."""
    whole = statement("1", 280, entry(300, "salary"), entry(-20, "rent"))
    rule = entry(-20, "rent").replace("</Refs>", "</Refs><RmtInf><Ustrd>Rent of May</Ustrd></RmtInf>")
    whole = whole.replace(entry(-20, "rent"), rule)
    take_in(world, whole)
    assert len(world.open_discrepancies()) == 2
    for version, body in enumerate(('{"rules": []}', '{"rules": [{"name": "rent", "text": "rent of"}]}'), 1):
        world.sql("update policy_version set state = 'retired' where kind = 'bank_rules'")
        world.sql("insert into policy_version values ('bank_rules', %s, %s, 'active', 'm_ops')", version, body)
    assert take_in(world, whole) == 0
    assert world.open_discrepancies() == [("bank_unmatched", "bank:NL00BANK/1", 300)]
    assert take_in(world, statement("2", -20, rule.replace("-03", "-04"))) == 1
    assert world.sql("select class, counterpart from settlement_line where gross < 0") == [("sorted", "rule:rent")] * 2
    assert len(world.open_discrepancies()) == 1
