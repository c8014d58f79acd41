"""What blocks of decisions become in every table of ClickHouse. Pure: the same blocks give the same rows for ever.

Rule: no user reaches analytical storage (spec 1, section 5): a key is its hash there, and so is a tenant that is one
person. Sums hold every decision; rows are those that the policy's audit setting keeps.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from limiter.spending.ring import ALLOWED, APPROXIMATE, DEGRADED, DUPLICATE
from limiter.stream.shadows import MINUTE_US
from schemas.senders import USER
from sinks.clickhouse.limiter.tables import BY_KEY, BY_MINUTE, DECISIONS, GAPS, SUMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limiter.stream.blocks import Block, Part
    from sinks.clickhouse.tables import Table

_FLAGS: Final = (ALLOWED, DUPLICATE, DEGRADED, APPROXIMATE)
_MINUTE_S: Final = 60
#: the kinds of tenants of our own API that are one person each, before their colon
_PERSONS: Final = frozenset((USER, "staff"))
_TEXTS_CACHED: Final = 65_536

Source = tuple[str, int]  # a recorder, and the partition of its blocks
Columns = list[list[Any]]


@lru_cache(_TEXTS_CACHED)
def texts_of(limit_key: str) -> tuple[str, str, str]:
    """Tenant, route, and the hash that stands for the key."""
    tenant, _, rest = limit_key.partition(":")
    return _tenant_shown(unquote(tenant)), rest.partition(":")[2], key_hash(limit_key)


def _tenant_shown(tenant: str) -> str:
    """A person's is as many as it was, so that a plan from before has as many rows: ``user#`` and a hash."""
    kind, colon, _ = tenant.partition(":")
    return f"{kind}#{key_hash(tenant)}" if colon and kind in _PERSONS else tenant


def key_hash(limit_key: str) -> str:
    """What a key is called where its user must not be: as Postgres' md5() has it."""
    return hashlib.md5(limit_key.encode(), usedforsecurity=False).hexdigest()


def table_columns(
    blocks: Sequence[tuple[int, Block]], counted: dict[Source, int], block_number: int
) -> dict[str, Columns]:
    """The columns of every table for blocks of partitions; what is counted is left out, and ``counted`` moves on."""
    rows: Columns = [[] for _ in DECISIONS.columns]
    by_minute: dict[tuple[Any, ...], list[int]] = {}
    by_key: dict[tuple[Any, ...], list[int]] = {}
    gaps: dict[str, tuple[int, int]] = {}
    for partition, block in blocks:
        place = (block.source, partition)
        part = block.after(counted.get(place, 0))
        counted[place] = part.until
        texts = [texts_of(row.key) for row in block.rows]
        _add_rows(rows, block, part, texts)
        newest = _add_sums(by_minute, by_key, block, part, texts)
        gap, as_of = gaps.get(block.source, (0, 0))
        gaps[block.source] = max(gap, block.gap), max(as_of, newest)
    return {
        DECISIONS.name: rows,
        BY_MINUTE.name: _transposed([[*key, block_number, *sums] for key, sums in by_minute.items()], BY_MINUTE),
        BY_KEY.name: _transposed([[*key, block_number, *sums] for key, sums in by_key.items()], BY_KEY),
        GAPS.name: _transposed([[source, *found] for source, found in gaps.items() if found[0]], GAPS),
    }


def _add_rows(rows: Columns, block: Block, part: Part, texts: list[tuple[str, str, str]]) -> None:
    records = part.records
    places = records["row"].tolist()
    flags = records["flags"]
    of_places: list[list[Any]] = [
        *([text[at] for text in texts] for at in range(3)),
        [row.policy_id for row in block.rows],
        [row.policy_version for row in block.rows],
    ]
    found = [
        [block.source] * len(places),
        part.numbers.tolist(),
        records["at"].tolist(),
        *([values[place] for place in places] for values in of_places),
        records["cost"].tolist(),
        records["remaining"].tolist(),
        *((flags & flag != 0).tolist() for flag in _FLAGS),
        part.weights.tolist(),
        _shadows_of(block, part),
    ]
    for column, values in zip(rows, found, strict=True):
        column.extend(values)


def _shadows_of(block: Block, part: Part) -> list[list[str]]:
    """Of each row the policies in shadow mode that would have refused it."""
    of_numbers: dict[int, list[str]] = {}
    for place, row in zip(part.shadows["place"].tolist(), part.shadows["row"].tolist(), strict=True):
        of_numbers.setdefault(block.first + place, []).append(block.rows[row].policy_id)
    return [sorted(of_numbers.get(number, ())) for number in part.numbers.tolist()]


def _add_sums(
    by_minute: dict[tuple[Any, ...], list[int]],
    by_key: dict[tuple[Any, ...], list[int]],
    block: Block,
    part: Part,
    texts: list[tuple[str, str, str]],
) -> int:
    """Adds every decision to its sums, and gives the time of the newest in microseconds."""
    found, shadows = part.summed(), part.shadows
    sums = [[*values, 0] for values in zip(*(found[name].tolist() for name in SUMS), strict=True)]
    sums += [[0] * len(SUMS) + [count] for count in shadows["count"].tolist()]
    rows = found["row"].tolist() + shadows["row"].tolist()
    minutes = found["minute"].tolist() + (shadows["at"] // MINUTE_US).tolist()
    for row, minute, added in zip(rows, minutes, sums, strict=True):
        tenant, route, hashed = texts[row]
        place = (tenant, block.rows[row].policy_id, route)
        for total in (
            by_minute.setdefault((minute * _MINUTE_S, *place), [0] * len(added)),
            by_key.setdefault((minute * _MINUTE_S, hashed, *place), [0] * len(added)),
        ):
            for at, value in enumerate(added):
                total[at] += value
    return int(found["newest"].max(initial=0))


def _transposed(made: list[list[Any]], table: Table) -> Columns:
    return [list(column) for column in zip(*made, strict=True)] if made else [[] for _ in table.columns]
