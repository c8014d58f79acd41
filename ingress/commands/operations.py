"""``GET /v1/operations/{request_id}``: what became of a command, also after the answer to it was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress.http import answers
from schemas import errors, services

if TYPE_CHECKING:
    from ingress.commands.accepted import AcceptedRequests
    from ingress.http.store import Store

_encode: Final = msgspec.json.Encoder().encode
_raw: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class OperationLog:
    """Reads decisions by request id. Another caller's request is a 404, as is an unknown one."""

    def __init__(self, store: Store, accepted: AcceptedRequests) -> None:
        self._store = store
        self._accepted = accepted

    async def find(self, principal: str, request_id: str, scopes: frozenset[str]) -> bytes:
        """The operation as JSON. Raises Unavailable, and NotFound, also for what these scopes may not read."""
        parameters = {"merchant": principal, "request_id": request_id}
        for status, response, operation in await self._store.rows("operation_decided", parameters):
            if scopes.isdisjoint(services.BY_NAME[services.OPERATIONS[operation].service].read_scopes):
                raise errors.NotFound
            return _decided(request_id, status, bytes(response))
        if await self._store.rows("operation_parked", parameters):
            refusal = _encode({"code": "parked", "detail": "The command waits for an operator."})
            return _document(request_id, "parked", problem=answers.refused(refusal, replayed=False).body)
        note = await self._accepted.find(principal, request_id)
        if note is None:
            raise errors.NotFound
        if self._accepted.missed_its_deadline(note):
            return _document(request_id, "refused", problem=answers.failed(errors.DeadlineExceeded()).body)
        return _document(request_id, "pending")


def _decided(request_id: str, status: str, response: bytes) -> bytes:
    if status != "committed":
        return _document(request_id, status, problem=answers.refused(response, replayed=False).body)
    members = _raw.decode(response)
    return _document(request_id, status, result=members["result"], event=members["event"])


def _document(request_id: str, status: str, **members: bytes | msgspec.Raw) -> bytes:
    document: dict[str, Any] = {"request_id": request_id, "status": status}
    for name, value in members.items():
        document[name] = msgspec.Raw(value) if isinstance(value, bytes) else value
    return _encode(document)
