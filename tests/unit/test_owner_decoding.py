"""What an owner believes of a record, by who signed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dataflows.owner.reading.decoding import record_of
from dataflows.owner.senders import Senders
from dataflows.payments.policies import PolicyBook
from dataflows.payments.service import payments_service
from schemas.avro import codec
from schemas.senders import INGRESS, Sender
from sinks.kafka.sender_keys import SenderKeys
from tests.worlds.payments import payment_cases as cases

if TYPE_CHECKING:
    from pathlib import Path

    from dataflows.owner.batch import Record
    from schemas.records import Command

SERVICE = payments_service(policies=PolicyBook())
SEEN = {"network": "visa", "velocity:card:1h": "0"}


class Said:
    """A record as the client of Kafka gives it."""

    def __init__(self, sender: Sender, command: Command) -> None:
        self._key, self._value = command.aggregate_key, codec.encode_command(command)
        self._headers = sender.headers(SERVICE.commands_topic, self._key, self._value)

    def key(self) -> bytes:
        return self._key.encode()

    def value(self) -> bytes:
        return self._value

    def headers(self) -> list[tuple[str, Any]]:
        return self._headers

    def leader_epoch(self) -> int:
        return 0


@pytest.mark.parametrize(("sender", "believed"), [(INGRESS, SEEN), ("producer.erp", None)])
def test_what_the_ingress_saw_of_a_call_and_who_waits_is_believed_of_the_ingress_alone(
    tmp_path: Path, sender: str, believed: dict[str, str] | None
) -> None:
    """A program outside that names the place of another's call would have the ingress answer that call with its own."""
    keys = SenderKeys(tmp_path, frozenset({INGRESS}))
    keys.ensure(INGRESS)
    keys.add("erp", ("m_1",))
    confirm = cases.confirm()
    confirm.signals, confirm.reply_to, confirm.reply_id = SEEN, 3, 17
    (signs,) = keys.senders((sender,))
    said: Any = Said(signs, confirm)
    found: Record = record_of(0, said, Senders(keys), SERVICE, signed_from=0)
    assert found.command is not None, found.refused
    assert codec.decode_command(found.value).signals == believed  # parked and tried again, it is believed no more
    assert (found.command.signals, found.command.reply_to) == (believed, -1 if believed is None else 3)
