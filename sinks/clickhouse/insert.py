"""Puts a block into ClickHouse once, whatever was inserted of it before.

Within the window of remembered tokens a second insert of a block is dropped by ClickHouse. Past it, or when it cannot
be known, ``complete`` looks first and inserts what is missing. Traps: a token has no effect on a table without a
window, and the same token with other rows drops the new rows silently, so a token is never used for other rows; a block
over several months goes in month by month, so that a kill leaves some of it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from schemas import errors
from sinks import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver.client import Client

    from sinks.clickhouse.ranges import Range
    from sinks.clickhouse.tables import Row, Table, TableRows


class Inserter:
    """Inserts into live tables, or into their shadows, which have a suffix. One thread at a time."""

    def __init__(self, client: Client, tables: Sequence[Table], *, suffix: str = "") -> None:
        self._client = client
        self._suffix = suffix
        self._tables = tables
        self._types: dict[str, Any] = {}
        self.took_us = 0.0  # all that ClickHouse said of how long its inserts took

    def insert(self, made: TableRows, token: str) -> None:
        """Inserts each table's rows as one block under the token. Raises errors.Unavailable; then it is in or not."""
        for table in self._tables:
            if made[table.name]:
                self._insert(table, made[table.name], token)

    def complete(self, made: TableRows, ranges: Sequence[Range], token: str) -> dict[str, int]:
        """Inserts what is missing of a block and returns how many rows of each table were missing. None is afterwards.

        A block becomes a part in every month, and ClickHouse knows each by token and month. A killed process's insert
        may still be running: the months that are not in come under its own token, which lets one of the two in.
        """
        return {t.name: self._completed(t, made[t.name], ranges, token) if made[t.name] else 0 for t in self._tables}

    def _completed(self, table: Table, wanted: list[Row], ranges: Sequence[Range], token: str) -> int:
        """How many rows were missing.

        ClickHouse writes a token down before the part, under one lock: who is told that a token is known finds its
        rows. Where they are not, it was killed between the two, and would drop them under that token for ever.
        """
        lacking = missing = _lacking(table, wanted, self._present(table, ranges))
        for turn in range(limits.SINK_TOKENS_MAX):
            if not any(lacking):
                break
            self._insert_lacking(table, lacking, token if turn == 0 else f"{token}:{turn}")
            lacking = _lacking(table, wanted, self._present(table, ranges))
        if any(lacking):
            raise errors.Unavailable(f"ClickHouse takes rows of {table.name} and does not keep them")
        return sum(map(len, missing))

    def _insert_lacking(self, table: Table, lacking: tuple[list[Row], list[Row]], token: str) -> None:
        whole, rest = lacking
        if whole:
            self._insert(table, whole, token)
        if rest:  # somebody took rows of a part away: no insert is under way that could bring them
            keys = repr(_keys(table, rest))
            self._insert(table, rest, f"{token}:rest:{hashlib.sha256(keys.encode()).hexdigest()[:32]}")

    def _present(self, table: Table, ranges: Sequence[Range]) -> set[tuple[Any, ...]]:
        where = " or ".join(
            f"(kafka_partition = {r.partition} and seq between {r.first_seq} and {r.last_seq})" for r in ranges
        )
        return self.found(table, table.identity, where)

    def found(
        self, table: Table, columns: Sequence[str], where: str, parameters: dict[str, Any] | None = None
    ) -> set[tuple[Any, ...]]:
        """What is there, by these columns. ``where`` is SQL of ours. Raises errors.Unavailable."""
        query = f"select {', '.join(columns)} from {table.name}{self._suffix} where {where}"  # noqa: S608 - ours
        try:
            return {tuple(row) for row in self._client.query(query, parameters=parameters).result_rows}
        except (ClickHouseError, OSError) as error:
            raise _unavailable("read", table, error) from error

    def _insert(self, table: Table, made: Sequence[Row], token: str) -> None:
        self.insert_columns(table, columns_of(made), token)

    def insert_columns(self, table: Table, columns: Sequence[Sequence[Any]], token: str) -> None:
        """Inserts rows given as columns, as one block under the token. Raises errors.Unavailable; then in or not."""
        settings = {
            "insert_deduplicate": 1,
            "insert_deduplication_token": token,
            "async_insert": 0,  # acknowledged means on disk, and one block stays one block
            "max_insert_threads": 1,
            "max_partitions_per_insert_block": 0,  # old events span many months
        }
        try:
            context = self._client.create_insert_context(
                table.name + self._suffix,
                column_names=table.columns,
                column_types=self._types.get(table.name),
                column_oriented=True,
                settings=settings,
                data=columns,
            )
            self._types[table.name] = context.column_types
            said = self._client.insert(context=context).summary
            self.took_us += int(said.get("elapsed_ns", 0)) / 1_000
        except (ClickHouseError, OSError) as error:
            raise _unavailable("write", table, error) from error


def _lacking(table: Table, wanted: Sequence[Row], present: set[tuple[Any, ...]]) -> tuple[list[Row], list[Row]]:
    """The rows of parts that are not there at all, and what else is not there."""
    whole: list[Row] = []
    rest: list[Row] = []
    for part in table.parts(wanted):
        lacking = [row for row, key in zip(part, _keys(table, part), strict=True) if key not in present]
        (whole if len(lacking) == len(part) else rest).extend(lacking)
    return whole, rest


def _keys(table: Table, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    places = [table.columns.index(column) for column in table.identity]
    return [tuple(row[place] for place in places) for row in rows]


def columns_of(rows: Sequence[Row]) -> list[Sequence[Any]]:
    """The rows turned into columns: a columnar insert costs a fifth of a row-wise one."""
    return list(zip(*rows, strict=True))


def _unavailable(verb: str, table: Table, error: Exception) -> errors.Unavailable:
    reason = str(error).partition("\n")[0][:300]
    return errors.Unavailable(f"ClickHouse does not {verb} {table.name}: {type(error).__name__}: {reason}")
