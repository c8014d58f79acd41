"""Both sides of a move, compared row by row: this is the verification, and a dual read of every row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from schemas import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from dataflows.tenancy.mover.place import Place, Places, Row

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")


class Comparison(Struct):
    """What was found; rows of one version must have one content."""

    match: int = 0
    target_behind: int = 0
    missing: int = 0
    diff: int = 0
    target_ahead: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether every row was the same."""
        return not (self.target_behind or self.missing or self.is_wrong)

    @property
    def is_wrong(self) -> bool:
        """Whether something was found that waiting does not mend."""
        return bool(self.diff or self.target_ahead)


def compare(places: Places, source: Place, target: Place) -> Comparison:
    """Every row of the tenant, on both sides. Heads are read last: no side can have what they do not know."""
    found, after = Comparison(), ""
    while True:
        asked = {"tenant_id": source.tenant_id, "after": after, "limit": limits.MOVE_PAGE_ROWS}
        ids = [row[0] for row in places.control.execute(SQL["heads_compared"].encode(), asked)]
        if not ids:
            return found
        after = ids[-1]
        at_target = places.rows(target, ids)
        at_source = places.rows(source, ids)
        asked = {"tenant_id": source.tenant_id, "ids": ids}
        newest = dict(places.control.execute(SQL["heads_versions"].encode(), asked).fetchall())
        for id_ in ids:
            count(found, newest[id_], at_source.get(id_), at_target.get(id_))


def count(found: Comparison, newest: int, source: Row | None, target: Row | None) -> None:
    """Adds what the two sides of one resource are; ``newest`` is the version of its head."""
    if target is None:
        found.missing += 1
    elif target[1] > newest:
        found.target_ahead += 1
    elif source is None or target[1] != source[1]:  # one of them waits for an image: look again
        found.target_behind += 1
    elif target[2:] == source[2:]:
        found.match += 1
    else:
        found.diff += 1
