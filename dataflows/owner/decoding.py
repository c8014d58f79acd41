"""A message of Kafka as a record of an owner. Nothing is raised for content: what cannot be kept is parked later."""

from __future__ import annotations

from confluent_kafka import Message

from dataflows.owner.batch import Record
from dataflows.owner.fold import envelope_fault
from schemas import codec
from schemas.errors import Corrupt, UndecodableRecord


def record_of(offset: int, message: Message) -> Record:
    """The record at that place, with its command or the reason why it is none."""
    value = message.value() or b""
    record = Record(offset, value, leader_epoch=message.leader_epoch())
    try:
        command = codec.decode_command(value)
    except Corrupt as fault:
        record.fault = fault
        return record
    if reason := envelope_fault(command):
        record.fault = UndecodableRecord(f"The envelope cannot be kept: {reason}.")
    else:
        record.command = command
    return record
