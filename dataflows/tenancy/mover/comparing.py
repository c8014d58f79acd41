"""Both sides of a move, compared row by row: this is the verification, and a dual read of every row."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from dataflows.tenancy.domain.comparison import Comparison, Side, count
from schemas import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from dataflows.tenancy.mover.place import Place, Places, Row

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")


def compare(places: Places, source: Place, target: Place) -> Comparison:
    """Every row of the tenant, on both sides: pages by their sums, and row by row what differs."""
    found, after = Comparison(), ""
    while True:
        page = places.digest(source, after, "", limits.MOVE_DIGEST_ROWS)
        upto = page.last_id if page.rows == limits.MOVE_DIGEST_ROWS and page.last_id else ""
        if page == places.digest(target, after, upto, limits.MOVE_DIGEST_ROWS)._replace(last_id=page.last_id) and (
            page.rows,
            page.heads,
        ) == _of_heads(places, source.tenant_id, after, upto):
            found.match += page.rows
        else:
            _compare_rows(found, places, source, target, after, upto)
        if not upto:
            return found
        after = upto


def _of_heads(places: Places, tenant_id: str, after: str, upto: str) -> tuple[int, Decimal]:
    """How many heads there are, and their sum. Read last: no side can have what they do not know."""
    asked = {"tenant_id": tenant_id, "after": after, "upto": upto}
    rows, digest = places.control.execute(SQL["heads_digest"].encode(), asked).fetchone() or (0, Decimal(0))
    return rows, digest


def _compare_rows(found: Comparison, places: Places, source: Place, target: Place, after: str, upto: str) -> None:
    """The rows behind one id, up to another one; heads are read last."""
    while True:
        asked = {"tenant_id": source.tenant_id, "after": after, "upto": upto, "limit": limits.MOVE_PAGE_ROWS}
        ids = [row[0] for row in places.control.execute(SQL["heads_compared"].encode(), asked)]
        if not ids:
            return
        after = ids[-1]
        at_target = places.rows(target, ids)
        at_source = places.rows(source, ids)
        asked = {"tenant_id": source.tenant_id, "ids": ids}
        newest = dict(places.control.execute(SQL["heads_versions"].encode(), asked).fetchall())
        for id_ in ids:
            count(found, newest[id_], _side(at_source.get(id_)), _side(at_target.get(id_)))


def _side(row: Row | None) -> Side | None:
    return None if row is None else row[1:]
