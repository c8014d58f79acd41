"""Both sides of a move, compared row by row: this is the verification, and a dual read of every row."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from dataflows.tenancy.domain.comparison import Comparison, Side, count
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflows.tenancy.mover.tenant_rows import Place, Places, Row

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")


class Compared(NamedTuple):
    """What a comparison found, and which resources did not match."""

    found: Comparison
    unlike: set[str]


def compare(places: Places, source: Place, target: Place) -> Compared:
    """Every row of the tenant, on both sides: pages by their sums, and row by row what differs."""
    compared, after = Compared(Comparison(), set()), ""
    while True:
        page = places.digest(source, after, "", limits.MOVE_DIGEST_ROWS)
        upto = page.last_id if page.rows == limits.MOVE_DIGEST_ROWS and page.last_id else ""
        there = places.digest(target, after, upto, limits.MOVE_DIGEST_ROWS)
        heads = _of_heads(places, source.tenant_id, after, upto)
        if page[1:] == there[1:] and (page.rows, page.heads) == heads:
            compared.found.match += page.rows
        else:
            _compare_rows(compared, places, source, target, after, upto)
        if not upto:
            return compared
        after = upto


def compare_again(places: Places, source: Place, target: Place, since: int, unlike: Iterable[str]) -> Compared:
    """The rows that a comparison begun at ``since`` does not speak for: what changed, and what it found unlike."""
    changed = places.control.execute(
        SQL["heads_changed"].encode(), {"tenant_id": source.tenant_id, "since": since}
    ).fetchall()
    ids = sorted({row[0] for row in changed}.union(unlike))
    compared = Compared(Comparison(), set())
    for first in range(0, len(ids), limits.MOVE_PAGE_ROWS):
        _compare_ids(compared, places, source, target, ids[first : first + limits.MOVE_PAGE_ROWS])
    return compared


def _of_heads(places: Places, tenant_id: str, after: str, upto: str) -> tuple[int, Decimal]:
    """How many heads there are, and their sum. Read last: no side can have what they do not know."""
    asked = {"tenant_id": tenant_id, "after": after, "upto": upto}
    rows, digest = places.control.execute(SQL["heads_digest"].encode(), asked).fetchone() or (0, Decimal(0))
    return rows, digest


def _compare_rows(compared: Compared, places: Places, source: Place, target: Place, after: str, upto: str) -> None:
    """The rows behind one id, up to another one."""
    while True:
        asked = {"tenant_id": source.tenant_id, "after": after, "upto": upto, "limit": limits.MOVE_PAGE_ROWS}
        ids = [row[0] for row in places.control.execute(SQL["heads_compared"].encode(), asked)]
        if not ids:
            return
        after = ids[-1]
        _compare_ids(compared, places, source, target, ids)


def _compare_ids(compared: Compared, places: Places, source: Place, target: Place, ids: list[str]) -> None:
    """These rows; heads are read last, so no side can have what they do not know."""
    at_target = places.rows(target, ids)
    at_source = places.rows(source, ids)
    asked = {"tenant_id": source.tenant_id, "ids": ids}
    newest = dict(places.control.execute(SQL["heads_versions"].encode(), asked).fetchall())
    for id_ in ids:
        matched = compared.found.match
        count(compared.found, newest[id_], _side(at_source.get(id_)), _side(at_target.get(id_)))
        if compared.found.match == matched:
            compared.unlike.add(id_)


def _side(row: Row | None) -> Side | None:
    return None if row is None else row[1:]
