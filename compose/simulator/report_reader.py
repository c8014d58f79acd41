"""Settlement reports as they are downloaded: CSV by column name, streamed, the same bytes every time."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from compose.simulator import errors, limits
from compose.simulator.book.storage import BOOK_FILE_NAME, book_connect
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

COLUMNS: Final = (
    "line_id", "report_id", "type", "operation_id", "reference", "provider_ref", "currency", "gross", "fee", "net",
    "created",
)  # fmt: skip


class ReportReader:
    """Reads the reports of one folder; may be used from any thread. A reader that goes away leaves nothing open."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / BOOK_FILE_NAME

    def listing(self) -> Iterator[str]:
        """All reports, oldest first, as the JSON text of a list in pieces."""
        after, separator = 0, ""
        yield "["
        while rows := self._rows("reports_page", after, limits.SIMULATOR_SETTLEMENT_PAGE_LINES):
            entries = [{"report_id": report_id, "created": _time(ms, UTC)} for _, report_id, ms in rows]
            yield separator + json.dumps(entries)[1:-1]
            after, separator = rows[-1][0], ","
        yield "]"

    def download(self, report_id: str) -> Iterator[str]:
        """The report as CSV text in pieces. Raises errors.NotFound at once when there is none."""
        found = self._rows("report_fetch", report_id)
        if not found:
            raise errors.NotFound("There is no such report.")
        ((offset_minutes, is_truncated, last_position),) = found
        zone = UTC if offset_minutes == 0 else timezone(timedelta(minutes=offset_minutes))
        return self._lines(report_id, zone, last_position if is_truncated else None)

    def _lines(self, report_id: str, zone: timezone, broken_at: int | None) -> Iterator[str]:
        """``broken_at``: the line in whose middle the file ends, None when it is whole."""
        yield _csv([COLUMNS])
        after = 0
        while rows := self._rows("lines_page", report_id, after, limits.SIMULATOR_SETTLEMENT_PAGE_LINES):
            lines = [(*row[1:-1], _time(row[-1], zone)) for row in rows]
            if broken_at is not None and rows[-1][0] >= broken_at:
                whole = broken_at - rows[0][0]  # positions have no gap
                broken = _csv(lines[whole : whole + 1])
                yield _csv(lines[:whole]) + broken[: len(broken) // 2]
                return
            yield _csv(lines)
            after = rows[-1][0]

    def _rows(self, name: str, *parameters: str | int) -> list[tuple[Any, ...]]:
        with closing(book_connect(self._path)) as connection:
            return connection.execute(QUERIES[name], parameters).fetchall()


def _csv(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _time(milliseconds: int, zone: timezone) -> str:
    return datetime.fromtimestamp(milliseconds // 1_000, zone).isoformat().replace("+00:00", "Z")
