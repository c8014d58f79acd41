"""Keys of all roles for owners and producers that a test makes itself, without a home."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from schemas.avro import codec
from schemas.errors import Corrupt
from schemas.senders import PARKED, ROLES, Headers, Sender, speaks_for
from schemas.services import OPERATIONS
from sinks.kafka.sender_keys import KnownSender

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.operation import Operation
    from sinks.kafka.connection import KafkaConnection

_ALL = {*ROLES, *(role for operation in OPERATIONS.values() for role in operation.senders)}
SENDERS = tuple(Sender(role, hashlib.sha256(role.encode()).digest()) for role in sorted(_ALL))


class KnownKeys:
    """What an owner asks for who may send."""

    def known(self) -> dict[bytes, KnownSender]:
        return {sender.name.encode(): KnownSender(sender) for sender in SENDERS}

    def changed_at(self) -> int:
        return 0


def signing(kafka: KafkaConnection) -> KafkaConnection:
    """The same for whoever sends as all of our own processes do."""
    return replace(kafka, senders=SENDERS)


def signed(
    kafka: KafkaConnection,
    topic: str,
    key: str | None,
    value: bytes,
    operations: Mapping[str, Operation] = OPERATIONS,
) -> Headers:
    """The headers of whoever may send this; of what nobody may, those of who sends parked ones again."""
    try:
        command = codec.decode_command(value)
    except Corrupt:
        return kafka.signed((PARKED,), topic, key, value)
    senders = operations[command.operation].senders if command.operation in operations else ()
    may = [role for role in senders if speaks_for(role, command.scope)]
    return kafka.signed(tuple(may[:1]) or (PARKED,), topic, key, value)
