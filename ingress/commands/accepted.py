"""Notes of commands that were answered 202, so that ``GET /v1/operations`` can say "pending" to their own caller.

All ingress processes share the notes through a small table. This process also remembers its own, in case the database
is out. A lost note costs a 404 until the decision, never an effect.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ingress import limits
from ingress.commands.stored import Place
from ingress.http.coalescer import Coalescer
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingress.http.store import Store

_SECOND_US: Final = 1_000_000


class Note(Struct, frozen=True):
    """One accepted command. ``deadline_at`` in microseconds since the epoch, 0 = none.

    In notes of an ingress of an earlier release the identity, the aggregate and the place are None.
    """

    merchant: str
    request_id: str
    deadline_at: int
    idempotency_key: str | None = None
    request_hash: bytes | None = None
    aggregate_key: str | None = None
    place: Place | None = None  # in Kafka, if Kafka has acknowledged it


class AcceptedRequests:
    """Remembers and finds notes. A command that Kafka holds is not refused because the database is out."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._own: OrderedDict[tuple[str, str], Note] = OrderedDict()
        self._coalescer: Coalescer[Note, None] = Coalescer(
            self._insert, batch_max=limits.ACCEPTED_NOTES_MAX, running_max=1
        )

    async def remember(self, note: Note) -> None:
        """Notes one accepted command."""
        self._keep(note)
        try:
            await self._coalescer.ask(note)
        except errors.Unavailable:
            return

    async def remember_all(self, notes: Sequence[Note]) -> None:
        """Notes the accepted commands of one request."""
        for note in notes:
            self._keep(note)
        if not notes:
            return
        try:
            await self._insert(notes)
        except errors.Unavailable:
            return

    async def find(self, merchant: str, request_id: str) -> Note | None:
        """The note of a merchant's request. Raises Unavailable when the database is out and we have none."""
        own = self._own.get((merchant, request_id))
        if own is not None:
            return own
        parameters = {"merchant": merchant, "request_id": request_id}
        for deadline_at, key, hashed, aggregate_key, *where in await self._store.rows("accepted_find", parameters):
            place = None if None in where else (where[0], where[1], where[2])
            return Note(merchant, request_id, deadline_at or 0, key, hashed and bytes(hashed), aggregate_key, place)
        return None

    def missed_its_deadline(self, note: Note) -> bool:
        """True when no owner can start or finish the command any more."""
        past = self._clock() * _SECOND_US - limits.DEADLINE_SETTLED_S * _SECOND_US
        return 0 < note.deadline_at < past

    async def clean(self) -> None:
        """Forgets notes that are older than the retention."""
        await self._store.rows("accepted_clean", {"age_s": limits.ACCEPTED_RETENTION_S})

    def _keep(self, note: Note) -> None:
        self._own[(note.merchant, note.request_id)] = note
        if len(self._own) > limits.ACCEPTED_REMEMBERED_MAX:
            self._own.popitem(last=False)

    async def _insert(self, notes: Sequence[Note]) -> list[None]:
        # One row per identity: a statement cannot touch a row twice.
        rows = list({(n.merchant, n.request_id): n for n in notes}.values())
        parameters = {
            "merchants": [n.merchant for n in rows],
            "request_ids": [n.request_id for n in rows],
            "deadlines": [n.deadline_at for n in rows],
            "keys": [n.idempotency_key for n in rows],
            "hashes": [n.request_hash for n in rows],
            "aggregates": [n.aggregate_key for n in rows],
            "topics": [n.place and n.place[0] for n in rows],
            "partitions": [n.place and n.place[1] for n in rows],
            "offsets": [n.place and n.place[2] for n in rows],
        }
        await self._store.rows("accepted_insert", parameters)
        return [None] * len(notes)
