"""Rows of a hostile CSV file by column name, in bounded memory.

Columns may stand in any order. What cannot be read is a Defect with the number of its line; what makes the whole file
doubtful (no header, another encoding) is an UnreadableReport. A file that is cut off ends with a Defect that says so.
A line without quotes is split directly.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from typing import TYPE_CHECKING, BinaryIO, Final

from reconciliation.payments.settlement.line import Defect, Unclassifiable, UnreadableReport
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from reconciliation.payments.settlement.line import PlainRow

_UTF8_BOM: Final = b"\xef\xbb\xbf"
_OTHER_SEPARATORS: Final = (";", "\t", "|")
_UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
#: a spreadsheet runs a cell that begins so; no identity of ours or of a processor does
_FORMULA_STARTS: Final = "=+-@\t"


class CsvRows:
    """The header of a file, and its rows. Raises UnreadableReport when the header does not have what is required."""

    def __init__(self, stream: BinaryIO, required: Iterable[str], *, is_newline_required: bool = False) -> None:
        self._stream = stream
        self._line_no = 0
        self._put_back: deque[bytes] = deque()
        self._is_newline_required = is_newline_required
        self.columns = self._header(required)

    def column(self, name: str) -> int | None:
        """The place of a column, None when the file does not have it."""
        return self.columns.get(name)

    def __iter__(self) -> Iterator[tuple[int, list[str]] | Defect]:
        for row in self.unless_plain(lambda _number, _raw: None):
            if not isinstance(row, bytes):
                yield row

    def unless_plain(
        self, plain: Callable[[int, bytes], PlainRow | None]
    ) -> Iterator[tuple[int, list[str]] | Defect | PlainRow]:
        """The rows; of a line for which ``plain`` (of its number and bytes) gives a row, that row instead."""
        width = len(self.columns)
        while raw := self._next():
            number = self._line_no
            if (row := plain(number, raw)) is not None:
                yield row
                continue
            try:
                cells = self._cells(raw)
            except Unclassifiable as problem:
                yield Defect(number, str(problem))
                continue
            except EOFError:
                yield Defect(number, "opens a quote that is never closed: the file is truncated", is_cut_off=True)
                return
            if not cells:
                continue
            is_cut_off = not raw.endswith(b"\n") and not self._put_back
            if is_cut_off and (self._is_newline_required or len(cells) < width):
                yield Defect(number, "is cut off: the file is truncated", is_cut_off=True)
                return
            if len(cells) != width:
                yield Defect(number, f"has {len(cells)} cells where the header has {width}")
                continue
            yield number, cells

    def _header(self, required: Iterable[str]) -> dict[str, int]:
        raw = self._next()
        if raw.startswith(_UTF16_BOMS):
            raise UnreadableReport("the file is UTF-16: save it as UTF-8")
        try:
            names = [name.strip() for name in self._cells(raw.removeprefix(_UTF8_BOM))]
        except Unclassifiable as problem:
            raise UnreadableReport(f"the header cannot be read: it {problem}") from problem
        except EOFError as error:
            raise UnreadableReport("the header opens a quote that is never closed") from error
        if not names:
            raise UnreadableReport("the file is empty")
        missing = [name for name in required if names.count(name) != 1]
        if missing and (separator := _other_separator(names, missing)):
            raise UnreadableReport(f"the cells are separated by {separator!r}: save the file with commas")
        if not all(name.isprintable() for name in names):  # lines that end with CR only would be one header
            raise UnreadableReport("the header has a line end or another control character in a name")
        if missing:
            raise UnreadableReport(f"the header must name {', '.join(missing)} once")
        columns = {name: place for place, name in enumerate(names)}
        if len(columns) != len(names):  # a column that nobody asked for may stand there twice, under a name of its own
            columns = {name if names.index(name) == n else f"{name}#{n}": n for n, name in enumerate(names)}
        return columns

    def _next(self) -> bytes:
        """The next physical line, or as much of it as may be held; empty at the end."""
        self._line_no += 1
        if self._put_back:
            return self._put_back.popleft()
        return self._stream.readline(limits.SETTLEMENT_LINE_BYTES_MAX)

    def _skip_line(self) -> None:
        while (rest := self._stream.readline(limits.SETTLEMENT_LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
            pass

    def _cells(self, raw: bytes) -> list[str]:
        """The cells of one row, which may go on over several lines inside quotes; none for a blank line."""
        if len(raw) == limits.SETTLEMENT_LINE_BYTES_MAX and not raw.endswith(b"\n"):
            self._skip_line()
            raise Unclassifiable(f"is longer than {limits.SETTLEMENT_LINE_BYTES_MAX} bytes")
        if b'"' in raw:
            raw = self._quoted(raw)
        if b"\x00" in raw:
            raise Unclassifiable("has a NUL character")
        try:
            text = raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise Unclassifiable("is not UTF-8") from error
        if not text:
            return []
        if '"' not in text:
            return text.split(",")
        try:
            return next(csv.reader(io.StringIO(text, newline=""), strict=True))
        except (csv.Error, StopIteration) as error:
            raise Unclassifiable(f"is not CSV: {error}") from error

    def _quoted(self, raw: bytes) -> bytes:
        """The row with the lines that its quotes go on over. Raises EOFError when the file ends first."""
        taken: list[bytes] = []
        row = raw
        while row.count(b'"') % 2:
            line = self._next()
            taken.append(line)
            row += line
            if not line:
                raise EOFError
            if len(row) > limits.SETTLEMENT_LINE_BYTES_MAX:
                self._put_back.extendleft(reversed(taken))
                self._line_no -= len(taken)
                raise Unclassifiable("opens a quote that is not closed within a row's size")
        return row


def _other_separator(names: list[str], missing: list[str]) -> str | None:
    """What stands between the names of a header in place of commas, as spreadsheets of many countries write it."""
    header = ",".join(names)
    told = (mark for mark in _OTHER_SEPARATORS if {name.strip() for name in header.split(mark)}.issuperset(missing))
    return next(told, None)


def identity_of(cell: str) -> str | None:
    """A cell that tells a line from others, None when empty. Raises Unclassifiable on what no store may hold."""
    text = cell.strip()
    if not text:
        return None
    if wrong := _why_no_name(text):
        raise Unclassifiable(wrong)
    return text


def name_of(cell: str) -> str | None:
    """A cell that somebody else chose, a merchant's reference or a brand: None when no store of ours may hold it.

    The line's money is certain whatever stands there: it holds nothing back.
    """
    text = cell.strip()
    return None if not text or _why_no_name(text) else text


def _why_no_name(text: str) -> str | None:
    if text.isidentifier() and len(text) <= limits.SETTLEMENT_NAME_LENGTH_MAX:
        return None  # letters, digits and underscores: nearly all of a long report
    if text[0] in _FORMULA_STARTS:
        return f"has a formula where a name belongs: {text[:20]!r}"
    if len(text) > limits.SETTLEMENT_NAME_LENGTH_MAX or not text.isprintable():
        return "has a name that is too long or holds control characters"
    return None
