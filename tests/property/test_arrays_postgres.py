"""Array literals made here are what Postgres reads: any text, any number, any bytes, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinks.postgres import arrays
from tests.gate import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
texts = st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
integers = st.lists(st.integers(-(2**63), 2**63 - 1))
relaxed = settings(
    deadline=None, max_examples=examples(15, 60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def connection(stack: World) -> Iterator[psycopg.Connection]:
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as found:
        found.prepare_threshold = 0
        arrays.register(found)
        yield found


def read(connection: psycopg.Connection, kind: str, literal: object) -> list[object]:
    row = connection.execute(f"select %s::{kind}[]".encode(), (literal,)).fetchone()
    assert row is not None
    return list(row[0])


@relaxed
@given(values=texts)
def test_texts(connection: psycopg.Connection, values: list[str]) -> None:
    assert read(connection, "text", arrays.text_array(values)) == values


@relaxed
@given(values=integers)
def test_integers(connection: psycopg.Connection, values: list[int]) -> None:
    assert read(connection, "bigint", arrays.int_array(values)) == values
    assert read(connection, "numeric", arrays.int_array(values)) == values


@relaxed
@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=80))
def test_big_integers_in_binary(connection: psycopg.Connection, values: list[int]) -> None:
    assert read(connection, "bigint", arrays.Bigints(values)) == values


@relaxed
@given(values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=80))
def test_integers_in_binary(connection: psycopg.Connection, values: list[int]) -> None:
    assert read(connection, "int", arrays.Integers(values)) == values


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**31])
def test_a_number_that_does_not_fit_is_refused_here(value: int) -> None:
    """Cut off, it would be another amount."""
    with pytest.raises(OverflowError):
        (arrays.Bigints if abs(value) > 2**62 else arrays.Integers)([value]).encoded()


@relaxed
@given(values=st.lists(st.booleans()))
def test_booleans(connection: psycopg.Connection, values: list[bool]) -> None:
    assert read(connection, "boolean", arrays.bool_array(values)) == values


@relaxed
@given(values=st.lists(st.none() | st.text("abc'\"\\{},", min_size=1)))
def test_texts_that_may_be_missing(connection: psycopg.Connection, values: list[str | None]) -> None:
    """As every query reads them: nullif turns the empty text back."""
    literal = arrays.optional_text_array(values)
    found = connection.execute(
        "select nullif(t, '') from unnest(%s::text[]) with ordinality as u (t, n) order by n", (literal,)
    ).fetchall()
    assert [row[0] for row in found] == values


@relaxed
@given(values=st.lists(st.binary(max_size=40)))
def test_bytes(connection: psycopg.Connection, values: list[bytes]) -> None:
    assert read(connection, "bytea", arrays.Blobs(values)) == values


@relaxed
@given(values=st.lists(st.integers(0, 4_102_444_800_000_000), max_size=80))
def test_times(connection: psycopg.Connection, values: list[int]) -> None:
    """To the microsecond, and before 2000 too."""
    found = connection.execute(
        "select (extract(epoch from t) * 1000000)::bigint from unnest(%s::timestamptz[]) with ordinality as u (t, n)"
        " order by n",
        (arrays.Times(values),),
    ).fetchall()
    assert [row[0] for row in found] == values


@relaxed
@given(values=texts)
def test_a_column_is_what_its_literal_is(connection: psycopg.Connection, values: list[str]) -> None:
    assert read(connection, "text", arrays.Texts(values)) == values
