"""Keys of users as the ingress knows them, and what it seals and opens with them.

A key that was destroyed is known here for a second more; nobody is answered with it, as a user who is erased is refused
before (``Users.present``).
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas import errors
from schemas.avro import codec
from schemas.crypto.sealing import SealBroken
from schemas.social import limits, sealed_texts

if TYPE_CHECKING:
    from ingress.commands.admission import Signals
    from ingress.commands.envelope import Request
    from ingress.http.store import Store

_json: Final = msgspec.json.Encoder()
_MARK: Final = b'"sealed":'  # an answer without it has nothing to open
_TRIES: Final = 2  # the second finds what another process made meanwhile
Json = dict[str, Any]


class SealedTexts:
    """One per process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    async def sealed(self, user_id: str, request: Request) -> Signals | None:
        """What travels beside a command: its text, if it has one. Raises Unavailable and Gone."""
        operation = request.operation
        says_text = sealed_texts.text_of(operation.name, request.payload) is not None
        if not _may_seal(request) or not (says_text or operation.name in sealed_texts.ANSWERING):
            return None
        key = await self._key(user_id)  # its owner seals the answer with it, too
        return sealed_texts.sealed_command(operation.name, request.payload, key, user_id, request.idempotency_key)

    @staticmethod
    def travelling(request: Request) -> Json:
        """The payload as it travels."""
        if not _may_seal(request):
            return request.payload
        return sealed_texts.travelling(request.operation.name, request.payload)

    async def opened(self, user_id: str, body: bytes) -> bytes:
        """A stored answer with its texts: the same bytes every time. Raises Unavailable and Gone."""
        if _MARK not in body:
            return body
        answer = msgspec.json.decode(body)
        if not sealed_texts.has_sealed(answer.get("result")):
            return body
        key = await self._key(user_id)
        try:
            answer["result"] = sealed_texts.opened_result(answer["result"], key, user_id)
        except SealBroken as error:
            raise errors.Unavailable("What is stored does not open.", user=user_id) from error
        return _json.encode(answer)

    async def _key(self, user_id: str) -> bytes:
        read_at, key = self._known.get(user_id, (0.0, b""))
        if key and time.monotonic() - read_at < limits.USER_KEYS_CACHED_S:
            return key
        read_at = time.monotonic()
        for _ in range(_TRIES):
            given = {"user_id": user_id, "fresh": secrets.token_bytes(sealed_texts.KEY_BYTES)}
            rows = await self._store.rows("author_key", given)
            if rows and rows[0][0] is None:
                raise errors.Gone("The user was erased.")
            if rows:
                found = bytes(rows[0][0])
                self._known[user_id] = read_at, found
                self._known.move_to_end(user_id)
                if len(self._known) > limits.USER_KEYS_CACHED_MAX:
                    self._known.popitem(last=False)
                return found
        raise errors.Unavailable(cause="the key of a user was neither found nor made")


def _may_seal(request: Request) -> bool:
    """Whether those who read these commands know of sealed texts: an operator may write as the release before does."""
    operation = request.operation
    return operation.name in sealed_texts.WRITTEN and codec.schema_named(operation.record).version >= sealed_texts.SINCE
