"""Keys of all roles for owners and producers that a test makes itself, without a home."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from schemas import codec
from schemas.errors import Corrupt
from schemas.senders import PARKED, ROLES, Headers, Sender
from schemas.services import OPERATIONS
from sinks.kafka.sender_keys import KnownSender

if TYPE_CHECKING:
    from sinks.kafka.connection import KafkaConnection

SENDERS = tuple(Sender(role, hashlib.sha256(role.encode()).digest()) for role in ROLES)


class KnownKeys:
    """What an owner asks for who may send."""

    def known(self) -> dict[bytes, KnownSender]:
        return {sender.name.encode(): KnownSender(sender) for sender in SENDERS}

    def changed_at(self) -> int:
        return 0


def signing(kafka: KafkaConnection) -> KafkaConnection:
    """The same for whoever sends as all of our own processes do."""
    return replace(kafka, senders=SENDERS)


def signed(kafka: KafkaConnection, topic: str, key: str | None, value: bytes) -> Headers:
    """The headers of whoever may send this; of what is no command, those of who sends again what was parked."""
    try:
        operation = OPERATIONS.get(codec.decode_command(value).operation)
    except Corrupt:
        operation = None
    return kafka.signed(operation.senders if operation else (PARKED,), topic, key, value)
