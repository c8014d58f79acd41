"""``GET /v1/operations/{request_id}``: what became of a command, also after the answer to it was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress.http import answers
from schemas import errors, services, stored_answer

if TYPE_CHECKING:
    from ingress.commands.accepted import AcceptedRequests, Note
    from ingress.commands.admission import Admissions
    from ingress.http.store import Store
    from ingress.identity.caller import Caller

_encode: Final = msgspec.json.Encoder().encode
_OF_COMMAND: Final = _encode({"code": "parked", "detail": "The command waits for an operator."})
_OF_OBJECT: Final = _encode({"code": "parked", "detail": "The object waits for an operator; nothing was done."})
_PASSED: Final = _encode(
    {"code": "parked", "detail": "The object waited for an operator, or one gave the command up; nothing was done."}
)
_raw: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class OperationLog:
    """Reads decisions by request id. Another caller's request is a 404, as is an unknown one."""

    def __init__(self, store: Store, accepted: AcceptedRequests, admissions: Admissions) -> None:
        self._store = store
        self._admissions = admissions
        self._accepted = accepted

    async def find(self, caller: Caller, request_id: str, principal: str) -> bytes:
        """The operation as JSON. Raises Unavailable, and NotFound, also for what these scopes may not read.

        A request that repeated another one has that one's result.
        """
        asked = {"merchant": principal, "request_id": request_id}
        for decided in await self._store.rows("operation_decided", asked):
            return await self._decided(caller, request_id, *decided)
        if await self._store.rows("operation_parked", asked):
            return _document(request_id, "parked", problem=answers.refused(_OF_COMMAND, replayed=False).body)
        note = await self._accepted.find(principal, request_id)
        if note is None:
            raise errors.NotFound
        identity = {"merchant": principal, "key": note.idempotency_key}
        for request_hash, *of_identity in await self._store.rows("operation_decided_of_key", identity):
            if bytes(request_hash) != note.request_hash:
                return _document(request_id, "refused", problem=answers.failed(errors.KeyReused()).body)
            return await self._decided(caller, request_id, *of_identity)
        return await self._undecided(note)

    async def _undecided(self, note: Note) -> bytes:
        """Its object may refuse work: the command is parked while the object is, and an owner stores nothing of it.

        After that it is refused, because its owner has read past it. The caller may send the same identity again;
        then it is decided.
        """
        if self._accepted.missed_its_deadline(note):
            return _document(note.request_id, "refused", problem=answers.failed(errors.DeadlineExceeded()).body)
        if await self._store.rows("aggregate_parked", {"aggregate_key": note.aggregate_key}):
            return _document(note.request_id, "parked", problem=answers.refused(_OF_OBJECT, replayed=False).body)
        if note.place is not None and await self._is_passed(note, *note.place):
            return _document(note.request_id, "refused", problem=answers.refused(_PASSED, replayed=False).body)
        return _document(note.request_id, "pending")

    async def _is_passed(self, note: Note, topic: str, partition: int, offset: int) -> bool:
        asked = {"merchant": note.merchant, "request_id": note.request_id, "key": note.idempotency_key}
        place = {"topic": topic, "partition": partition, "offset": offset}
        return bool(await self._store.rows("command_passed", asked | place))

    async def _decided(
        self, caller: Caller, request_id: str, status: str, response: bytes, operation_name: str, event: bytes | None
    ) -> bytes:
        operation = services.OPERATIONS[operation_name]
        if caller.scopes.isdisjoint(services.BY_NAME[operation.service].read_scopes):
            raise errors.NotFound
        whole = stored_answer.whole(bytes(response), event)
        if status != "committed":
            return _document(request_id, status, problem=answers.refused(whole, replayed=False).body)
        answer = answers.committed(operation, whole, replayed=False)
        (shown,) = await self._admissions.of(operation.service).shown(caller, [None], [answer])
        members = _raw.decode(shown.body)
        return _document(request_id, status, result=members["result"], event=members["event"])


def _document(request_id: str, status: str, **members: bytes | msgspec.Raw) -> bytes:
    document: dict[str, Any] = {"request_id": request_id, "status": status}
    for name, value in members.items():
        document[name] = msgspec.Raw(value) if isinstance(value, bytes) else value
    return _encode(document)
