"""The processor simulator's settlement report: CSV by column name, amounts in minor units."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO, Final, cast, get_args

from reconciliation.payments.settlement.line import Defect, Line, LineType, PlainRow, Unclassifiable
from reconciliation.payments.settlement.reports.amounts import SURELY_WITHIN_DIGITS, currency_code, minor_units
from reconciliation.payments.settlement.reports.csv_rows import CsvRows, identity_of, name_of
from reconciliation.payments.settlement.stage import PLAIN_ROW
from schemas.fields.currency import EXPONENTS
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
_CURRENCIES: Final = frozenset(code.encode() for code in EXPONENTS)
_NAME: Final = rf"[A-Za-z0-9_][A-Za-z0-9_.:-]{{0,{limits.SETTLEMENT_NAME_LENGTH_MAX - 1}}}"
_AMOUNT: Final = rf"(?:0|-?[1-9][0-9]{{0,{SURELY_WITHIN_DIGITS - 1}}})"
_UNREAD: Final = r'[^",\x00-\x1f\x7f-\xff]*'
#: Cells that mean what they are, letter by letter. What is not of this form is read with all care, not refused.
_PLAIN: Final = {
    "line_id": rf"(?P<line_id>{_NAME})",
    "type": rf"(?P<type>{'|'.join(sorted(_TYPES))})",
    "operation_id": r"(?P<operation_id>op_(?P<intent>[A-Za-z0-9_]{1,100})_(?P<attempt>0|[1-9][0-9]{0,8}))",
    "reference": rf"(?P<reference>{_NAME})",
    "provider_ref": rf"(?P<provider_ref>{_NAME})",
    "currency": r"(?P<currency>[A-Z]{3})",
    "gross": rf"(?P<gross>{_AMOUNT})",
    "fee": rf"(?P<fee>{_AMOUNT})",
    "net": rf"(?P<net>{_AMOUNT})",
    "created": rf"(?P<created>[0-9A-Za-z.:+-]{{1,{limits.SETTLEMENT_NAME_LENGTH_MAX}}})",
}
#: the groups in the order of PLAIN_ROW
_PLAIN_GROUPS: Final = (
    "line_id", "type", "operation_id", "intent", "attempt", "reference", "provider_ref", "currency", "gross", "fee",
    "net", "currency", "created",
)  # fmt: skip


def read_rows(stream: BinaryIO) -> Iterator[Line | PlainRow | Defect]:
    """What read_lines reads; a line of plain cells, like nearly all of a long report, as its row of the stage."""
    rows = CsvRows(stream, COLUMNS, is_newline_required=True)
    places = _places(rows)
    for row in rows.unless_plain(_plain_reader(rows.columns)):
        yield _line_or_defect(row, places) if isinstance(row, tuple) else row


def read_lines(stream: BinaryIO) -> Iterator[Line | Defect]:
    """Every line of the report, in order. Raises UnreadableReport; a file without its last newline is cut off."""
    rows = CsvRows(stream, COLUMNS, is_newline_required=True)
    places = _places(rows)
    for row in rows:
        yield _line_or_defect(row, places) if isinstance(row, tuple) else row


def _places(rows: CsvRows) -> tuple[int, ...]:
    return tuple(rows.columns[name] for name in COLUMNS)


def _plain_reader(columns: Mapping[str, int]) -> Callable[[int, bytes], PlainRow | None]:
    """Reads a line of a file with these columns when all of its cells are plain."""
    cells = ",".join(_PLAIN.get(name, _UNREAD) for name in sorted(columns, key=columns.__getitem__))
    pattern = re.compile(rf"{cells}\r?\n".encode())
    groups = tuple(pattern.groupindex[name] for name in _PLAIN_GROUPS)
    currency = pattern.groupindex["currency"]

    def plain_row(number: int, raw: bytes) -> PlainRow | None:
        found = pattern.fullmatch(raw)
        if found is None or found[currency] not in _CURRENCIES:
            return None
        return PlainRow(PLAIN_ROW % (number, *found.group(*groups)))

    return plain_row


def _line_or_defect(row: tuple[int, list[str]], places: tuple[int, ...]) -> Line | Defect:
    number, cells = row
    try:
        return _line(number, [cells[place] for place in places])
    except Unclassifiable as problem:
        return Defect(number, str(problem))


def _line(number: int, cells: list[str]) -> Line:
    line_id, _, kind, operation_id, reference, provider_ref, currency, gross, fee, net, created = cells
    if kind not in _TYPES:
        raise Unclassifiable(f"has the unknown type {kind[:30]!r}")
    identity = identity_of(line_id)
    if identity is None:
        raise Unclassifiable("has no line_id")
    code = currency_code(currency)
    named = name_of(provider_ref)
    return Line(
        line_no=number,
        line_id=identity,
        type=cast("LineType", kind),
        operation_id=name_of(operation_id),
        reference=name_of(reference),
        provider_refs=(named,) if named else (),
        currency=code,
        gross=minor_units(gross),
        fee=minor_units(fee or "0"),
        net=minor_units(net),
        net_currency=code,
        created=created,
    )
