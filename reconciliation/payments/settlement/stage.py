"""Lines into the stage, as rows of COPY's text format.

A reader that has checked every cell of a line may hand over its row ready made (``PlainRow``); every other line becomes
its row here. Both forms of one line are the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reconciliation.payments.settlement.store import SQL
from schemas import identity
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import psycopg

    from reconciliation.payments.settlement.line import Line, PlainRow

_NULL: Final = "\\N"
#: line_no, line_id, type, operation_id, intent_id, attempt, reference, provider_ref, currency, gross, fee, net,
#: net_currency, created; none of them is empty, or holds what COPY or an array would escape
PLAIN_ROW: Final = b'%d\t%b\t%b\t%b\tpi_%b\t%b\t%b\t{"%b"}\t%b\t%b\t%b\t%b\t%b\t\\N\t%b\t\\N\t\\N\t\\N\n'


def stage_lines(
    connection: psycopg.Connection, lines: Iterable[Line | PlainRow], on_lines: Callable[[int], None]
) -> int:
    """Copies lines into the stage as they are read, and returns how many there were."""
    count = 0
    with connection.cursor() as cursor, cursor.copy(SQL["stage_copy"].encode()) as copy:
        block: list[bytes] = []
        for line in lines:
            block.append(line if isinstance(line, bytes) else stage_row(line))
            if len(block) == limits.SETTLEMENT_COPY_LINES:
                copy.write(b"".join(block))
                count += len(block)
                block.clear()
                on_lines(count)
        copy.write(b"".join(block))
        count += len(block)
    return count


def stage_row(line: Line) -> bytes:
    """The row of any line."""
    place = identity.place_of_operation(line.operation_id) if line.operation_id else None
    intent_id, attempt = (_text(place[0]), str(place[1])) if place else (_NULL, _NULL)
    refs = ",".join(f'"{ref}"' for ref in line.provider_refs) if line.provider_refs else ""
    if "\\" in refs or refs.count('"') > 2 * len(line.provider_refs):
        refs = ",".join('"' + ref.replace("\\", "\\\\").replace('"', '\\"') + '"' for ref in line.provider_refs)
        refs = refs.replace("\\", "\\\\")
    return (
        f"{line.line_no}\t{_text(line.line_id)}\t{line.type}\t{_text(line.operation_id)}\t{intent_id}\t{attempt}"
        f"\t{_text(line.reference)}\t{{{refs}}}\t{line.currency}\t{line.gross}\t{line.fee}\t{line.net}"
        f"\t{line.net_currency}\t{_text(line.batch)}\t{_text(_printable(line.created))}"
        f"\t{_NULL if line.contract_fee is None else line.contract_fee}"
        f"\t{_text(line.earlier_id)}\t{_text(line.earlier_batch)}\n"
    ).encode()


def _printable(text: str | None) -> str | None:
    return text if text and len(text) <= limits.SETTLEMENT_NAME_LENGTH_MAX and text.isprintable() else None


def _text(value: str | None) -> str:
    """A printable text as a field of COPY."""
    if value is None:
        return _NULL
    return value.replace("\\", "\\\\") if "\\" in value else value
