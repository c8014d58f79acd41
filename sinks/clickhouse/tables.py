"""Tables in ClickHouse: what a service says of one, and their numbered definitions.

The definitions say ``if not exists`` or ``or replace``: two processes that apply them at once do no harm.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from clickhouse_connect.driver.exceptions import ClickHouseError
from msgspec import Struct

from schemas.errors import InvariantViolation, Unavailable
from schemas.fields.column import Declared, declared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver.client import Client

_SECOND_US: Final = 1_000_000
Row = tuple[Any, ...]
TableRows = dict[str, list[Row]]  # by table, in the order of its columns

_VERSIONS: Final = (
    "create table if not exists schema_version"
    " (file String, sha256 String, applied_at DateTime64(6, 'UTC') default now64(6))"
    " engine = ReplacingMergeTree order by file"
)
_APPLIED: Final = "insert into schema_version (file, sha256) values (%(file)s, %(sha256)s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: the columns of an inserted row, in order, and the columns that identify a row within its event."""

    name: str
    columns: tuple[str, ...]
    #: what tells the rows of one event apart; together with (kafka_partition, seq) it is a row's identity
    row_key: tuple[str, ...] = ()
    #: the time (microseconds) whose month, in UTC, is the partition that a row lies in; None = all lie in one
    month_of: str | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell a row from every other."""
        return ("kafka_partition", "seq", *self.row_key)

    def parts(self, rows: Sequence[Row]) -> list[list[Row]]:
        """The rows as ClickHouse puts them in: those of one partition are in or not, together."""
        if self.month_of is None:
            return [list(rows)] if rows else []
        found: dict[tuple[int, int], list[Row]] = {}
        place = self.columns.index(self.month_of)
        for row in rows:
            at = datetime.fromtimestamp(row[place] // _SECOND_US, UTC)
            found.setdefault((at.year, at.month), []).append(row)
        return list(found.values())


def analytical(record: type[Struct]) -> list[Declared]:
    """The fields of a record that analytics has."""
    return [field for field in declared(record) if field.column.analytical]


def of_record(name: str, record: type[Struct], *further: str, row_key: tuple[str, ...] = ()) -> Table:
    """The table of a record: a row for every state of it, in the month in which it was made.

    ``further``: what its event says beside it, in order.
    """
    fields = tuple(field.column.shown or field.name for field in analytical(record))
    return Table(
        name=name, columns=("kafka_partition", "seq", *further, *fields), row_key=row_key, month_of="created_at"
    )


def schema_files(package: str) -> list[tuple[str, str]]:
    """Name and text of every definition file in the folder ``schema`` of a package, in order; none without one."""
    folder = resources.files(package) / "schema"
    if not folder.is_dir():
        return []
    return [(f.name, f.read_text()) for f in sorted(folder.iterdir(), key=lambda f: f.name) if f.name.endswith(".sql")]


def statements(text: str) -> list[str]:
    """The statements of a definition file; each ends with a semicolon at the end of a line."""
    bare = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return [part.strip().removesuffix(";") for part in bare.split(";\n") if part.strip(" ;\n")]


def apply_schema(client: Client, files: list[tuple[str, str]]) -> list[str]:
    """Brings the tables and views of a service up to date and returns the files applied now; again it changes nothing.

    ClickHouse remembers files by their names, which are unique over all services. Raises InvariantViolation when a file
    with tables was edited after it was applied (views may be edited), and Unavailable when the server refuses.
    """
    try:
        client.command(_VERSIONS)
        rows = client.query("select file, sha256 from schema_version final").result_rows
        known: dict[str, str] = {file: digest for file, digest in rows}  # noqa: C416 - rows are sequences, not pairs
        return [file for file, text in files if _apply(client, file, text, known)]
    except (ClickHouseError, OSError) as error:
        raise Unavailable(f"ClickHouse refuses its tables: {str(error)[:300]}") from error


def _apply(client: Client, file: str, text: str, known: dict[str, str]) -> bool:
    digest = hashlib.sha256(text.encode()).hexdigest()
    if known.get(file) == digest:
        return False
    if file in known and ("create table" in text or "alter table" in text):
        raise InvariantViolation(f"{file} was edited after it was applied; write a new file instead")
    for statement in statements(text):
        client.command(statement)
    client.command(_APPLIED, {"file": file, "sha256": digest})  # insert() would describe the table for each of them
    return True
