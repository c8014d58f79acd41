"""What the sides of a move were found to be, and what has to be compared again: written down, and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dataflows.tenancy.mover.comparing import compare, compare_again
from schemas import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from decimal import Decimal

    from dataflows.tenancy.domain.comparison import Comparison
    from dataflows.tenancy.mover.open_moves import Move
    from dataflows.tenancy.mover.tenant_rows import Place, Places

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000


class _Verified(Struct, frozen=True):
    """A comparison of all rows: it speaks for what was not written since, but for what it found unlike."""

    since: int
    unlike: set[str]


class Verifications:
    """Of every move that this mover compared. One that starts has none: it compares all rows again."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._verified: dict[str, _Verified] = {}

    def all_rows(self, move: Move, source: Place, target: Place, now: int) -> Comparison:
        """All rows. What is written from now on is looked at again under the fence, however the owner's clock goes."""
        compared = compare(self._places, source, target)
        self._verified[move.migration_id] = _Verified(now - limits.CLOCK_SKEW_MAX_S * _SECOND_US, compared.unlike)
        sums = {source.placement_id: compared.source_sum, target.placement_id: compared.target_sum}
        digests = {"source_digest": _hex(sums[move.source]), "target_digest": _hex(sums[move.target])}
        self._places.control.execute(SQL["move_digests"].encode(), move.named | digests)
        return self._noted(move, compared.found, now)

    def changed_rows(self, move: Move, source: Place, target: Place, now: int) -> Comparison:
        """Under the fence: what changed since all rows were compared. All of them where another mover did that."""
        verified = self._verified.get(move.migration_id)
        if verified is None:
            return self.all_rows(move, source, target, now)
        compared = compare_again(self._places, source, target, verified.since, verified.unlike)
        return self._noted(move, compared.found, now)

    def _noted(self, move: Move, found: Comparison, now: int) -> Comparison:
        counts = {name: getattr(found, name) for name in found.__struct_fields__}
        self._places.control.execute(
            SQL["move_compared"].encode(), move.named | counts | {"verified": found.match, "now": now}
        )
        return found


def _hex(total: Decimal) -> str:
    """A sum as people compare it."""
    return f"{int(total) % 2**64:016x}"
