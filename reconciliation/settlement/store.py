"""The settlement tables: rows in by COPY, named statements, cases.

Whoever writes here holds the lock of ``run.py``: two reconciliations never match the same lines at once.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from schemas import identity, limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import psycopg

    from reconciliation.settlement.line import Line

SQL: Final = queries("sinks.postgres", "queries/settlement.sql")
#: classes that may come back after they were explained, as the same fact about the same subject
_RECURRING: Final = ["missing", "unreadable_report", "truncated_report", "statement_does_not_foot"]
_NULL: Final = "\\N"


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


def execute(connection: psycopg.Connection, name: str, **parameters: object) -> psycopg.Cursor:
    """Runs a named statement."""
    return connection.execute(SQL[name].encode(), parameters or None)


def stage_lines(connection: psycopg.Connection, lines: Iterable[Line], on_lines: Callable[[int], None]) -> int:
    """Copies lines into the stage as they are read, and returns how many there were."""
    count = 0
    with connection.cursor() as cursor, cursor.copy(SQL["stage_copy"].encode()) as copy:
        block: list[str] = []
        for line in lines:
            block.append(_stage_row(line))
            if len(block) == limits.SETTLEMENT_COPY_LINES:
                copy.write("".join(block))
                count += len(block)
                block.clear()
                on_lines(count)
        copy.write("".join(block))
        count += len(block)
    return count


def copy_rows(connection: psycopg.Connection, name: str, rows: Sequence[Sequence[object]]) -> None:
    """Copies rows into the table of a COPY statement."""
    if rows:
        with connection.cursor() as cursor, cursor.copy(SQL[name].encode()) as copy:
            copy.write("".join("\t".join([_field(value) for value in row]) + "\n" for row in rows))


def keep_found(connection: psycopg.Connection, processor: str, report_id: str, found: Iterable[Found]) -> None:
    """Puts what was found among the discrepancies, and opens a case for each new one that needs a person."""
    rows = [
        (f.subject, f.found_class, f.reference, f.amount, f.currency, f.line_id, f.matched, f.detail,
         _case_id(processor, f) if f.is_case else None)
        for f in found
    ]  # fmt: skip
    copy_rows(connection, "found_copy", rows)
    execute(connection, "discrepancies_keep", processor=processor, report_id=report_id, recurring=_RECURRING)
    execute(connection, "found_clear")


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
    """A discrepancy opens one case at most, and that one only once."""
    return identity.derived_id("case", processor, f"settlement:{found.found_class}", found.subject)


def _stage_row(line: Line) -> str:
    place = identity.place_of_operation(line.operation_id) if line.operation_id else None
    intent_id, attempt = (place[0], str(place[1])) if place else (_NULL, _NULL)
    refs = ",".join(f'"{ref}"' for ref in line.provider_refs) if line.provider_refs else ""
    if "\\" in refs or refs.count('"') > 2 * len(line.provider_refs):
        refs = ",".join('"' + ref.replace("\\", "\\\\").replace('"', '\\"') + '"' for ref in line.provider_refs)
        refs = refs.replace("\\", "\\\\")
    return (
        f"{line.line_no}\t{_text(line.line_id)}\t{line.type}\t{_text(line.operation_id)}\t{intent_id}\t{attempt}"
        f"\t{_text(line.reference)}\t{{{refs}}}\t{line.currency}\t{line.gross}\t{line.fee}\t{line.net}"
        f"\t{line.net_currency}\t{_text(line.batch)}\t{_text(_printable(line.created))}\n"
    )


def _printable(text: str | None) -> str | None:
    return text if text and len(text) <= limits.SETTLEMENT_NAME_LENGTH_MAX and text.isprintable() else None


def _text(value: str | None) -> str:
    """A printable text as a field of COPY."""
    if value is None:
        return _NULL
    return value.replace("\\", "\\\\") if "\\" in value else value


def _field(value: Any) -> str:
    if value is None:
        return _NULL
    text = str(value)
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
