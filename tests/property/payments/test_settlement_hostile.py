"""Hostile report files: whatever somebody puts into a processor's file or a bank statement, nothing of it is believed.

Every CSV reader is tried with the same wrongs. What cannot be read as a whole is an UnreadableReport; what is wrong in one
line is that line's Defect, and the lines around it stand. Memory is bounded whatever the size.
"""

from __future__ import annotations

import gzip
import io
import itertools
import tracemalloc
import zipfile
from typing import Any

import pytest

from reconciliation.payments.settlement.line import Defect, Line, UnreadableReport
from reconciliation.payments.settlement.reports import adyen, simulator, stripe
from reconciliation.payments.settlement.reports.camt053 import read_statements
from reconciliation.payments.settlement.reports.camt053_statement import Entry, Statement
from schemas.payments import limits
from tests.each import each
from tests.unit.payments.test_camt053 import HEAD, TAIL, entry, statement
from tests.unit.payments.test_settlement_readers import Endless

GIGABYTE = 1024**3
SIMULATOR = (
    b"line_id,report_id,type,operation_id,reference,provider_ref,currency,gross,fee,net,created\n",
    b"NAME,rpt_1,charge,op_a_1,pi_a,sim_1,USD,1000,6,994,x\n",
)
STRIPE = (
    b"balance_transaction_id,currency,gross,fee,net,reporting_category,source_id\n",
    b"NAME,usd,10.00,0.06,9.94,charge,ch_1\n",
)
ADYEN = (
    b"Psp Reference,Merchant Reference,Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),"
    b"Net Currency,Net Debit (NC),Net Credit (NC),Commission (NC),Markup (NC),Scheme Fees (NC),Interchange (NC),Batch Number\n",
    b"NAME,pi_a,Settled,MOD1,EUR,,10.00,EUR,,9.94,0.06,,,,1\n",
)
READERS = {
    "simulator": (simulator, SIMULATOR),
    "stripe": (stripe, STRIPE),
    "adyen": (adyen, ADYEN),
}


def parts(name: str) -> tuple[Any, bytes, bytes]:
    module, (header, row) = READERS[name]
    return module.read_lines, header, row.replace(b"NAME", b"ref_1")


def kinds(reader: Any, data: bytes) -> list[type]:
    return [type(line) for line in reader(io.BytesIO(data))]


@each("name", READERS)
def test_the_row_that_is_made_hostile_below_is_a_good_one(name: str) -> None:
    reader, header, row = parts(name)
    assert kinds(reader, header + row * 2) == [Line, Line]
    assert kinds(reader, b"\xef\xbb\xbf" + header + row) == [Line]


def zipped(data: bytes) -> bytes:
    """As a spreadsheet program saves it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/sheet1.xml", data)
    return file.getvalue()


AS_A_WHOLE = {
    "utf-16 with its mark": lambda data: data.decode().encode("utf-16"),
    "utf-16 without": lambda data: data.decode().encode("utf-16-le"),
    "utf-16 from the other end": lambda data: data.decode().encode("utf-16-be"),
    "utf-32": lambda data: data.decode().encode("utf-32"),
    "ebcdic": lambda data: data.decode().encode("cp500"),
    "compressed": gzip.compress,
    "a spreadsheet": zipped,
    "lines that end with CR only": lambda data: data.replace(b"\n", b"\r"),
    "a NUL in the header": lambda data: data.replace(b",", b"\x00,", 1),
    "latin-1 in the header": lambda data: data.replace(b",", b"\xe9,", 1),
    "a header without an end": lambda data: b"z" * (2 * limits.SETTLEMENT_LINE_BYTES_MAX) + data,
    "a header of commas": lambda data: b"," * (limits.SETTLEMENT_LINE_BYTES_MAX - 1) + b"\n" + data,
    "two headers in one": lambda data: data.split(b"\n")[0] + b"," + data,
    "markup": lambda data: b"<html>" + data,
}


@each("name, change", itertools.product(READERS, AS_A_WHOLE))
def test_another_kind_of_file_is_refused_as_a_whole(name: str, change: str) -> None:
    reader, header, row = parts(name)
    with pytest.raises(UnreadableReport):
        list(reader(io.BytesIO(AS_A_WHOLE[change](header + row))))


CELLS = {
    "formula": b"=HYPERLINK(1)",
    "formula with a sign": b"+1+cmd",
    "formula with a minus": b"-2+3",
    "formula with an at": b"@SUM(A1)",
    "formula behind blanks": b"  =1+1",
    "formula in quotes": b'"=1+1"',
    "NUL": b"ref\x00",
    "latin-1": b"caf\xe9",
    "cut utf-8": b"\xe2\x82",
    "overlong utf-8": b"\xc0\xaf",
    "a surrogate": b"\xed\xa0\x80",
    "a terminal's escape": b"\x1b[2J",
    "right to left": "a\u202eb".encode(),
    "another line of text": b'"ref\n1"',
    "a line separator": "a\u2028b".encode(),
    "too long": b"r" * (limits.SETTLEMENT_NAME_LENGTH_MAX + 1),
    "one cell more": b"a,b",
}
CHOSEN_BY_OTHERS = [cell for cell in CELLS if CELLS[cell].isascii() and cell not in ("NUL", "one cell more")]


@each("name, cell", itertools.product(READERS, CELLS))
def test_a_hostile_cell_is_one_lines_defect(name: str, cell: str) -> None:
    reader, header, row = parts(name)
    found = list(reader(io.BytesIO(header + row + READERS[name][1][1].replace(b"NAME", CELLS[cell]) + row)))
    assert [type(line) for line in found] == [Line, Defect, Line], found
    assert found[1].line_no == 3
    assert found[1].reason.isprintable()


@each("name, cell", itertools.product(READERS, CHOSEN_BY_OTHERS))
def test_a_hostile_name_that_somebody_else_chose_is_no_name(name: str, cell: str) -> None:
    """A merchant's reference, a brand: nothing of it is stored, and the line's money is as certain as any other's."""
    reader, header, row = parts(name)
    places = {"simulator": (b"pi_a", b"sim_1", b"op_a_1"), "stripe": (b"ch_1", b"charge"), "adyen": (b"pi_a",)}
    for place in places[name]:
        (line,) = list(reader(io.BytesIO(header + row.replace(place, CELLS[cell]))))
        assert isinstance(line, Line), line
        assert not {"=", "+", "-", "@", "\x1b"} & set("".join(filter(None, (line.reference, line.operation_id))))
        assert all(ref in ("ch_1", "sim_1", "ref_1", "MOD1") for ref in line.provider_refs)


@each("name", READERS)
def test_a_quote_that_is_never_closed_ends_the_file_and_says_so(name: str) -> None:
    reader, header, row = parts(name)
    found = list(reader(io.BytesIO(header + row + READERS[name][1][1].replace(b"NAME", b'ref"1') + row)))
    assert [type(line) for line in found] == [Line, Defect]
    assert found[1].is_cut_off


@each("name", READERS)
def test_two_gigabytes_in_one_line_take_no_memory(name: str) -> None:
    reader, header, row = parts(name)
    tracemalloc.start()
    found = list(reader(Endless(header + row, 2 * GIGABYTE, b"\n" + row)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(line) for line in found] == [Line, Defect, Line]
    assert peak < 30 * limits.SETTLEMENT_LINE_BYTES_MAX


# --- XML --------------------------------------------------------------------------------------------------------


def laughs(levels: int = 10) -> str:
    """Ten times ten times ten: three kilobytes that would become gigabytes."""
    lines = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, levels))
    return f'<!DOCTYPE Document [<!ENTITY l0 "lol">{lines}]>'


def inside(text: str) -> str:
    return f"{HEAD}<Stmt><Id>{text}</Id></Stmt>{TAIL}"


DECLARED = {
    "billion laughs": laughs() + inside("&l9;"),
    "quadratic": f'<!DOCTYPE Document [<!ENTITY a "{"a" * 50_000}">]>' + inside("&a;" * 10_000),
    "a file": '<!DOCTYPE Document [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + inside("&x;"),
    "an address": '<!DOCTYPE Document SYSTEM "http://127.0.0.1:9/x.dtd">' + inside("1"),
    "a public name": '<!DOCTYPE Document PUBLIC "-//X" "http://127.0.0.1:9/x.dtd">' + inside("1"),
    "parameter entities": '<!DOCTYPE Document [<!ENTITY % p SYSTEM "http://127.0.0.1:9/"> %p;]>' + inside("1"),
    "an empty declaration": "<!DOCTYPE Document>" + inside("1"),
    "default attributes": '<!DOCTYPE Document [<!ATTLIST Amt Ccy CDATA "USD">]>' + inside("1"),
    "an undeclared entity": inside("&nbsp;"),
}


@each("name, encoding", itertools.product(DECLARED, ["utf-8", "utf-16", "utf-8-sig"]))
def test_no_entity_is_ever_expanded_and_nothing_is_fetched(name: str, encoding: str) -> None:
    tracemalloc.start()
    with pytest.raises(UnreadableReport):
        list(read_statements(io.BytesIO(DECLARED[name].encode(encoding))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * limits.SETTLEMENT_BLOCK_BYTES


WHOLE = statement(entry("5.00"))
BROKEN = {
    "an encoding that nobody knows": b'<?xml version="1.0" encoding="x-secret"?>' + WHOLE,
    "utf-7": b'<?xml version="1.0" encoding="utf-7"?>' + WHOLE,
    "another encoding than declared": b'<?xml version="1.0" encoding="utf-16"?>' + WHOLE,
    "bytes that are no utf-8": WHOLE.replace(b"S1", b"caf\xe9"),
    "overlong utf-8": WHOLE.replace(b"S1", b"\xc0\xaf"),
    "NUL": WHOLE.replace(b"S1", b"S\x001"),
    "NUL as a reference": WHOLE.replace(b"S1", b"&#0;"),
    "a surrogate as a reference": WHOLE.replace(b"S1", b"&#xD800;"),
    "two documents": WHOLE + WHOLE,
    "text after the end": WHOLE + b"more",
    "an attribute twice": WHOLE.replace(b'Ccy="EUR"', b'Ccy="EUR" Ccy="USD"', 1),
    "an unknown prefix": WHOLE.replace(b"<Id>S1", b"<x:Id>S1").replace(b"S1</Id>", b"S1</x:Id>"),
    "compressed": gzip.compress(WHOLE),
    "an empty file": b"",
}


@each("name", BROKEN)
def test_xml_that_breaks_is_refused_as_a_whole(name: str) -> None:
    with pytest.raises(UnreadableReport):
        list(read_statements(io.BytesIO(BROKEN[name])))


def test_every_cut_of_a_statement_is_noticed() -> None:
    for end in range(len(WHOLE) - 1):
        with pytest.raises(UnreadableReport):
            list(read_statements(io.BytesIO(WHOLE[:end])))


@each(
    "name, same",
    [
        ("BOM", b"\xef\xbb\xbf" + WHOLE),
        ("utf-16", WHOLE.decode().encode("utf-16")),
        ("latin-1 declared", b'<?xml version="1.0" encoding="ISO-8859-1"?>' + WHOLE),
        ("CDATA", WHOLE.replace(b"S1", b"<![CDATA[S1]]>")),
        ("an instruction and a comment", WHOLE.replace(b"<Stmt>", b"<?php system('x') ?><!-- <Stmt> --><Stmt>")),
        ("a comment inside", WHOLE.replace(b"S1", b"S<!-- -->1")),
    ],
)
def test_other_forms_of_the_same_are_the_same(name: str, same: bytes) -> None:
    expected = list(read_statements(io.BytesIO(WHOLE)))
    assert list(read_statements(io.BytesIO(same))) == expected
    assert [type(part) for part in expected] == [Entry, Statement]


def test_a_statement_of_another_namespace_is_not_inside_ours() -> None:
    """An element of somebody else's that happens to be called Ntry must not move money."""
    foreign = WHOLE.replace(b"<Ntry>", b'<Ntry xmlns="urn:evil">')
    found = list(read_statements(io.BytesIO(foreign)))
    assert not [part for part in found if isinstance(part, Entry)]


@pytest.mark.parametrize(
    "piece",
    ["<Ntry>" + "<NtryDtls></NtryDtls>" * 1_000, "<x/>" * 1_000, "<x a='" + "y" * 60_000 + "'/>"],
    ids=["parts of one entry", "parts of nothing", "long attributes"],
)
def test_a_statement_without_an_end_takes_no_memory(piece: str) -> None:
    class Endless:
        """Goes on for ever, or until it is refused; a bound keeps a failing test short."""

        head, blocks_left = f"{HEAD}<GrpHdr>".encode(), 4_000

        def read(self, _: int) -> bytes:
            self.blocks_left -= 1
            data, self.head = self.head or piece.encode(), b""
            return data if self.blocks_left else b""

    stream: Any = Endless()
    tracemalloc.start()
    with pytest.raises(UnreadableReport):
        list(read_statements(stream))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 * 1024 * 1024
