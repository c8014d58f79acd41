"""The settlement tables: named statements, rows in by COPY, cases.

Whoever writes here holds the lock of ``run.py``: two reconciliations never match the same lines at once.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from schemas import identity
from schemas.payments import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import psycopg

SQL: Final = queries("sinks.postgres.queries.payments", "settlement.sql")
#: classes that may come back after they were explained, as the same fact about the same subject
_RECURRING: Final = [
    *("missing", "unreadable_report", "truncated_report", "statement_does_not_foot", "posting_refused"),
    *("orphan", "duplicate"),  # of a line that was judged again
]
_NULL: Final = "\\N"
_LINE_ID: Final = 1  # places in a row of line_copy
_POSTING: Final = -1


class Found(Struct, frozen=True, kw_only=True):
    """Something that is wrong, before it is kept as a discrepancy."""

    subject: str
    found_class: str
    reference: str
    amount: int
    currency: str | None = None
    line_id: str | None = None
    matched: str | None = None
    detail: str | None = None
    is_case: bool = True
    version: str | None = None  # of a fact that may change: another version is another case
    is_news: bool = False  # nobody was told of this version: who settled an earlier one did not settle this


def execute(connection: psycopg.Connection, name: str, **parameters: object) -> psycopg.Cursor:
    """Runs a named statement."""
    return connection.execute(SQL[name].encode(), parameters or None)


def copy_rows(connection: psycopg.Connection, name: str, rows: Sequence[Sequence[object]]) -> None:
    """Copies rows into the table of a COPY statement."""
    if rows:
        with connection.cursor() as cursor, cursor.copy(SQL[name].encode()) as copy:
            copy.write("".join("\t".join([_field(value) for value in row]) + "\n" for row in rows))


def keep_lines(
    connection: psycopg.Connection, processor: str, report_id: str, rows: Sequence[tuple[object, ...]]
) -> None:
    """Copies rows into settlement_line, and lists those that owners have to be told."""
    copy_rows(connection, "line_copy", rows)
    due = [row[_LINE_ID] for row in rows if row[_POSTING] == "due"]
    for start in range(0, len(due), limits.SETTLEMENT_COPY_LINES):
        lines = due[start : start + limits.SETTLEMENT_COPY_LINES]
        execute(connection, "due_keep", processor=processor, report_id=report_id, lines=lines)


def keep_found(connection: psycopg.Connection, processor: str, report_id: str, found: Iterable[Found]) -> None:
    """Puts what was found among the discrepancies, and opens a case for each new one that needs a person."""
    rows = [
        (f.subject, f.found_class, f.reference, f.amount, f.currency, f.line_id, f.matched, f.detail,
         _case_id(processor, f) if f.is_case else None, f.is_news)
        for f in found
    ]  # fmt: skip
    copy_rows(connection, "found_copy", rows)
    execute(connection, "discrepancies_keep", processor=processor, report_id=report_id, recurring=_RECURRING)
    execute(connection, "found_clear")


def missing_find(connection: psycopg.Connection, processor: str) -> None:
    """Finds what a processor should have reported by now; ``keep_found`` keeps it."""
    execute(connection, "missing_find", processor=processor, grace_days=limits.SETTLEMENT_BACK_GRACE_DAYS)


def resolve_cases(connection: psycopg.Connection, resolved: psycopg.Cursor) -> None:
    """Closes the cases of discrepancies that were explained; one that a person works on stays."""
    references = [row[0] for row in resolved.fetchall()]
    if references:
        execute(connection, "cases_resolve", references=references)


@contextmanager
def found_table(connection: psycopg.Connection) -> Iterator[None]:
    """A transaction in which things may be found."""
    with connection.transaction():
        execute(connection, "stage_create")
        yield


def _case_id(processor: str, found: Found) -> str:
    """A discrepancy opens one case at most for each version of it, and that one only once."""
    subject = found.subject if found.version is None else f"{found.subject} {found.version}"
    return identity.derived_id("case", processor, f"settlement:{found.found_class}", subject)


def _field(value: Any) -> str:
    if value is None:
        return _NULL
    text = str(value)
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
