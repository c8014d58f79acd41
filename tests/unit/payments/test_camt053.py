"""Bank statements: streamed, hostile XML refused, and a statement that does not foot is told, never relied on."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from reconciliation.payments.settlement.line import UnreadableReport
from reconciliation.payments.settlement.reports.camt053 import read_statements
from reconciliation.payments.settlement.reports.camt053_statement import Entry, Statement, UnreadEntry
from schemas.payments import limits
from tests.each import each

SAMPLES = Path(__file__).parents[4] / "shared" / "data" / "camt"
HEAD = '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>'
TAIL = "</BkToCstmrStmt></Document>"


def amount(value: str, direction: str = "CRDT", currency: str = "EUR") -> str:
    return f'<Amt Ccy="{currency}">{value}</Amt><CdtDbtInd>{direction}</CdtDbtInd>'


def balance(code: str, value: str, **given: str) -> str:
    return f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp>{amount(value, **given)}</Bal>"


def entry(value: str, more: str = "", **given: str) -> str:
    return f"<Ntry>{amount(value, **given)}<Sts><Cd>BOOK</Cd></Sts>{more}</Ntry>"


def statement(*entries: str, opening: str = "10.00", closing: str = "15.00", balances: str | None = None) -> bytes:
    both = balance("OPBD", opening) + balance("CLBD", closing) if balances is None else balances
    account = "<Acct><Id><IBAN>NL00BANK</IBAN></Id></Acct>"
    return f"{HEAD}<Stmt><Id>S1</Id>{account}{both}{''.join(entries)}</Stmt>{TAIL}".encode()


def read(data: bytes) -> list[Entry | UnreadEntry | Statement]:
    return list(read_statements(io.BytesIO(data)))


def findings(data: bytes) -> list[str]:
    return [finding for part in read(data) if isinstance(part, Statement) for finding in part.refusals + part.doubts]


def test_a_statement_that_foots_gives_its_entries() -> None:
    details = (
        "<AcctSvcrRef>REF 1</AcctSvcrRef><BookgDt><Dt>2026-01-02</Dt></BookgDt><NtryDtls><TxDtls><Refs>"
        "<EndToEndId>po_7</EndToEndId></Refs><RmtInf><Ustrd>payout ln_9 of the week</Ustrd></RmtInf></TxDtls></NtryDtls>"
    )
    first, second, told = read(statement(entry("7.50", details), entry("2.50", direction="DBIT")))
    assert isinstance(first, Entry)
    assert isinstance(second, Entry)
    assert isinstance(told, Statement)
    assert (first.amount, first.currency, first.booked_on, second.amount) == (750, "EUR", "2026-01-02", -250)
    assert {"REF 1", "po_7", "ln_9"} <= set(first.names)
    assert (told.id, told.account, told.refusals, told.doubts, told.gap, told.entries) == (
        "S1",
        "NL00BANK",
        [],
        [],
        0,
        2,
    )


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (statement(entry("5.01")), "do not make"),
        (statement(), "do not make"),
        (statement(balances=balance("OPBD", "1.00") + balance("CLBD", "1.00", currency="SEK")), "several currencies"),
        (statement(entry("5.00")).replace(b"NL00BANK", b""), "no account"),
        (statement(entry("5.00")).replace(b"S1", b"S" * 300), "too long"),
    ],
)
def test_a_statement_that_cannot_be_so_is_refused(data: bytes, finding: str) -> None:
    told = read(data)[-1]
    assert isinstance(told, Statement)
    assert any(finding in refusal for refusal in told.refusals), told


@pytest.mark.parametrize(
    ("bad", "finding"),
    [
        (entry("5.00", currency="SEK"), "is in SEK, and the account in EUR"),
        (entry("5.001"), "more decimals"),
        (entry("5", currency="XAU"), "not a currency"),
        (entry("5.00", direction="BOTH"), "neither credit nor debit"),
        (entry("5.00").replace("5.00", "five"), "not a decimal"),
        (entry("5.00").replace("5.00", "-5.00"), "not for its sign to say"),
        (entry("5.00", direction="DBIT").replace("5.00", "-5.00"), "not for its sign to say"),
    ],
)
def test_an_entry_that_cannot_be_read_is_its_own_finding_and_the_rest_is_taken_in(bad: str, finding: str) -> None:
    unread, second, told = read(statement(bad, entry("2.00")))
    assert isinstance(unread, UnreadEntry)
    assert (unread.number, finding in unread.reason) == (1, True), unread
    assert isinstance(second, Entry)
    assert isinstance(told, Statement)
    assert (second.amount, told.refusals, told.unread) == (200, [], 1)
    assert told.doubts == ["1 entries cannot be read: nobody can say whether it foots"]


def test_what_banks_write_otherwise_is_read() -> None:
    """Zeros too many, blanks in names, balances left out: none of it says anything else."""
    data = statement(entry("5.00000"), closing="15.000").replace(b"S1", b" S 1").replace(b"NL00BANK", b"NL00 BANK")
    first, told = read(data)
    assert isinstance(first, Entry)
    assert isinstance(told, Statement)
    assert (first.amount, told.id, told.account, told.refusals, told.doubts) == (500, "S_1", "NL00BANK", [], [])
    (small, _) = read(statement(entry("5.00", f"<NtryDtls>{detail('a', '5')}</NtryDtls>").replace('"EUR"', '"eur"')))
    assert isinstance(small, Entry)
    assert (small.currency, small.contradiction) == ("EUR", None)
    for left in (balance("OPBD", "10.00"), ""):
        first, told = read(statement(entry("5.00"), balances=left))
        assert isinstance(told, Statement)
        assert (told.refusals, told.doubts) == ([], ["it has no opening or no closing balance"])


@each(
    ("inside", "contradiction"),
    [
        (amount("4.99"), "its details do not make its amount"),
        (amount("5.00"), None),
        (amount("5.00000"), None),
        (amount("5.45", currency="SEK"), None),
        (f"<AmtDtls><TxAmt>{amount('5.00')}</TxAmt></AmtDtls>{amount('54.5', currency='SEK')}", None),
        (amount("5.20") + "<Chrgs><Rcrd><Amt Ccy='EUR'>0.20</Amt></Rcrd></Chrgs>", None),
        (
            amount("5.30") + "<Chrgs><Rcrd><Amt Ccy='EUR'>0.20</Amt></Rcrd></Chrgs>",
            "its details do not make its amount",
        ),
        (amount("4.99", currency="eur"), None),
        (amount("five"), "a detail 'five' is not a decimal amount"),
    ],
)
def test_details_contradict_their_entry_only(inside: str, contradiction: str | None) -> None:
    """What is in another currency, or before charges, contradicts nothing."""
    first, _, told = read(statement(entry("5.00", f"<NtryDtls><TxDtls>{inside}</TxDtls></NtryDtls>"), entry("0.00")))
    assert isinstance(first, Entry)
    assert isinstance(told, Statement)
    assert (first.contradiction, first.amount, told.refusals, told.doubts) == (contradiction, 500, [], [])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (f"{HEAD}{TAIL}".encode(), "holds no statement"),
        (statement().replace(b"camt.053", b"camt.052"), "camt.052, an account report of the running day"),
        (statement().replace(b"camt.053", b"camt.054"), "camt.054, a notification of single debits and credits"),
        (statement().replace(b"camt.053", b"pain.001"), "the file is a pain.001; a bank statement is a camt.053"),
    ],
)
def test_a_file_without_statements_is_told_by_its_right_name(data: bytes, told: str) -> None:
    with pytest.raises(UnreadableReport, match=told):
        read(data)


def detail(name: str, value: str | None = None, currency: str = "EUR") -> str:
    money = "" if value is None else f'<Amt Ccy="{currency}">{value}</Amt>'
    return f"<TxDtls><Refs><EndToEndId>{name}</EndToEndId></Refs>{money}</TxDtls>"


def batch(inside: str) -> Entry:
    (found, _) = read(statement(entry("5.00", f"<NtryDtls>{inside}</NtryDtls>")))
    assert isinstance(found, Entry)
    return found


def test_the_payments_of_a_batch_are_told_with_their_entry() -> None:
    told = batch(f"<Btch><NbOfTxs>2</NbOfTxs></Btch>{detail('pt_a', '2.00')}{detail('pt_b', '3.00')}")
    assert [(part.amount, part.names) for part in told.parts] == [(200, ("pt_a",)), (300, ("pt_b",))]
    assert told.batch_size is None
    assert [part.amount for part in batch(detail("pt_a") + detail("pt_b", "3.00")).parts] == [None, 300]
    assert batch(detail("pt_a", "5.00")).parts == ()
    assert batch("<Btch><NbOfTxs>3</NbOfTxs></Btch>").batch_size == 3
    for nonsense in ("", "-3", "3.0", "٣", "1234567"):
        assert batch(f"<Btch><NbOfTxs>{nonsense}</NbOfTxs></Btch>").batch_size is None
    assert [part.amount for part in batch(detail("pt_a") + detail("pt_b", "5.00", "USD")).parts] == [None, None]


def test_entries_that_are_not_booked_move_nothing() -> None:
    assert findings(statement(entry("5.00"), entry("3.00").replace("BOOK", "PDNG"))) == []


@each(
    "hostile",
    [
        b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><Document/>',
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><Document/>',
        b"<Document>",
        b"",
        b"not xml",
        b"<html></html>",
        b'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.03"/>',
        statement(entry("5.00"))[:-60],
        HEAD.encode() + b"<a>" * 100,
        HEAD.encode() + b"<Stmt><Id>\x00</Id>",
    ],
)
def test_hostile_files_are_refused_as_a_whole(hostile: bytes) -> None:
    with pytest.raises(UnreadableReport):
        read(hostile)


@pytest.mark.parametrize("opening", [b"<Stmt><Id>", b"<Stmt><Id a='", b"<Stmt><Id>5</Id><!--"])
def test_a_token_without_an_end_takes_no_memory(opening: bytes) -> None:
    class Endless:
        """Goes on for ever."""

        head = HEAD.encode() + opening

        def read(self, size: int) -> bytes:
            data, self.head = self.head or b"z" * size, b""
            return data

    tracemalloc.start()
    endless: Any = Endless()
    with pytest.raises(UnreadableReport):
        list(read_statements(endless))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * limits.SETTLEMENT_BLOCK_BYTES


def sample(name: str) -> list[Entry | UnreadEntry | Statement]:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip("the bank statements are in the shared data folder, which is not here")
    return read(path.read_bytes())


def test_the_famous_samples_that_do_not_foot() -> None:
    second, eighth = sample("camt053.v2.minimal.xml")[-1], sample("camt053.v8.xml")[-1]
    assert isinstance(second, Statement)
    assert isinstance(eighth, Statement)
    assert second.refusals == eighth.refusals == ["its balances are in several currencies: EUR, SEK"]
    assert (second.account, eighth.account) == ("NL26VAYB8060476890", "NL26VAYB8060476890")


def test_the_sample_of_two_statements_foots() -> None:
    parts = sample("camt053.v2.multi.statement.xml")
    assert [part.amount for part in parts if isinstance(part, Entry)] == [885, -700]
    statements = [part for part in parts if isinstance(part, Statement)]
    assert [(s.id[:3], s.gap, s.refusals + s.doubts) for s in statements] == [("253", 0, []), ("254", 0, [])]
