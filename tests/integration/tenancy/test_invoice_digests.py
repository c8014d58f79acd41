"""Lines of invoices prove their events: the digest is made here anew, and finds what the sums cannot."""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.integration.tenancy.test_many_invoices import COUNTED, changed, made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
DAY_US = 86_400_000_000
AT_US = time.time_ns() // 1_000 - 4 * DAY_US
Event = tuple[str, int, str | None, int]  # its id, quantity, subject, and microseconds behind AT_US
OWN: list[Event] = [("e1", 3, None, 0), ("e2", 4, "team é", 1), ("e3", 2**53 - 1, "", DAY_US - 2)]
LATE: Event = ("e4", 5, "team", 7)
USED = b"""insert into usage_event (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, partition, seq)
values ('digested', '/meter', %s, 'tokens', %s, nullif(%s::text, ''), timestamptz 'epoch' + %s * interval '1 microsecond', 0, %s)"""
RUN = b"""insert into billing_run (tenant_id, number, billing_run_id, invoice_id, partition, period_from, period_to, grace_s,
                         currency, prices, created_at)
select 'digested', n, 'br_digested_' || n, 'in_digested_' || n, 0, at + (n - 1) * interval '1 day', at + n * interval '1 day',
       0, 'EUR', '{"tokens": "0.000001"}', now()
from (select timestamptz 'epoch' + %s * interval '1 microsecond' as at, %s::int as n) as t"""


def lines(connection: psycopg.Connection[Any], number: int) -> list[dict[str, Any]]:
    query = "select document from tenant_invoice where tenant_id = 'digested' and run_number = %s"
    ((document,),) = connection.execute(query, (number,)).fetchall()
    found: list[dict[str, Any]] = json.loads(document)["lines"]
    return found


def digest_of(*events: Event) -> str:
    sums = [0, 0]
    for id_, quantity, subject, after in events:
        said = ("digested", "/meter", id_, "tokens", subject or "", str(quantity), str(AT_US + after))
        told = hashlib.sha256("\x1f".join(said).encode()).digest()
        sums = [sums[n] + int.from_bytes(told[8 * n : 8 * n + 8]) for n in (0, 1)]
    return "".join(f"{one % 2**64:016x}" for one in sums)


@pytest.fixture(scope="module")
def billed(stack: World) -> Iterator[psycopg.Connection[Any]]:
    """Three events of a day, then one that came late for it; each is billed."""
    addresses = stack.settings.addresses()
    metering = addresses.postgres_dsns["millrace_tenancy_metering"]
    with psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection:
        for number, events in ((1, OWN), (2, [LATE])):
            for place, (id_, quantity, subject, after) in enumerate(events, 2_000_000 + 10 * number):
                connection.execute(USED, (id_, quantity, subject, AT_US + after, place))
            connection.execute(COUNTED.encode(), (2_000_009 + 10 * number,))
            connection.execute(RUN, (AT_US, number))
            assert made(metering) == 1
        yield connection


def test_a_line_says_its_meter_and_the_digest_of_its_events(billed: psycopg.Connection[Any]) -> None:
    (own,), (late,) = lines(billed, 1), lines(billed, 2)
    assert (own["kind"], own["events"], own["digest"]) == ("usage", 3, digest_of(*OWN))
    assert (late["kind"], late["events"], late["digest"]) == ("late_usage", 1, digest_of(LATE))
    assert own["digest"] == digest_of(*reversed(OWN))
    assert (own["meter_version"], late["meter_version"]) == (1, 1)
    assert changed(billed) == []


def _swapped(event_id: str, other: str, column: str) -> str:
    return (
        f"update usage_event e set {column} = o.{column} from usage_event o where e.tenant_id = 'digested'"
        f" and o.tenant_id = 'digested' and (e.event_id, o.event_id) in (('{event_id}', '{other}'), ('{other}', '{event_id}'))"
    )


@pytest.mark.parametrize(
    "change",
    [
        _swapped("e1", "e2", "quantity"),
        _swapped("e1", "e2", "subject"),
        _swapped("e1", "e2", "occurred_at"),
        "update usage_event set event_id = 'e9' where tenant_id = 'digested' and event_id = 'e1'",
        "update usage_event set source = '/other' where tenant_id = 'digested' and event_id = 'e1'",
        "update usage_event set subject = 'x' where tenant_id = 'digested' and event_id = 'e1'",
    ],
)
def test_a_change_that_no_sum_shows_is_found(billed: psycopg.Connection[Any], change: str) -> None:
    """Quantity and number of the line are as they were; another subject alone changes its bytes."""
    with billed.transaction(force_rollback=True):
        billed.execute(change.encode())
        assert changed(billed) == ["in_digested_1"]
    assert changed(billed) == []


def _without_proof(document: bytes) -> bytes:
    found = json.loads(document)
    found["lines"] = [
        {name: said for name, said in line.items() if name not in ("meter_version", "digest")}
        for line in found["lines"]
    ]
    return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def test_an_invoice_of_before_says_neither_and_is_made_again_as_it_stands(billed: psycopg.Connection[Any]) -> None:
    with billed.transaction(force_rollback=True):
        changing = "update tenant_invoice set document = %s where invoice_id = 'in_digested_1'"
        query = "select document from tenant_invoice where invoice_id = 'in_digested_1'"
        ((document,),) = billed.execute(query).fetchall()
        billed.execute(changing, (_without_proof(document),))
        assert changed(billed) == ["in_digested_1"]
        billed.execute("update tenant_invoice set meter_version = default where invoice_id = 'in_digested_1'")
        assert changed(billed) == []
