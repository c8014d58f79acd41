"""Stored results, the truth about an identity: the fast path of a retry, and the fallback for a lost reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ingress import limits
from ingress.http.coalescer import Coalescer
from schemas import stored_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.http.store import Store

Identity = tuple[str, str]  # merchant, idempotency key
Place = tuple[str, int, int]  # topic, partition, offset of a command


class Stored(Struct, frozen=True):
    """The decision for an identity, and the place of the command that got it first, as Kafka counts."""

    request_hash: bytes
    response: bytes
    status: str
    partition: int
    offset: int


class StoredResults:
    """Reads decisions by identity; single reads are coalesced. Raises Unavailable when the database is out."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._coalescer: Coalescer[Identity, Stored | None] = Coalescer(
            self.find_all,
            batch_max=limits.STORED_LOOKUPS_MAX,
            running_max=limits.STORED_LOOKUPS_RUNNING_MAX,
        )

    async def find(self, identity: Identity) -> Stored | None:
        """The decision for one identity; None while there is none."""
        return await self._coalescer.ask(identity)

    async def find_all(self, identities: Sequence[Identity]) -> list[Stored | None]:
        """The decisions for many identities, in their order, by one query."""
        found: list[Stored | None] = [None] * len(identities)
        if not identities:
            return found
        merchants, keys = zip(*identities, strict=True)
        parameters = {"ns": list(range(len(identities))), "merchants": list(merchants), "keys": list(keys)}
        for n, request_hash, response, status, partition, offset, event in await self._store.rows(
            "stored_results", parameters
        ):
            answer = stored_answer.whole(bytes(response), event)
            found[n] = Stored(bytes(request_hash), answer, status, partition, offset)
        return found

    async def parked(self, places: Sequence[Place]) -> set[int]:
        """The indexes of the commands that are among the dead letters."""
        if not places:
            return set()
        topics, partitions, offsets = zip(*places, strict=True)
        parameters: dict[str, Any] = {
            "ns": list(range(len(places))),
            "topics": list(topics),
            "partitions": list(partitions),
            "offsets": list(offsets),
        }
        return {n for (n,) in await self._store.rows("parked_requests", parameters)}
