"""Follows the hash chain of the ledger: a changed, missing, added or reordered entry shows as a broken link."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from sinks.postgres.ledger_chain import GENESIS, ChainRow, link_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciliation.contract.snapshot import Snapshot

_LINKS: Final = (
    "select partition, link, first_txn, last_txn, txns, prev_hash, hash from ledger_chain order by partition, link"
)
_PARTITION, _TXN_ID = 0, 1

Row = tuple[Any, ...]


def chain_violations(view: Snapshot, entries_sql: str) -> Iterator[dict[str, Any]]:
    """Links that do not follow from the one before and their entries, and transactions outside of all links."""
    links: dict[int, list[Row]] = {}
    for partition, *link in view.tuples(_LINKS):
        links.setdefault(partition, []).append(tuple(link))
    rows = view.tuples(entries_sql)
    for partition, entries in groupby(rows, key=lambda row: row[_PARTITION]):
        yield from _partition_violations(partition, links.pop(partition, []), entries)
    for partition, left in links.items():
        yield {"partition": partition, "links": len(left), "reason": "links without any entries"}


def _partition_violations(partition: int, links: list[Row], entries: Iterator[Row]) -> Iterator[dict[str, Any]]:
    txns = groupby(entries, key=lambda row: row[_TXN_ID])
    pending = next(txns, None)
    previous = GENESIS
    for number, (link, first, last, count, prev_hash, hash_) in enumerate(links, 1):
        place = {"partition": partition, "link": link}
        if link != number or bytes(prev_hash) != previous:
            yield {**place, "reason": "does not follow the link before"}
        covered: list[ChainRow] = []
        txn_ids = []
        while pending is not None and pending[0] <= last:
            if pending[0] < first:
                yield {"partition": partition, "txn_id": pending[0], "reason": "a transaction outside of all links"}
                list(pending[1])
            else:
                txn_ids.append(pending[0])
                covered += [cast("ChainRow", row[1:]) for row in pending[1]]
            pending = next(txns, None)
        if len(txn_ids) != count or link_hash(previous, covered) != bytes(hash_):
            yield {**place, "reason": "its entries are not what they were", "first_txn": first, "last_txn": last}
        previous = bytes(hash_)
    while pending is not None:
        yield {"partition": partition, "txn_id": pending[0], "reason": "a transaction outside of all links"}
        list(pending[1])
        pending = next(txns, None)
