"""The data dictionary says of every table what ClickHouse says, and what it asks is answered."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from schemas.tenancy import dictionary
from schemas.tenancy.usage_digest import digest as digest_of_sums
from sinks.clickhouse import tables
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.social.measures import MEASURES
from sinks.clickhouse.social.service import EVENTS
from sinks.clickhouse.social.service import SINKS as SOCIAL
from sinks.clickhouse.tenancy.records import AUDIT, COSTS, EVIDENCE
from sinks.clickhouse.tenancy.service import SINKS as TENANCY
from sinks.clickhouse.tenancy.usage import USAGE
from tests.each import each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver.client import Client

    from tests.servers import World

pytestmark = pytest.mark.servers
TEXT = (Path(__file__).parents[2] / "docs" / "dictionary.md").read_text()
TABLES = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
IN_POSTGRES = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", TEXT, re.MULTILINE | re.DOTALL))
WORDS = re.compile(r"^\| `(\w+)` \| ([^|]+) \|$", re.MULTILINE)
COLUMN = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)
QUERY = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def used(now: datetime) -> list[tuple[object, ...]]:
    """Events of the seconds before."""
    return [
        (0, n, "tn_dictionary", "/meter", f"e{n}", "tokens", f"team-{n % 2}", n, now - timedelta(seconds=n))
        for n in range(1, 6)
    ]


@pytest.fixture(scope="module")
def now() -> datetime:
    """As the rows are written: since this module was imported, a month may have ended."""
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def client(stack: World, now: datetime) -> Iterator[Client]:
    """Both services' tables, with some rows of this month."""
    made = ClickHouseConnection(url=stack.settings.addresses().clickhouse_url).client()
    for sink in (*TENANCY, *SOCIAL):
        tables.apply_schema(made, sink.definitions())
    spent = [(0, n, "tn_dictionary", now, "ingress-0", 10 * n, 1_000 * n, n, 500 * n, 64, 70 * n) for n in range(1, 4)]
    evidence = [(1, 1, 1, now, "sql:no_context", "a row was seen")]
    log = [(2, n, now, "s_ann", "millrace_ingress", "placement.drain", "tenancy_pool", "done") for n in range(1, 3)]
    happened = [(0, n, f"post_{n % 2}", "published", n, now) for n in range(1, 6)]
    counted = [
        (0, n, now, measure, subject, n, 1_000 * n)
        for n, (measure, subject) in enumerate(
            [
                ("fanout", "pushes"),
                ("fanout", "deliveries"),
                ("propagation", "homes"),
                ("report", "spam"),
                ("answer", "none"),
            ],
            1,
        )
    ]
    made.insert(USAGE.name, used(now), column_names=USAGE.columns)
    for table, rows in ((COSTS, spent), (EVIDENCE, evidence), (AUDIT, log), (MEASURES, counted)):
        made.insert(table.name, rows, column_names=table.columns)
    made.insert(EVENTS.name, happened, column_names=EVENTS.columns)
    yield made
    made.close()


def test_every_table_of_both_services_has_its_entry(client: Client) -> None:
    there = {name for (name,) in client.query("show tables").result_rows} - {"schema_version"}
    own = {name for name in there if re.search(r"usage_|tenant_|social_|isolation_|audit_", name)}
    assert own == TABLES.keys()


@each("table", TABLES)
def test_columns_are_those_that_are_there(client: Client, table: str) -> None:
    described = [(row[0], row[1]) for row in client.query(f"describe table {table}").result_rows]
    assert COLUMN.findall(TABLES[table]) == described


@each("query", QUERY.findall(TEXT))
def test_every_question_is_answered(client: Client, query: str) -> None:
    assert client.query(query).result_rows


def test_the_digest_of_a_line_is_told_by_clickhouse_too(client: Client, now: datetime) -> None:
    """Of the events of this month, by what the guide to invoices says of it."""
    sums, begins = [0, 0], now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    for _, _, *said, at in (one for one in used(now) if one[-1] >= begins):
        texts = (*map(str, said), str((at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)))
        told = hashlib.sha256("\x1f".join(texts).encode()).digest()
        sums = [(sums[n] + int.from_bytes(told[8 * n : 8 * n + 8])) % 2**64 for n in (0, 1)]
    (query,) = (one for one in QUERY.findall(TEXT) if "SHA256" in one)
    ((_, _, _, digest),) = client.query(query).result_rows
    assert digest == digest_of_sums(*sums)


def test_tables_of_postgres_are_as_they_are_declared() -> None:
    assert IN_POSTGRES.keys() == dictionary.TABLES.keys()
    for name, text in IN_POSTGRES.items():
        declared = dictionary.TABLES[name]
        assert text.partition(".\n")[0] == declared.says
        assert WORDS.findall(text) == list(declared.columns.items())


def test_comments_of_postgres_are_as_they_are_declared(stack: World) -> None:
    """Of every column that there is: one that a migration adds has its word."""
    said = (
        "select c.relname, coalesce(a.attname, ''), d.description from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid and a.attnum >= 0 and not a.attisdropped"
        " left join pg_description d on d.objoid = c.oid and d.classoid = 'pg_class'::regclass and d.objsubid = a.attnum"
        " where c.relnamespace = 'public'::regnamespace and c.relname = any(%s) order by a.attnum"
    )
    whole = "select obj_description(%s::regclass, 'pg_class')"
    with psycopg.connect(stack.settings.addresses().postgres_superuser_dsn) as connection:
        rows = connection.execute(said, (list(dictionary.TABLES),)).fetchall()
        for name, declared in dictionary.TABLES.items():
            assert {c: words for table, c, words in rows if table == name} == declared.columns, name
            assert connection.execute(whole, (name,)).fetchone() == (declared.says,)
