"""A run over many tenants: each has one invoice, all are made again byte for byte, and one changed event is found."""

from __future__ import annotations

import asyncio
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.tenancy.billing.invoicing import SQL, Failed, connected, make_asked, make_due
from dataflows.tenancy.domain.invoice_intent import BILLING_MERCHANT, intent_of
from ingress.http import store as stores
from ingress.http.cursors import Cursors
from ingress.tenancy.billing.invoices import Billing
from ingress.tenancy.usage.questions import Questions
from reconciliation.check.invariant import invariants
from reconciliation.contract.snapshot import Snapshot
from reconciliation.tenancy.usage import changed_invoices
from schemas.tenancy import limits
from tests.gate import examples

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
TENANTS = examples(100, proof=10_000)
EVENTS = 5  # of each tenant: the nth has the quantity n, one of them came late
PRICE = {"tokens": "graduated:6@2,*@1.5"}
USED = """
insert into usage_event (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, partition, seq)
select 'tn_' || t, '/meter', 'e' || n, 'tokens', n, null, date_trunc('day', now()) - interval '36 hours', 0,
       (%(after)s + t - 1) * %(events)s + n - %(first)s + 1
from generate_series(1, %(tenants)s) t, generate_series(%(first)s, %(first)s + %(events)s - 1) n
"""
COUNTED = "insert into usage_counted values (0, %s) on conflict (partition) do update set last_seq = excluded.last_seq"
RUNS = """
insert into billing_run (tenant_id, number, billing_run_id, invoice_id, partition, period_from, period_to, grace_s, currency,
                         prices, created_at)
select 'tn_' || t, %(number)s, 'br_' || t || '_' || %(number)s, 'in_' || t || '_' || %(number)s, 0,
       date_trunc('day', now()) - (3 - %(number)s) * interval '1 day', date_trunc('day', now()) - (2 - %(number)s) * interval '1 day',
       0, 'EUR', %(prices)s, now()
from generate_series(1, %(tenants)s) t
"""
CREDIT = """
insert into billing_entry (tenant_id, number, entry_id, partition, kind, amount, reason, created_at)
select 'tn_' || t, 1, 'be_' || t, 0, 'credit', 3, 'r', now() from generate_series(1, %(tenants)s) t
"""


def made(dsn: str) -> int:
    """Everything that is due; how many invoices."""
    with connected(dsn, "invoices") as connection:
        count, failed = 0, Failed()
        while found := make_due(connection, failed):
            count += found
        return count


def invariant(identity: str) -> str:
    (sql,) = (one.sql for one in invariants() if one.id == identity)
    return sql


def changed(connection: psycopg.Connection[Any]) -> list[str]:
    sql = invariant("tenancy_invoices_recomputable")
    return [row["invoice_id"] for row in changed_invoices(Snapshot(connection, {}), sql)]


LATE = """
insert into usage_event (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, partition, seq)
select 'late', '/meter', dimension, dimension, quantity, null, date_trunc('day', now()) - interval '84 hours', 0, 1000000 + n
from (values ('tokens', 3, 1), ('calls', 4, 2), ('pages', 7, 3)) as t (dimension, quantity, n)
"""
RUN = """
insert into billing_run (tenant_id, number, billing_run_id, invoice_id, partition, period_from, period_to, grace_s, currency,
                         prices, created_at)
select t.id, n, 'br_' || t.id || '_' || n, 'in_' || t.id || '_' || n, 0, date_trunc('day', now()) - (5 - n) * interval '1 day',
       date_trunc('day', now()) - (4 - n) * interval '1 day', 0, 'EUR', %s, now() from (select %s::text, %s::int) as t (id, n)
"""
SETTLED = """
insert into billing_entry (tenant_id, number, entry_id, partition, kind, dimension, quantity, unit_price, at, period_from, period_to,
                           reason, created_at)
select tenant_id, 1, 'be_settled', 0, 'adjustment', 'calls', 4, '1', period_from, period_from, period_to, 'r', now()
from billing_run where billing_run_id = 'br_late_1'
"""
DOCUMENT = "select document from tenant_invoice where invoice_id = 'in_late_2'"


def test_late_usage_costs_what_its_period_did_and_invoices_of_before_stay_as_they_are(stack: World) -> None:
    """Between two runs the price of tokens changed, that of calls was taken away, and pages got one."""
    addresses = stack.settings.addresses()
    metering = addresses.postgres_dsns["millrace_tenancy_metering"]
    with psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection:
        for number, counted, prices in (
            (1, 1_000_000, {"tokens": "2", "calls": "1"}),
            (2, 1_000_003, {"tokens": "5", "pages": "1"}),
        ):
            connection.execute(COUNTED.encode(), (counted,))
            connection.execute(RUN.encode(), (json.dumps(prices), "late", number))
            assert made(metering) == 1
            if number == 1:
                connection.execute(LATE.encode())
        (stored,) = connection.execute(DOCUMENT.encode()).fetchone() or (b"",)
        found = json.loads(stored)
        lines = {line["dimension"]: (line["unit_price"], line["amount"]) for line in found["lines"]}
        assert (lines, found["total"]) == ({"calls": ("1", 4), "tokens": ("2", 6)}, 10)
        assert changed(connection) == []

        for line in found["lines"]:  # as a process of before made it
            del line["meter_version"], line["digest"]
        (calls, tokens) = found["lines"]
        found["lines"] = [
            calls | {"dimension": "pages", "quantity": 7, "amount": 7},
            tokens | {"unit_price": "5", "amount": 15},
        ]
        before = json.dumps(found | {"total": 22}, sort_keys=True, separators=(",", ":")).encode()
        connection.execute("update tenant_invoice set document = %s where invoice_id = 'in_late_2'", (before,))
        assert changed(connection) == ["in_late_2"]
        unbilled = invariant("tenancy_late_usage_billed").encode()
        assert connection.execute(unbilled).fetchall() == []
        connection.execute(
            "update tenant_invoice set late_rule = default, meter_version = null where invoice_id = 'in_late_2'"
        )
        assert changed(connection) == []
        passed_over = [row[1:5] for row in connection.execute(unbilled).fetchall()]
        assert passed_over == [("br_late_1", "calls", 1, 4)]
        connection.execute(SETTLED.encode())
        assert connection.execute(unbilled).fetchall() == []


OWED = """
insert into billing_entry (tenant_id, number, entry_id, partition, kind, dimension, quantity, unit_price, at, reason, created_at)
values ('credited', %(n)s, 'be_owed_' || %(n)s, 0, 'adjustment', 'tokens', 10, '1', now(), 'r', now())
"""
GIFT = """
insert into billing_entry (tenant_id, number, entry_id, partition, kind, amount, reason, created_at)
values ('credited', 1, 'be_gift', 0, 'credit', 4, 'r', now())
"""
CANCELED = """
insert into payment_intent (id, merchant_id, amount, currency, state, version, capture_method, processor, amount_capturable,
                            amount_received, amount_refunded, amount_disputed, latest_attempt, metadata, partition, created_at,
                            updated_at, reference)
values (%s, %s, 6, 'EUR', %s, 1, 'automatic', 'p', 0, 0, 0, 0, 0, '{}', 0, now(), now(), 'in_credited_1')
"""
TOTALS = """
select run_number, (convert_from(document, 'UTF8')::jsonb ->> 'total')::int, returned from tenant_invoice
where tenant_id = 'credited' order by 1
"""


def test_credit_that_a_void_invoice_took_is_in_the_next_one_and_in_no_other(stack: World) -> None:
    """Void is what the intent of that invoice says, not another one that says its name."""
    addresses, intent = stack.settings.addresses(), intent_of("in_credited_1")
    metering = addresses.postgres_dsns["millrace_tenancy_metering"]
    with psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(GIFT.encode())
        for number in range(1, 5):
            connection.execute(OWED.encode(), {"n": number + 1})
            connection.execute(RUN.encode(), ("{}", "credited", number))
            assert made(metering) == 1
            if number == 1:
                connection.execute(CANCELED.encode(), ("pi_other", BILLING_MERCHANT, "canceled"))
                connection.execute(CANCELED.encode(), (intent, BILLING_MERCHANT, "requires_payment_method"))
            if number == 2:
                connection.execute("update payment_intent set state = 'canceled' where id = %s", (intent,))
        assert connection.execute(TOTALS.encode()).fetchall() == [(1, 6, []), (2, 10, []), (3, 6, [1]), (4, 10, [])]
        assert changed(connection) == []
        connection.execute("update tenant_invoice set returned = '{}' where invoice_id = 'in_credited_3'")
        assert changed(connection) == ["in_credited_3"]
        connection.execute("update tenant_invoice set returned = '{1}' where invoice_id = 'in_credited_3'")
        connection.execute(
            "update tenant_invoice set returned = null where invoice_id = 'in_credited_2'"
        )  # as of before
        left = connection.execute(SQL["invoices_of_credit"].encode(), {"tenant": "credited"}).fetchall()
        assert [ordinal for ordinal, _ in left] == [3, 4]


ENTRY = """
insert into billing_entry (tenant_id, number, entry_id, partition, kind, dimension, quantity, unit_price, at, reason, created_at)
values ('a_huge', %(n)s, 'be_huge_' || %(n)s, 0, 'adjustment', 'tokens', %(quantity)s, '1025', now(), 'r', now())
"""


def test_an_invoice_that_cannot_be_made_is_tried_later_and_holds_up_no_other(
    stack: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person corrected before it was bounded leaves more credit than a column holds."""
    addresses, failed = stack.settings.addresses(), Failed()
    of = "select tenant_id from tenant_invoice where tenant_id in ('a_huge', 'b_other') order by 1"
    with (
        psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection,
        connected(addresses.postgres_dsns["millrace_tenancy_metering"], "invoices") as metering,
    ):
        connection.execute(ENTRY.encode(), {"n": 1, "quantity": -(2**53 - 1)})
        for tenant in ("a_huge", "b_other"):
            connection.execute(RUN.encode(), ("{}", tenant, 1))
        monkeypatch.setattr(limits, "BILLING_RUNS_AT_ONCE", 1)
        monkeypatch.setattr(limits, "BILLING_AGAIN_S", 3_600)
        assert [make_due(metering, failed) for _ in range(3)] == [0, 1, 0]
        assert connection.execute(of.encode()).fetchall() == [("b_other",)]
        connection.execute("update billing_entry set quantity = -1 where tenant_id = 'a_huge'")
        assert make_due(metering, failed) == 0  # it has its time
        assert make_due(metering, Failed()) == 1
        assert connection.execute(of.encode()).fetchall() == [("a_huge",), ("b_other",)]
        assert changed(connection) == []

        connection.execute(ENTRY.encode(), {"n": 2, "quantity": 2**53 - 1})
        connection.execute(RUN.encode(), ("{}", "a_huge", 2))
        assert make_due(metering, Failed()) == 1
    with psycopg.connect(addresses.postgres_dsns["millrace_console"]) as console:  # which shows it beside all others
        for name in ("billing_newest", "billing_runs"):
            text = (resources.files("ingress.tenancy.console") / "queries" / f"{name}.sql").read_text()
            rows = console.execute(text.encode(), {"tenant": "a_huge", "limit": 1_000}).fetchall()
            assert 1025 * (2**53 - 2) in [value for row in rows for value in row]


def test_an_invoice_that_takes_too_long_holds_up_no_other(stack: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take minutes: it reads every event of its period, and here waits for them."""
    addresses, failed = stack.settings.addresses(), Failed()
    metering = addresses.postgres_dsns["millrace_tenancy_metering"]
    of = b"select tenant_id from tenant_invoice where tenant_id in ('a_long', 'b_short') order by 1"
    with connected(metering, "invoices") as unhurried:
        assert unhurried.execute("show transaction_timeout").fetchone() == ("10min",)
    monkeypatch.setattr(limits, "BILLING_INVOICE_MAX_MS", 500)
    monkeypatch.setattr(limits, "BILLING_AGAIN_S", 3_600)
    with (
        psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection,
        psycopg.connect(addresses.postgres_superuser_dsn) as events,
    ):
        for tenant in ("a_long", "b_short"):
            connection.execute(RUN.encode(), ("{}", tenant, 1))
        events.execute("lock table usage_event in access exclusive mode")
        with pytest.raises(psycopg.OperationalError), connected(metering, "invoices") as cut:
            make_due(cut, failed)
        events.rollback()
        assert failed.waiting() == [("a_long", 1)]
        with connected(metering, "invoices") as another:
            assert make_due(another, failed) == 1
            assert connection.execute(of).fetchall() == [("b_short",)]
            assert make_due(another, Failed()) == 1
        assert connection.execute(of).fetchall() == [("a_long",), ("b_short",)]


def test_an_invoice_of_too_many_events_for_one_answer_is_made_again_meanwhile(
    stack: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for all who ask, and told until it is old; here reading its events waits for a lock."""
    addresses = stack.settings.addresses()
    monkeypatch.setattr(stores, "_SETTINGS", f"{stores._SETTINGS} -c statement_timeout=500")
    with (
        psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection,
        psycopg.connect(addresses.postgres_superuser_dsn) as events,
        connected(addresses.postgres_dsns["millrace_tenancy_metering"], "again") as metering,
    ):
        connection.execute(RUN.encode(), ("{}", "z_many", 1))
        assert make_due(metering, Failed()) == 1

        async def asked() -> None:
            store = stores.Store(addresses.postgres_dsns["millrace_ingress"])
            await store.open()
            billing = Billing(store, Cursors(b"k" * 32), Questions())
            stored = await billing.invoice("in_z_many_1")
            events.execute("lock table usage_event in access exclusive mode")
            assert await billing.made_again("in_z_many_1", stored) is None
            events.rollback()
            assert await billing.made_again("in_z_many_1", stored) is None
            assert [make_asked(metering, Failed()) for _ in range(2)] == [1, 0]
            assert await billing.made_again("in_z_many_1", stored) == stored.document
            connection.execute("update invoice_again set document = 'of before'")
            assert await billing.made_again("in_z_many_1", stored) == b"of before"
            connection.execute("update invoice_again set made_at = made_at - interval '1 hour'")
            assert await billing.made_again("in_z_many_1", stored) == stored.document
            events.execute("lock table usage_event in access exclusive mode")
            assert await billing.made_again("in_z_many_1", stored) is None
            events.rollback()
            assert make_asked(metering, Failed()) == 1
            assert await billing.made_again("in_z_many_1", stored) == stored.document
            await store.close()

        asyncio.run(asked())


@pytest.mark.timeout(1_800 if TENANTS > 1_000 else 240)
def test_every_tenant_has_its_invoices_and_each_is_made_again(stack: World) -> None:
    addresses = stack.settings.addresses()
    metering, prices = addresses.postgres_dsns["millrace_tenancy_metering"], json.dumps(PRICE)
    with psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection:
        for number, first, events, after in ((1, 1, EVENTS - 1, 0), (2, EVENTS, 1, (EVENTS - 1) * TENANTS)):
            asked = {
                "tenants": TENANTS,
                "number": number,
                "prices": prices,
                "first": first,
                "events": events,
                "after": after,
            }
            connection.execute(USED.encode(), asked)
            connection.execute(COUNTED.encode(), (after + events * TENANTS,))
            connection.execute(RUNS.encode(), asked)
            if number == 2:
                connection.execute(CREDIT.encode(), asked)
            assert made(metering) == TENANTS
        assert made(metering) == 0
        query = """
            select run_number, (convert_from(document, 'UTF8')::jsonb ->> 'total')::int, count(*) from tenant_invoice
            where starts_with(tenant_id, 'tn_') group by 1, 2 order by 1
        """
        # 10 units: 6 at 2, 4 at 1.5; then 5 late ones at 1.5, rounded to even, less the credit
        assert connection.execute(query.encode()).fetchall() == [(1, 18, TENANTS), (2, 8 - 3, TENANTS)]
        assert changed(connection) == []
        connection.execute("update usage_event set quantity = 9 where tenant_id = 'tn_7' and event_id = 'e2'")
        assert changed(connection) == ["in_7_1"]
        connection.execute("update usage_event set quantity = 2 where tenant_id = 'tn_7' and event_id = 'e2'")
        connection.execute("update billing_entry set amount = 4 where tenant_id = 'tn_8'")
        assert changed(connection) == ["in_8_2"]
        connection.execute("update billing_entry set amount = 3 where tenant_id = 'tn_8'")
