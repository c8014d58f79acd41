"""A message of Kafka as a record of an owner. Nothing is raised for content: what cannot be kept is parked later.

Who sent it is verified first, and before anything of it is decoded: what nobody signed is refused, not parked.
"""

from __future__ import annotations

from confluent_kafka import Message

from dataflows.owner.batch import Record
from dataflows.owner.fold import envelope_fault
from dataflows.owner.senders import Senders
from dataflows.owner.service import OwnedService
from schemas import codec
from schemas.errors import Corrupt, UndecodableRecord
from schemas.operation import Operation
from schemas.records import Command


def record_of(
    offset: int, message: Message, senders: Senders, service: OwnedService, *, signed_from: int | None
) -> Record:
    """The record at that place: with its command, or why it is refused or none. From ``signed_from`` on it is signed.

    None for ``signed_from`` means from the beginning.
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
            command.signals = None  # what the ingress sees of a call: nobody outside has seen it
            command.reply_to = -1  # whom the ingress answers: another's call would take this answer for its own
            _hash_again(command, operation)
            record.value = codec.encode_command(command)  # should it be parked, it comes again as it is believed
    return record


def _hash_again(command: Command, operation: Operation) -> None:
    """A retry over HTTP has our hash: with an invented one it would be another request for ever.

    What is not valid is refused as it is, and nothing of it is stored.
    """
    payload, wrong = operation.normalize(command.payload)
    if not wrong:
        command.request_hash = operation.request_hash(command.aggregate_key, payload)
