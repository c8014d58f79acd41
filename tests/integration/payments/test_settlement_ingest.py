"""Reports against attempts on a real Postgres: what is wrong is found, once, in its class, and nothing else is."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciliation.payments.settlement.bank.statement import take_in_statements
from reconciliation.payments.settlement.ingest import Taken, take_in, take_in_waiting
from reconciliation.payments.settlement.sources import READERS, GivenFile, digest, given_file
from reconciliation.payments.settlement.store import execute
from tests.gate import matrix
from tests.worlds.payments.settlement_world import SettlementWorld, csv_of, line_of, payout_of, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers

SAMPLES = Path(__file__).parents[4] / "shared" / "data" / "settlement"


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def clean(world: SettlementWorld, count: int = 6) -> list[dict[str, Any]]:
    """The lines of a clean report of captures and a refund."""
    attempts = [world.capture(2_000 + n) for n in range(count)] + [world.refund()]
    return [line_of(attempt, f"ln_{n:04}") for n, attempt in enumerate(attempts)]


def report(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_currency = [[row for row in rows if row["currency"] == code] for code in ("USD", "EUR")]
    return [*rows, *(payout_of(lines, f"ln_payout{n}") for n, lines in enumerate(by_currency) if lines)]


def test_a_clean_report_matches_and_shows_nothing(world: SettlementWorld) -> None:
    taken = world.take_in(report(clean(world)))
    assert (taken.lines, taken.matched) == (8, 8)
    assert world.open_discrepancies() == []
    assert {finding for finding, *_ in world.due().values()} == {"matched"}
    assert world.sql("select posted_gross, posting from settlement_line where type = 'payout'")[0][1] == "due"


MUTATIONS = {
    "short": lambda row: [row | {"gross": row["gross"] - 1, "net": row["net"] - 1}],
    "over": lambda row: [row | {"gross": row["gross"] + 1, "net": row["net"] + 1}],
    "missing": lambda row: [],
    "duplicate": lambda row: [row, row | {"line_id": "ln_again"}],
    "sign_flipped": lambda row: [row | {name: -row[name] for name in ("gross", "fee", "net")}],
    "currency_mismatch": lambda row: [row | {"currency": "EUR"}],
    "orphan": lambda row: [
        row,
        row | {"line_id": "ln_x", "operation_id": "op_x_1", "reference": "pi_x", "provider_ref": "sim_x"},
    ],
    "fee_difference": lambda row: [row | {"fee": row["fee"] + 1, "net": row["net"] - 1}],
    "does_not_foot": lambda row: [row | {"net": row["net"] - 1}],
}


@pytest.mark.parametrize("wrong", sorted(MUTATIONS))
def test_one_change_of_a_clean_report_is_one_discrepancy_of_its_class(world: SettlementWorld, wrong: str) -> None:
    """Trap: settlement that lies. One minor unit, one row, one duplicate, one sign."""
    rows = clean(world)
    changed = MUTATIONS[wrong](rows[2])
    world.take_in(report([*rows[:2], *changed, *rows[3:]]))
    amounts = {"short": 1, "over": 1, "fee_difference": 1, "does_not_foot": 1}
    reference = "pi_x" if wrong == "orphan" else rows[2]["reference"]
    assert world.open_discrepancies() == [(wrong, reference, amounts.get(wrong, 2_002))]
    cases = world.sql("select kind, reference from repair_case")
    assert cases == [("settlement_difference", reference)]


def test_the_order_of_lines_and_their_time_zone_say_nothing(world: SettlementWorld) -> None:
    rows = [row | {"created": "2026-01-02T12:04:05+09:00"} for row in report(clean(world))]
    taken = world.take_in([*reversed(rows[:-1]), rows[-1]])
    assert (taken.matched, world.open_discrepancies()) == (8, [])


def test_net_where_gross_belongs_is_told_once(world: SettlementWorld) -> None:
    rows = clean(world)
    world.take_in(report([*rows[:2], rows[2] | {"gross": rows[2]["net"], "fee": 0}, *rows[3:]]))
    assert world.open_discrepancies() == [("short", rows[2]["reference"], rows[2]["fee"])]


@pytest.mark.parametrize("wrong", ["sign_flipped", "orphan", "missing", "currency_mismatch", "does_not_foot"])
def test_what_a_person_must_judge_is_never_posted(world: SettlementWorld, wrong: str) -> None:
    rows = clean(world)
    world.take_in(report([*rows[:2], *MUTATIONS[wrong](rows[2]), *rows[3:]]))
    told = world.due()
    assert {finding for finding, *_ in told.values()} == {"matched"}
    assert ("ln_0002" in told) == (wrong == "orphan")


@pytest.mark.parametrize(
    "wrong", matrix(sorted(MUTATIONS), gate=lambda wrong: wrong in ("short", "duplicate", "missing", "orphan"))
)
def test_reports_again_and_resent_change_nothing(world: SettlementWorld, wrong: str) -> None:
    rows = clean(world)
    faulty = report([*rows[:2], *MUTATIONS[wrong](rows[2]), *rows[3:]])
    world.take_in(faulty)
    before = world.state()
    world.take_in(faulty)
    world.take_in(faulty, "rpt_resent")
    assert world.state() == before


def test_a_resolved_discrepancy_stays_resolved(world: SettlementWorld) -> None:
    rows = clean(world)
    faulty = report([rows[0] | {"gross": 1, "net": 1 - rows[0]["fee"]}, *rows[1:]])
    world.take_in(faulty)
    world.sql("update settlement_discrepancy set state = 'resolved'")
    world.sql("update repair_case set state = 'resolved'")
    world.take_in(faulty)
    world.take_in(faulty, "rpt_resent")
    assert world.open_discrepancies() == []
    assert world.sql("select count(*) from repair_case") == [(1,)]


def test_a_line_that_says_something_else_when_it_comes_again_is_told(world: SettlementWorld) -> None:
    rows = clean(world)
    world.take_in(report(rows))
    before = world.due()
    world.take_in([rows[0] | {"gross": 5, "net": 5 - rows[0]["fee"]}], "rpt_2")
    assert world.open_discrepancies() == [("changed_line", rows[0]["reference"], 1_995)]
    assert world.due() == before


def test_parts_of_one_report_add_up(world: SettlementWorld) -> None:
    """1:N. The whole is posted once."""
    rows = clean(world)
    fee = rows[0]["fee"]
    parts = [
        rows[0] | {"gross": 500, "fee": fee - 2, "net": 502 - fee},
        rows[0] | {"line_id": "ln_part", "gross": 1_500, "fee": 2, "net": 1_498},
    ]
    world.take_in(report([*parts, *rows[1:]]))
    assert world.open_discrepancies() == []
    told = {key: value for key, value in world.due().items() if key in ("ln_0000", "ln_part")}
    assert list(told.values()) == [("matched", 2_000, fee, 0)]


def test_one_line_may_pay_several_captures(world: SettlementWorld) -> None:
    """N:1. By the payment's reference alone, when the captures add up; each is posted once."""
    one = world.capture(300, kind="capture")
    two = world.capture(700, kind="capture", intent_id=one["intent_id"], attempt=2)
    line = line_of(one, "ln_1", gross=1_000, fee=6, operation_id="", provider_ref="")
    taken = world.take_in([line])
    assert (taken.lines, taken.matched) == (1, 1)
    assert world.open_discrepancies() == []
    assert world.due() == {"ln_1/1": ("matched", 300, 2, 0), "ln_1/2": ("matched", 700, 4, 0)}
    assert two["attempt"] == 2


@pytest.mark.parametrize("known_by", ["operation_id", "provider_ref", "reference"])
def test_a_line_is_known_by_its_operation_else_by_other_names(world: SettlementWorld, known_by: str) -> None:
    rows = clean(world)
    forgotten = {"operation_id": "", "provider_ref": "", "reference": ""}
    world.take_in(report([row | forgotten | {known_by: row[known_by]} for row in rows]))
    assert world.open_discrepancies() == []
    assert len(world.due()) == 7


def test_equal_captures_of_one_payment_are_matched_one_by_one(world: SettlementWorld) -> None:
    one = world.capture(400, kind="capture")
    world.capture(400, kind="capture", intent_id=one["intent_id"], attempt=2)
    lines = [line_of(one, f"ln_{n}", operation_id="", provider_ref="") for n in range(3)]
    world.take_in(lines)
    assert world.open_discrepancies() == [("duplicate", one["intent_id"], 400)]
    assert sorted(finding for finding, *_ in world.due().values()) == ["duplicate", "matched", "matched"]


def test_the_same_identity_twice_in_one_file_is_two_lines(world: SettlementWorld) -> None:
    rows = clean(world)
    faulty = report([*rows, rows[0]])
    world.take_in(faulty)
    assert world.open_discrepancies() == [("duplicate", rows[0]["reference"], 2_000)]
    before = world.state()
    world.take_in(faulty, "rpt_resent")
    assert world.state() == before


def test_missing_needs_a_younger_capture_that_is_settled(world: SettlementWorld) -> None:
    rows = clean(world)
    world.capture(9_000)  # after everything in the report: its line comes with the next one
    world.take_in(report(rows))
    assert world.open_discrepancies() == []


def test_a_missing_line_that_comes_later_ends_it(world: SettlementWorld) -> None:
    rows = clean(world)
    world.take_in(report([*rows[:2], *rows[3:]]))
    assert world.open_discrepancies() == [("missing", rows[2]["reference"], 2_002)]
    world.take_in([rows[2]], "rpt_2")
    assert world.open_discrepancies() == []
    assert world.sql("select state, resolved_by from repair_case") == [("resolved", "reconciliation")]


def test_a_truncated_report_is_told_and_what_stood_before_counts(world: SettlementWorld) -> None:
    rows = clean(world)
    whole = csv_of(report(rows))
    cut = whole[: whole.rindex(b"ln_0005") + 30]
    world.take_in([], text=cut)
    assert [d[0] for d in world.open_discrepancies()] == ["truncated_report"]
    assert len(world.due()) == 5
    world.take_in([], text=whole)
    assert world.open_discrepancies() == []
    assert len(world.due()) == 7


def test_an_unreadable_report_changes_nothing_else(world: SettlementWorld) -> None:
    clean(world)
    world.take_in([], text="line_id;gross\n".encode("utf-16"))
    assert world.open_discrepancies() == [("unreadable_report", "rpt_1", 0)]
    assert world.sql("select count(*) from settlement_line") == [(0,)]


def test_a_line_of_an_open_attempt_waits(world: SettlementWorld) -> None:
    rows = clean(world)
    waiting = world.capture(700, status="unknown", provider_ref=None)
    world.take_in([*rows, line_of(waiting | {"provider_ref": "sim_y"}, "ln_w")])
    assert world.open_discrepancies() == []
    assert world.sql("select class, posting from settlement_line where line_id = 'ln_w'") == [("waiting", "none")]


def test_a_payout_that_is_not_its_lines_is_not_announced(world: SettlementWorld) -> None:
    rows = clean(world)
    payout = payout_of(rows)
    world.take_in([*rows, payout | {"gross": payout["gross"] + 1, "net": payout["net"] + 1}])
    assert world.open_discrepancies() == [("payout_difference", payout["reference"], 1)]
    assert world.sql("select posting from settlement_line where type = 'payout'") == [("none",)]


def test_a_payout_that_came_back_is_posted_and_told(world: SettlementWorld) -> None:
    rows = report(clean(world))
    back = rows[-1] | {
        "line_id": "ln_back",
        "type": "payout_reversal",
        "gross": -rows[-1]["gross"],
        "net": -rows[-1]["net"],
    }
    world.take_in([*rows, back])
    assert world.open_discrepancies() == [("payout_returned", back["reference"], back["net"])]
    assert world.sql("select matched, posted_gross, posting from settlement_line where line_id = 'ln_back'") == [
        ("ln_payout0", back["net"], "due")
    ]


@pytest.mark.parametrize("status", ["unknown", "requires_action"])
def test_a_waiting_line_is_a_line_like_any_other_once_its_attempt_is_known(world: SettlementWorld, status: str) -> None:
    """Settlement is one of the doors of a fact, also of a payer's that came back without anybody telling us."""
    waiting = world.capture(700, status=status, provider_ref=None)
    world.take_in([line_of(waiting | {"provider_ref": "sim_y"}, "ln_w")])
    first = {"after_processor": "", "after_line": "", "limit": 10}
    with world.operator() as connection:
        assert len(execute(connection, "waiting_outcomes", **first).fetchall()) == 1
        world.sql("update processor_attempt set status = 'captured'")
        assert execute(connection, "waiting_outcomes", **first).fetchall() == []
        assert take_in_waiting(connection, "simulator", "rpt_1") == Taken(lines=1, matched=1)
    assert world.due() == {"ln_w": ("matched", 700, 4, 0)}
    assert world.sql("select lines, matched from settlement_report") == [(1, 1)]


def test_what_our_record_denies_is_a_person_s(world: SettlementWorld) -> None:
    denied = world.capture(700, status="declined")
    world.take_in([line_of(denied, "ln_1")])
    assert world.open_discrepancies() == [("orphan", denied["intent_id"], 700)]
    assert world.due() == {}


def test_disputes_are_matched_and_posted_elsewhere(world: SettlementWorld) -> None:
    """Their money moved with the funds events; the line only confirms it, once."""
    attempt = world.capture(5_000)
    world.sql(
        "insert into dispute values ('dp_1', %s, 'm_1', 'simulator', 'sim_dp_1', 3000, 'USD', 1500, null, 'won',"
        " 'reinstated', 1, now(), now())",
        attempt["intent_id"],
    )
    taken = line_of(attempt, "ln_d", type="dispute", provider_ref="sim_dp_1", gross=-3_000, fee=1_500)
    given = line_of(attempt, "ln_r", type="dispute_reversal", provider_ref="sim_dp_1", gross=3_000, fee=0)
    world.take_in([line_of(attempt, "ln_c"), taken, given])
    assert world.open_discrepancies() == []
    assert set(world.due()) == {"ln_c"}
    world.take_in([taken | {"line_id": "ln_again"}], "rpt_2")
    assert world.open_discrepancies() == [("duplicate", attempt["intent_id"], 3_000)]


def test_a_history_that_begins_in_the_middle_accuses_nobody(world: SettlementWorld) -> None:
    """A file that somebody gives may be the first of many."""
    rows = clean(world)
    world.take_in(report(rows[3:]), is_complete_history=False)
    assert world.open_discrepancies() == []


@pytest.mark.parametrize("format_", ["stripe", "adyen"])
def test_real_samples_are_findings_and_never_postings(world: SettlementWorld, format_: str) -> None:
    """Nothing in them is ours: every line is told once, and reading them again changes nothing."""
    samples = sorted(SAMPLES.glob(f"{format_}*.csv"))
    if not samples:
        pytest.skip("the settlement samples are in the shared data folder, which is not here")
    classes: dict[str, int] = {}
    for _ in range(2):
        for sample in samples:
            given = given_file(GivenFile(path=sample, format=format_))  # type: ignore[arg-type]  # one of them
            with world.operator() as connection, sample.open("rb") as stream:
                take_in(connection, given, READERS[format_](stream))
        found = world.sql("select class, count(*) from settlement_discrepancy where state = 'open' group by 1")
        classes = classes or dict(found)
        assert dict(found) == classes
    assert (
        classes
        == {
            "stripe": {"orphan": 5, "unbooked_fee": 2, "does_not_foot": 1},
            "adyen": {"orphan": 3, "unbooked_fee": 3, "payout_difference": 1},
        }[format_]
    )
    assert world.due() == {}
    payouts = world.sql("select class, posting from settlement_line where type = 'payout' order by 1")
    assert (
        payouts
        == {
            "stripe": [("announced", "due"), ("announced", "due"), ("does_not_foot", "none")],
            "adyen": [("announced", "due"), ("payout_difference", "none")],
        }[format_]
    )


def test_bank_entries_are_matched_to_payouts_by_name_or_amount_and_day(world: SettlementWorld) -> None:
    rows = clean(world)
    world.take_in(report(rows))
    ((amount,),) = world.sql("select posted_gross from settlement_line where type = 'payout'")
    named = entry_of(amount, "po_ln_payout0")
    for xml, expected in [
        (statement_of("S0", amount + 1, entry_of(amount, "po_ln_payout0")), ["statement_does_not_foot"]),
        (statement_of("S1", amount - 1, entry_of(amount - 1, "po_ln_payout0")), ["bank_difference", "statement_does_not_foot"]),
        (statement_of("S2", amount, entry_of(amount, "something else", "2026-03-01")), ["bank_difference", "bank_unmatched", "statement_does_not_foot"]),
        (statement_of("S3", amount, named), ["bank_difference", "bank_unmatched", "statement_does_not_foot"]),
        (statement_of("S3", amount, named), ["bank_difference", "bank_unmatched", "statement_does_not_foot"]),
        (statement_of("S4", amount, named), ["bank_difference", "bank_unmatched", "bank_unmatched", "statement_does_not_foot"]),
    ]:  # fmt: skip
        with world.operator() as connection:
            take_in_statements(connection, ("bank.xml", xml), lambda data=xml: io.BytesIO(data))
        assert [found for found, *_ in world.open_discrepancies()] == expected
    due = world.sql(
        "select line_id, matched, counterpart from settlement_line where type like 'bank%%' and posting = 'due'"
    )
    assert due == [("S3:1", "ln_payout0", "simulator")]


def test_the_bank_s_real_samples(world: SettlementWorld) -> None:
    samples = sorted(SAMPLES.parent.glob("camt/*.xml"))
    if not samples:
        pytest.skip("the bank statements are in the shared data folder, which is not here")
    for sample in samples:
        with world.operator() as connection:
            take_in_statements(connection, (sample.name, digest(sample)), lambda path=sample: path.open("rb"))
    classes = sorted(found for found, *_ in world.open_discrepancies())
    assert classes == ["bank_unmatched", "bank_unmatched", "statement_does_not_foot"]
    assert world.sql("select count(*) from settlement_line where posting = 'due'") == [(0,)]


def entry_of(amount: int, name: str, day: str = "2026-01-03") -> str:
    return (
        f'<Ntry><Amt Ccy="USD">{amount // 100}.{amount % 100:02d}</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts>'
        f"<BookgDt><Dt>{day}</Dt></BookgDt><NtryDtls><TxDtls><Refs><EndToEndId>{name}</EndToEndId></Refs></TxDtls>"
        "</NtryDtls></Ntry>"
    )


def statement_of(name: str, closing: int, *entries: str) -> bytes:
    def balance(code: str, amount: int) -> str:
        money = f'<Amt Ccy="USD">{amount // 100}.{amount % 100:02d}</Amt><CdtDbtInd>CRDT</CdtDbtInd>'
        return f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp>{money}</Bal>"

    return (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt>'
        f"<Stmt><Id>{name}</Id><Acct><Id><IBAN>NL00TEST</IBAN></Id></Acct>{balance('OPBD', 0)}{balance('CLBD', closing)}"
        f"{''.join(entries)}</Stmt></BkToCstmrStmt></Document>"
    ).encode()
