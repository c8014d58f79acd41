"""The whole book for whoever compares it with a ledger: one consistent state, read beside the writer.

Rows never change and are numbered in the order of their commits, so the rows up to a number are a snapshot, of each
table up to its own; no long transaction is needed and only one page is in memory.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from compose.simulator import limits
from compose.simulator.book.storage import BOOK_FILE_NAME, book_connect
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECTIONS: Final = ("captured", "authorized", "voided", "refunded")  # the statuses that moved or held money


class BookReader:
    """Reads the book of one folder; may be used from any thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / BOOK_FILE_NAME

    def fragments(self) -> Iterator[str]:
        """The book as JSON text in pieces: one consistent state, with a bounded part of it in memory.

        Every piece is read by a connection of its own, so a reader that goes away leaves nothing open.
        """
        with closing(book_connect(self._path)) as connection:
            ends = connection.execute(QUERIES["book_end"]).fetchone()
        names = ("operation_end", "failure_end", "dispute_end", "dispute_end_end", "evidence_end")
        snapshot = dict(zip(names, ends, strict=True))
        opening = "{"
        for section in SECTIONS:
            yield f'{opening}"{section}":['
            yield from self._pages("book_page", {**snapshot, "status": section})
            opening = "],"
        yield '],"disputes":['
        yield from self._pages("book_disputes_page", snapshot)
        yield "]}"

    def _pages(self, query: str, parameters: dict[str, int | str]) -> Iterator[str]:
        after, separator = 0, ""
        while True:
            page_of = {**parameters, "after": after, "count": limits.SIMULATOR_BOOK_PAGE_ENTRIES}
            with closing(book_connect(self._path)) as connection:
                last, page = connection.execute(QUERIES[query], page_of).fetchone()
            if last is None:
                return
            if page is not None:  # a page may hold nothing but refunds that failed
                yield separator + page
                separator = ","
            after = last
