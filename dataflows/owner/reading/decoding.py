"""Makes an owner's record of a message of Kafka. Content raises nothing: what cannot be decoded is parked later.

The sender is verified before anything is decoded: an unsigned message is refused, not parked.
"""

from __future__ import annotations

from confluent_kafka import Message

from dataflows.owner.batch import Record
from dataflows.owner.senders import Senders
from dataflows.owner.service import OwnedService
from dataflows.owner.transaction.fold import envelope_fault
from schemas.avro import codec
from schemas.errors import Corrupt, UndecodableRecord
from schemas.operation import Operation
from schemas.records import Command


def record_of(
    offset: int, message: Message, senders: Senders, service: OwnedService, *, signed_from: int | None
) -> Record:
    """The record at that place, with its command, or the reason why it is refused or cannot be decoded.

    Records from offset ``signed_from`` on must be signed; ``None`` means all.
    """
    value = message.value() or b""
    record = Record(offset, value, leader_epoch=message.leader_epoch())
    needs_mac = signed_from is None or offset >= signed_from
    record.sender, record.refused = senders.sender_of(service.commands_topic, message, needs_mac=needs_mac)
    if record.refused:
        return record
    try:
        command = codec.decode_command(value)
    except Corrupt as fault:
        record.fault = fault
        return record
    if reason := envelope_fault(command):
        record.fault = UndecodableRecord(f"The envelope cannot be kept: {reason}.")
        return record
    operation = service.declared.operation_by_name.get(command.operation)
    record.refused = senders.why_not(record.sender, command, operation, message.key())
    if record.refused is None:
        record.command = command
        if operation is not None and senders.is_outside(record.sender):
            command.signals = None  # only an ingress sees these of a call, no program outside
            command.reply_to = -1  # an ingress waits there: another's call would take this answer for its own
            _hash_again(command, operation)
            record.value = codec.encode_command(command)  # if it is parked, the retry brings it as it is believed now
    return record


def _hash_again(command: Command, operation: Operation) -> None:
    """Makes the request hash ourselves: a retry over HTTP has our hash, and would not match an invented one.

    An invalid command keeps its hash: it is refused, and nothing of it is stored.
    """
    payload, wrong = operation.normalize(command.payload)
    if not wrong:
        command.request_hash = operation.request_hash(command.aggregate_key, payload)
