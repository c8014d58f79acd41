"""The processor simulator's settlement report: CSV by column name, amounts in minor units."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final, cast, get_args

from reconciliation.settlement.amounts import currency_code, minor_units
from reconciliation.settlement.csv_rows import CsvRows, identity_of
from reconciliation.settlement.line import Defect, Line, LineType, Unclassifiable

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS: Final = (
    "line_id",
    "report_id",
    "type",
    "operation_id",
    "reference",
    "provider_ref",
    "currency",
    "gross",
    "fee",
    "net",
    "created",
)
_TYPES: Final = frozenset(get_args(LineType))


def read_lines(stream: BinaryIO) -> Iterator[Line | Defect]:
    """Every line of the report, in order. Raises UnreadableReport; a file without its last newline is cut off."""
    rows = CsvRows(stream, COLUMNS, is_newline_required=True)
    places = tuple(rows.columns[name] for name in COLUMNS)
    for row in rows:
        if isinstance(row, Defect):
            yield row
            continue
        number, cells = row
        try:
            yield _line(number, [cells[place] for place in places])
        except Unclassifiable as problem:
            yield Defect(number, str(problem))


def _line(number: int, cells: list[str]) -> Line:
    line_id, _, kind, operation_id, reference, provider_ref, currency, gross, fee, net, created = cells
    if kind not in _TYPES:
        raise Unclassifiable(f"has the unknown type {kind[:30]!r}")
    identity = identity_of(line_id)
    if identity is None:
        raise Unclassifiable("has no line_id")
    code = currency_code(currency)
    named = identity_of(provider_ref)
    return Line(
        line_no=number,
        line_id=identity,
        type=cast("LineType", kind),
        operation_id=identity_of(operation_id),
        reference=identity_of(reference),
        provider_refs=(named,) if named else (),
        currency=code,
        gross=minor_units(gross),
        fee=minor_units(fee or "0"),
        net=minor_units(net),
        net_currency=code,
        created=created,
    )
