"""Several statements in one round trip: what an owner's commit relies on, on real Postgres."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from sinks import limits
from sinks.postgres.arrays import (
    Bigints,
    Blobs,
    Booleans,
    Column,
    Integers,
    OptionalTexts,
    Smallints,
    Texts,
    Times,
)
from sinks.postgres.copied import copied, copy_of
from sinks.postgres.owner_connection import OwnerConnection, connect
from sinks.postgres.round_trip import RoundTrips

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
SAVE = "insert into pg_temp.saved values (%s)"
MANY = "insert into many (n) select t.n from unnest(%s::bigint[]) as t (n)"
ALL_KINDS = """
insert into kinds (said, told, missing, small, "whole", large, at, yes, raw)
select %s, t.told, nullif(t.missing, ''), t.small, t."whole", t.large, t.at, t.yes, t.raw
from unnest(%s::text[], %s::text[], %s::int[], %s::int[], %s::bigint[], %s::timestamptz[], %s::boolean[], %s::bytea[])
         as t (told, missing, small, "whole", large, at, yes, raw)
""".strip()
KINDS: list[Column] = [
    Texts(["", "a", 'quo"te\\', "Ä\U0001f4b3", "null", "x" * 70_000]),
    OptionalTexts([None, "", "b", "{}", "\\N", "\t"]),
    Smallints([0, 1, -1, 2**15 - 1, -(2**15), 7]),
    Integers([0, 1, -1, 2**31 - 1, -(2**31), 7]),
    Bigints([0, 1, -1, 2**63 - 1, -(2**63), 7]),
    Times([0, 1, -1, 1_790_000_000_000_000, 946_684_800_000_000, 253_402_300_799_999_999]),
    Booleans([True, False, True, False, True, False]),
    Blobs([b"", b"\x00", b"\xff" * 3, b"\\x00", b"{}", bytes(range(256))]),
]


@pytest.fixture
def connection(stack: World) -> Iterator[OwnerConnection]:
    with connect(stack.addresses.postgres_superuser_dsn, "round-trip") as found:
        found.execute("create temp table saved (n bigint check (n < 100))")
        yield found


@pytest.fixture
def trips(connection: OwnerConnection) -> RoundTrips:
    return RoundTrips(connection)


def saved(connection: OwnerConnection) -> list[int]:
    return [row[0] for row in connection.execute("select n from pg_temp.saved order by n").fetchall()]


def test_rows_come_back_by_statement(trips: RoundTrips) -> None:
    named = ("select %(b)s::int, %(a)s, %(b)s::int, '100%%'", {"a": "text", "b": 7, "c": "not asked for"})
    found = trips.run([("begin", None), ("select %s::int, %b", (1, b"\x00\xff")), named, ("commit", None)])
    assert found == [[], [(1, b"\x00\xff")], [(7, "text", 7, "100%")], []]


@pytest.mark.parametrize("prepared", [False, True], ids=["first use", "prepared before"])
def test_nothing_runs_behind_a_statement_that_failed(
    connection: OwnerConnection, trips: RoundTrips, prepared: bool
) -> None:
    """A commit behind a missed compare-and-set must not commit."""
    miss = "select 1 / (%s::int = 1)::int"
    if prepared:
        trips.run([("begin", None), (SAVE, (1,)), (miss, (1,)), ("rollback", None)])
    with pytest.raises(psycopg.errors.DivisionByZero):
        trips.run([("begin", None), (SAVE, (2,)), (miss, (0,)), (SAVE, (3,)), ("commit", None)])
    trips.run([("rollback", None)])
    assert saved(connection) == []


def test_a_session_whose_transaction_took_too_long_is_away_as_any_other(connection: OwnerConnection) -> None:
    """Whoever waits for servers that are away begins again: it does not end for good."""
    connection.execute("set transaction_timeout = 50")
    with pytest.raises(psycopg.OperationalError, match="transaction timeout"):
        connection.execute("select pg_sleep(60)")
    assert connection.broken


def test_the_error_is_of_the_first_that_failed(trips: RoundTrips) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        trips.run([("begin", None), (SAVE, (100,)), ("select 1 / %s::int", (0,)), ("commit", None)])


def test_statements_go_on_after_a_rollback(connection: OwnerConnection, trips: RoundTrips) -> None:
    """psycopg deallocates what it prepared when it sees a rollback, and would take these with it."""
    trips.run([("begin", None), (SAVE, (1,)), ("commit", None)])
    connection.execute("rollback")
    connection.execute("select 1")
    trips.run([("begin", None), (SAVE, (2,)), ("commit", None)])
    assert saved(connection) == [1, 2]


def test_what_was_deallocated_is_prepared_again_at_the_next_try(connection: OwnerConnection, trips: RoundTrips) -> None:
    trips.run([(SAVE, (1,))])
    connection.execute("deallocate all")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        trips.run([(SAVE, (2,))])
    trips.run([(SAVE, (3,))])
    assert saved(connection) == [1, 3]


def test_more_than_the_sockets_hold_in_both_directions(trips: RoundTrips) -> None:
    """Neither side may wait for the other to read."""
    large = b"x" * 4_000_000
    found = trips.run([("select %b", (large,)) for _ in range(6)])
    assert [row for ((row,),) in found] == [large] * 6


def test_a_parameter_that_cannot_be_sent_sends_nothing(connection: OwnerConnection, trips: RoundTrips) -> None:
    with pytest.raises(OverflowError):
        trips.run([("begin", None), (SAVE, (1,)), ("select %s::bigint[]", (Bigints([2**63]),)), ("commit", None)])
    trips.run([(SAVE, (2,))])
    assert saved(connection) == [2]


def test_a_server_that_goes_away_is_an_operational_error(connection: OwnerConnection, trips: RoundTrips) -> None:
    with pytest.raises(psycopg.OperationalError):
        trips.run([("begin", None), ("select pg_terminate_backend(pg_backend_pid())", None), ("commit", None)])
    assert connection.closed or connection.broken


@pytest.fixture
def copies(connection: OwnerConnection, monkeypatch: pytest.MonkeyPatch) -> OwnerConnection:
    monkeypatch.setattr(limits, "COPY_ROWS_MIN", 2)
    connection.execute("create temp table many (n bigint check (n < 100))")
    connection.execute(
        'create temp table kinds (said text, told text, missing text, small smallint, "whole" int, large bigint,'
        " at timestamptz, yes boolean, raw bytea)"
    )
    return connection


def many(connection: OwnerConnection) -> list[int]:
    return [row[0] for row in connection.execute("select n from many order by n").fetchall()]


@pytest.mark.parametrize("row", [None, 0, 1, 5], ids=["different", "same", "same short", "same large"])
def test_many_rows_are_the_same_by_copy_as_by_insert(
    copies: OwnerConnection, trips: RoundTrips, monkeypatch: pytest.MonkeyPatch, row: int | None
) -> None:
    kinds = KINDS if row is None else [type(column)([column.values[row]] * 6) for column in KINDS]
    statement = (copied(ALL_KINDS), ("sa\u0131d", *kinds))
    trips.write([("begin", None), statement, ("commit", None)])
    by_copy = copies.execute("select * from kinds order by told").fetchall()
    copies.execute("delete from kinds")
    monkeypatch.setattr(limits, "COPY_ROWS_MIN", len(KINDS[0].values) + 1)
    assert copy_of(*statement) is None
    trips.write([("begin", None), statement, ("commit", None)])
    assert (by_copy, len(by_copy)) == (copies.execute("select * from kinds order by told").fetchall(), 6)


def test_a_text_that_no_store_can_hold_is_not_copied_into_its_neighbours(copies: OwnerConnection) -> None:
    """A NUL stands between the texts of a column while they are encoded."""
    with pytest.raises(ValueError, match="NUL"):
        copy_of(copied(ALL_KINDS), ("said", Texts(["a", "b\0c"] * 3), *KINDS[1:]))


def test_copies_keep_their_place_among_other_statements(copies: OwnerConnection, trips: RoundTrips) -> None:
    text = copied(MANY)
    none = "select 1 / (1 - count(*))::int from many where n = 1"  # fails where the first row is there
    again = "select 1 / (count(*) - 1)::int from many"  # and where the first copy is not
    trips.write(
        [("begin", None), (none, None), (text, (Bigints([1, 2]),)), (again, None), (text, (Bigints([3, 4]),))]
        + [(text, (Bigints([5]),)), ("commit", None)]
    )
    assert many(copies) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("rows", [[1, 100], [100]], ids=["copy", "insert"])
def test_nothing_is_committed_behind_a_copy_that_failed(
    copies: OwnerConnection, trips: RoundTrips, rows: list[int]
) -> None:
    text = copied(MANY)
    with pytest.raises(psycopg.errors.CheckViolation):
        trips.write([("begin", None), (text, (Bigints([7, 8]),)), (text, (Bigints(rows),)), ("commit", None)])
    copies.execute("rollback")
    trips.write([("begin", None), (text, (Bigints([1, 2]),)), ("commit", None)])
    assert many(copies) == [1, 2]


def test_a_server_that_goes_away_in_a_copy_is_an_operational_error(copies: OwnerConnection, trips: RoundTrips) -> None:
    end = ("select pg_terminate_backend(pg_backend_pid())", None)
    with pytest.raises(psycopg.OperationalError):
        trips.write([("begin", None), end, (copied(MANY), (Bigints([1, 2]),)), ("commit", None)])
    assert copies.closed or copies.broken


@pytest.mark.parametrize(
    "text",
    [
        "update many set n = 1",
        MANY.replace("select t.n", "select t.n + 1"),
        MANY.replace("select t.n", "select nullif(t.n, 0)"),
        MANY + " on conflict do nothing",
    ],
)
def test_an_insert_of_another_form_is_never_copied(text: str) -> None:
    with pytest.raises(ValueError, match="can be copied"):
        copied(text)
    assert copy_of(text, (Bigints([1] * 200),)) is None
