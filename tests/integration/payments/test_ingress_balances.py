"""A balance is exactly the merchant's own, adds up in the ledger, and is known for every past moment."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.payments.domain.policies.fees import FeeSchedule
from ingress.http.store import Store
from ingress.payments.merchants.balances import Balances
from tests.eventually import eventually, patient
from tests.integration.payments.test_ingress_disputes import tell
from tests.integration.payments.test_ingress_refunds import paid, refund, refused, settled
from tests.migrated import clone_database, in_database
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.servers import World
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = pytest.mark.servers

NOTHING = {"pending": 0, "available": 0, "reserved": 0}
SHARE = FeeSchedule().merchant_share
# Names of which each could be taken for another one by a pattern, a prefix or a separator.
NAMES = ("m_1", "m11", "m", "m_1:USD", "m_1:", "m%", "%", "_", "m_", "M_1", "m_1 ", "m_1;", "é")


@pytest.fixture
def database(stack: World) -> tuple[str, str]:
    """An empty migrated database: the DSN of the ingress and the superuser's."""
    name = f"balances_{uuid.uuid4().hex[:8]}"
    superuser = clone_database(stack.addresses.postgres_superuser_dsn, name)
    return in_database(stack.addresses.postgres_dsns["millrace_ingress"], name), superuser


def post(connection: psycopg.Connection, txn: int, debit: str, credit: str, amount: int, at: datetime) -> None:
    """One transfer as an owner writes it: its lines in one statement, and the sums of the accounts in some partition."""
    currency = debit.rpartition(":")[2]
    lines = [(txn, 0, debit, amount, 0, currency, at), (txn, 1, credit, 0, amount, currency, at)]
    connection.execute(
        "insert into ledger_entry values (%s, %s, %s, %s, %s, %s, %s), (%s, %s, %s, %s, %s, %s, %s)",
        [*lines[0], *lines[1]],
    )
    for _, _, account, down, up, *_ in lines:
        connection.execute(
            "insert into account_balance as b values (%s, %s, %s, %s, %s, 1) on conflict (account_id, partition)"
            " do update set debits = b.debits + excluded.debits, credits = b.credits + excluded.credits",
            (account, txn % 3, currency, down, up),
        )


def asked(dsn: str, *questions: tuple[str, datetime | None]) -> list[dict[str, dict[str, int]]]:
    async def ask() -> list[dict[str, dict[str, int]]]:
        store = Store(dsn)
        await store.open()
        await store._pool.wait(patient(30))  # a caller of the ingress would not wait for the first connection so long
        try:
            balances = Balances(store)
            microseconds = [None if at is None else int(at.timestamp() * 1_000_000) for _, at in questions]
            documents = [
                json.loads(await balances.document(name, at))
                for (name, _), at in zip(questions, microseconds, strict=True)
            ]
        finally:
            await store.close()
        return [{row.pop("currency"): row for row in document["data"]} for document in documents]

    return asyncio.run(ask())


def test_names_that_look_alike_are_different_merchants(database: tuple[str, str]) -> None:
    """No pattern, prefix or separator in a name opens another one's balance."""
    ingress_dsn, superuser_dsn = database
    now = datetime.now(UTC)
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        for n, name in enumerate(NAMES, 1):
            post(connection, n, "cash:bank:USD", f"merchant_pending:{name}:USD", n, now)
            post(connection, 100 + n, f"merchant_pending:{name}:EUR", f"merchant_dispute_hold:{name}:EUR", n, now)
            post(connection, 200 + n, f"auth_hold:{name}:JPY", f"auth_obligation:{name}:JPY", n, now)
        before = now - timedelta(seconds=1)
        found = asked(ingress_dsn, *((name, None) for name in NAMES), *((name, before) for name in NAMES))
    for n, (name, balances, earlier) in enumerate(zip(NAMES, found, found[len(NAMES) :], strict=False), 1):
        assert balances == {
            "USD": NOTHING | {"pending": n},
            "EUR": NOTHING | {"pending": -n, "reserved": n},
        }, name
        assert earlier == {"USD": NOTHING, "EUR": NOTHING}, name


def test_a_past_balance_is_what_was_posted_until_then(database: tuple[str, str]) -> None:
    """At every moment: the moment itself counts, later ones do not, and sums may pass 64 bits."""
    ingress_dsn, superuser_dsn = database
    start, amount = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), 2**62
    times = [start + timedelta(microseconds=n) for n in range(5)]
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        for n, at in enumerate(times):
            post(connection, n, "cash:bank:USD", "merchant_available:m_1:USD", amount, at)
        early, late = start - timedelta(days=400), start + timedelta(days=400)
        found = asked(ingress_dsn, *(("m_1", at) for at in (early, *times, late, None)))
    assert [f["USD"]["available"] for f in found] == [n * amount for n in (0, 1, 2, 3, 4, 5, 5, 5)]


def test_an_index_serves_balances(database: tuple[str, str]) -> None:
    """Now and then: neither reads the accounts or the lines of others, nor a row of the ledger."""
    _, superuser_dsn = database
    query = (resources.files("ingress") / "queries" / "payments" / "balances.sql").read_text()
    query = re.sub(r"%\((kinds|prefixes)\)s::text\[\]", "array['x']", query).replace("%(at)s", "0")
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        connection.execute(
            "insert into ledger_entry select n, k, case k when 0 then 'cash:b:USD' else 'merchant_pending:m' || n % 100 ||"
            " ':USD' end, (1 - k), k, 'USD', now() from generate_series(1, 20000) n, generate_series(0, 1) k"
        )
        connection.execute(
            "insert into account_balance select 'merchant_pending:m' || n || ':USD', 0, 'USD', 0, 1, 1"
            " from generate_series(1, 20000) n"
        )
        connection.execute("vacuum analyze ledger_entry")
        connection.execute("vacuum analyze account_balance")
        plan = "\n".join(row[0] for row in connection.execute("explain " + query).fetchall())
    assert "account_balance_pkey" in plan, plan
    assert "Index Only Scan using ledger_entry_of_merchant" in plan, plan
    assert "Seq Scan" not in plan, plan


def test_the_ingress_reads_no_other_account_line_by_line(database: tuple[str, str]) -> None:
    """Least privilege: lines of merchants through the view, and no line of the platform's own accounts."""
    ingress_dsn, superuser_dsn = database
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        post(connection, 1, "merchant_pending:m_1:USD", "platform_fee_income:USD", 5, datetime.now(UTC))
    with psycopg.connect(ingress_dsn, autocommit=True) as connection:
        assert connection.execute("select account_id from merchant_entry").fetchall() == [("merchant_pending:m_1:USD",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select 1 from ledger_entry")


def balance(merchant: Merchant, at: str | None = None) -> dict[str, dict[str, int]]:
    answer = merchant.http.get("/v1/balance", params={"at": at} if at else {})
    assert answer.status_code == 200, answer.text
    return {row.pop("currency"): row for row in answer.json()["data"]}


def test_a_balance_follows_every_step_and_remembers_each(public: PublicSystem) -> None:
    """Captured, refunded, disputed, won: fees are taken, and every past moment reads as it was read then."""
    one, other = public.merchant("m_" + uuid.uuid4().hex[:8]), public.merchant("m-" + uuid.uuid4().hex[:8])
    with one.http, other.http:
        assert balance(one) == {}
        intent = paid(one, 10_000)
        expected: list[dict[str, dict[str, int]]] = [{"USD": NOTHING | {"pending": SHARE(10_000)}}]
        assert balance(one) == expected[-1]
        made = refund(one, intent["id"], amount=4_000).json()["result"]["id"]
        expected.append({"USD": NOTHING | {"pending": SHARE(10_000) - 4_000}})
        assert settled(one, made)["state"] == "succeeded"
        assert balance(one) == expected[-1]
        for status, funds, reserved in (("needs_response", "withdrawn", 5_000), ("won", "reinstated", 0)):
            tell(public, intent, "dsp_1", amount=5_000, status=status, funds=funds)
            expected.append({"USD": expected[1]["USD"] | {"available": -reserved, "reserved": reserved}})
            assert eventually(lambda: balance(one) == expected[-1], 20)
        paid(other, 3_000)
        assert balance(one) == expected[-1]
        assert balance(other) == {"USD": NOTHING | {"pending": SHARE(3_000)}}
        events = one.http.get("/v1/events?limit=500").json()["data"]
        assert balance(one, events[0]["occurred_at"]) == {"USD": NOTHING}
        times = [e["occurred_at"] for e in events if _moves_money(e)]
        assert [balance(one, at) for at in times] == expected
        before = [_just_before(at) for at in times[1:]]
        assert [balance(one, at) for at in before] == expected[:-1]
    rows = public.rows(
        "select split_part(account_id, ':', 1), sum(credit) - sum(debit) from ledger_entry"
        " where account_id like 'merchant%%' and split_part(account_id, ':', 2) = %s group by 1",
        one.name,
    )
    assert {name: int(total) for name, total in rows} == {
        "merchant_pending": expected[-1]["USD"]["pending"],
        "merchant_available": 0,
        "merchant_dispute_hold": 0,
    }


def _moves_money(event: dict[str, Any]) -> bool:
    """Captures, new refunds and what becomes of a dispute's funds; not that the processor paid a refund."""
    body = event["body"]
    if body.get("dispute") or event["operation"] == "create_refund":
        return True
    return event["operation"] == "record_attempt_outcome" and body["processor_attempt"]["status"] == "captured"


def _just_before(at: str) -> str:
    return (datetime.fromisoformat(at) - timedelta(microseconds=1)).isoformat()


def test_currencies_are_apart(public: PublicSystem) -> None:
    caller = public.merchant()
    with caller.http:
        for currency, amount in (("JPY", 1_000), ("KWD", 2_000), ("EUR", 3_000)):
            intent = caller.create(amount=amount, currency=currency).json()["result"]
            assert caller.act(intent["id"], "confirm").status_code == 200
        assert eventually(lambda: len(balance(caller)) == 3 and balance(caller), 40) == {
            currency: NOTHING | {"pending": SHARE(amount)}
            for currency, amount in (("EUR", 3_000), ("JPY", 1_000), ("KWD", 2_000))
        }
        currencies = [row["currency"] for row in caller.http.get("/v1/balance").json()["data"]]
        assert currencies == ["EUR", "JPY", "KWD"]


def test_a_time_is_read_exactly_or_refused(public: PublicSystem) -> None:
    caller = public.merchant()
    with caller.http:
        assert balance(caller, "2026-01-02T03:04:05.000006+02:00") == {}
        for at in (
            "",
            "now",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-02-30T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "\x00",
        ):
            problem = refused(caller.http.get("/v1/balance", params={"at": at}), 422, "invalid_command")
            assert problem["errors"][0]["field"] == "at"
        twice = caller.http.get("/v1/balance?at=2026-01-01T00:00:00Z&at=2026-01-01T00:00:00Z")
        refused(twice, 400, "malformed_request")
