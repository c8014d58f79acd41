"""Pages of a list that changes while it is read: each entry that may be seen all the time is met once, in its order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from ingress.http.cursors import Cursors
from ingress.social.pager import NEWEST, Examined, Pager, Place
from tests.gate import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGER = Pager(Cursors(b"k" * 32))
#: neighbours that are all hidden, all shown, or mixed: so of a page any part is hidden
RUNS = st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 10]), st.integers(1, 70)), max_size=6)
#: between two pages: what becomes of which entry, counted from where the reader is
CHANGES = st.lists(st.tuples(st.sampled_from(["come", "go", "hide", "show"]), st.integers(-5, 40)), max_size=30)


class Listed:
    """A list in memory: whether each place is shown; several are of one time."""

    def __init__(self, runs: Iterable[tuple[int, int]]) -> None:
        shown = [bool(of_ten) and n % 10 < of_ten for of_ten, length in runs for n in range(length)]
        self.entries = {(1_000 + n // 3, f"po_{n:04}"): is_shown for n, is_shown in enumerate(shown)}

    async def examine(self, place: Place, count: int) -> list[Examined[Place]]:
        """As a statement gives what is behind a place, newest first."""
        behind = sorted((one for one in self.entries if one < place), reverse=True)[:count]
        return [Examined(one, one if self.entries[one] else None) for one in behind]

    def change(self, what: str, at: int, reader: Place) -> None:
        """One entry, so far behind where the reader is, or before it."""
        order = sorted(self.entries, reverse=True)
        behind = sum(one >= reader for one in order) + at
        if what == "come":
            newest = order[0][0] if order else 1_000
            self.entries[newest + 1 if at < 0 else max(reader[0] - at, 0), f"po_new{len(self.entries)}"] = True
        elif 0 <= behind < len(order):
            if what == "go":
                del self.entries[order[behind]]
            else:
                self.entries[order[behind]] = what == "show"


@settings(max_examples=examples(gate=40, proof=3_000))
@given(runs=RUNS, limit=st.integers(1, 30), changes=CHANGES)
def test_whatever_is_hidden_comes_or_goes_there_is_no_gap_and_no_double(
    runs: list[tuple[int, int]], limit: int, changes: list[tuple[str, int]]
) -> None:
    listed, left = Listed(runs), iter(changes)
    always = {place for place, is_shown in listed.entries.items() if is_shown}
    found: list[Place] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = asyncio.run(PAGER.page("u", "l", limit, cursor, listed.examine))
        assert len(page.items) <= limit
        assert all(listed.entries[one] for one in page.items), "hidden when the page was read"
        found += page.items
        cursor, pages = page.next_cursor, pages + 1
        assert pages <= len(listed.entries) + len(changes) + 2, "it goes on for ever"
        what, at = next(left, ("", 0))
        listed.change(what, at, found[-1] if found else NEWEST) if what else None
        always &= {place for place, is_shown in listed.entries.items() if is_shown}
    assert found == sorted(set(found), reverse=True)
    assert always <= set(found)
