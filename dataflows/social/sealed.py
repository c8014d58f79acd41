"""Commands whose text travels under its user's key, and their results, which are stored under it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import structs

from dataflows.owner.service import Committed
from dataflows.social.batch import SocialBatch
from schemas.crypto.sealing import SealBroken
from schemas.records import Command, Rejection
from schemas.refusals import wrong_value
from schemas.social import sealed_texts

#: one that nobody of ours sealed; the ingress sends none such
_NOT_OURS: Final = wrong_value("payload", "is not sealed with its user's key")


def needs_key(command: Command) -> bool:
    """Whether the key of its user must be read."""
    return command.operation in sealed_texts.ANSWERING or sealed_texts.is_sealed(command.operation, command.signals)


def decided(
    batch: SocialBatch, command: Command, user: str, decide: Callable[[Command], Committed | Rejection]
) -> Committed | Rejection:
    """What the domain decides of the command in the clear, as it is stored and published: under the key again.

    A user without a key is answered in the clear: nothing of it came by an ingress that seals.
    """
    key, found = batch.keys.get(user), None
    is_sealed = sealed_texts.is_sealed(command.operation, command.signals)
    if is_sealed and (key is None or (found := _opened(command, key, user)) is None):
        return _NOT_OURS
    made = decide(found or command)
    if key is None or isinstance(made, Rejection):
        return made
    return structs.replace(made, result=sealed_texts.sealed_result(made.shown(), key, user))


def _opened(command: Command, key: bytes, user: str) -> Command | None:
    said = command.operation, command.payload, command.signals or {}, key, user, command.idempotency_key
    try:
        return structs.replace(command, payload=sealed_texts.opened_payload(*said))
    except SealBroken:
        return None
