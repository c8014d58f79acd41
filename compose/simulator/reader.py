"""The whole book for whoever compares it with a ledger: one consistent state, read beside the writer.

Rows never change and are numbered in the order of their commits, so the rows up to a number are a snapshot; no
long transaction is needed and only one page is in memory.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from compose.simulator.book import BOOK_FILE_NAME, book_connect
from compose.simulator.statements import QUERIES
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECTIONS: Final = ("captured", "authorized", "voided")  # the statuses that moved or held money


class BookReader:
    """Reads the book of one folder; may be used from any thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / BOOK_FILE_NAME

    def fragments(self) -> Iterator[str]:
        """The book as JSON text in pieces: one consistent state, with a bounded part of it in memory.

        Every piece is read by a connection of its own, so a reader that goes away leaves nothing open.
        """
        with closing(book_connect(self._path)) as connection:
            (end,) = connection.execute(QUERIES["book_end"]).fetchone()
        opening = "{"
        for section in SECTIONS:
            yield f'{opening}"{section}":['
            separator = ""
            for page in self._pages(section, end):
                yield separator + page
                separator = ","
            opening = "],"
        yield "]}"

    def _pages(self, status: str, end: int) -> Iterator[str]:
        after = 0
        while True:
            with closing(book_connect(self._path)) as connection:
                row = connection.execute(
                    QUERIES["book_page"], (status, after, end, limits.SIMULATOR_BOOK_PAGE_ENTRIES)
                ).fetchone()
            last, page = row
            if last is None:
                return
            yield page
            after = last
