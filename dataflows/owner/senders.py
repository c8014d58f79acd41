"""Verifies a record's sender, and that it may send this, before the command is decided. No key, no effect.

A record that fails is refused. Nothing in it is believed: nobody is answered, no identity is taken, no aggregate is
parked. It is kept with the reason (``records_refused_insert``), up to a bound for each partition (``limits``).
"""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from dataflows import limits
from schemas.fields import card_number
from schemas.identity import REQUEST_ID
from schemas.senders import MAC, PARKED, SENDER, speaks_for
from sinks.kafka.headers import headers_of

if TYPE_CHECKING:
    from confluent_kafka import Message

    from schemas.operation import Operation
    from schemas.records import Command
    from sinks.kafka.sender_keys import KnownSender

#: stored as the sender of a command that lay in the topic before records were signed
UNSIGNED: Final = "unsigned"
_TICK_NS: Final = 1_000_000_000
log: Final = structlog.get_logger()


class Keys(Protocol):
    """The store of keys: ``sinks.kafka.sender_keys.SenderKeys``."""

    def known(self) -> dict[bytes, KnownSender]:
        """All senders with a key."""

    def changed_at(self) -> int:
        """A value that differs after a key was added or removed."""


class Senders:
    """The known senders of one process; used by its reading thread alone."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._known: dict[bytes, KnownSender] = {}
        self._seen = -1
        self._look_due = 0.0

    def look(self) -> None:
        """Reads added and removed keys now and then. If they cannot be read, the previous ones stay in force."""
        now = time.monotonic()
        if now >= self._look_due:
            self._look_due = now + limits.SENDERS_LOOK_INTERVAL_S
            self._read()

    def _read(self) -> bool:
        try:
            seen = self._keys.changed_at()
            if seen == self._seen:
                return False
            self._known = self._keys.known()
            is_settled = time.time_ns() - seen > _TICK_NS  # a key may still come in the same tick of the file system
            self._seen = seen if is_settled else -1
        except (OSError, ValueError, KeyError) as error:
            log.warning("sender_keys_not_read", error=repr(error))
            return False
        return True

    def sender_of(self, topic: str, message: Message, *, needs_mac: bool) -> tuple[str, str | None]:
        """Who signed this record; "" for nobody, with the reason. Called for every record.

        ``needs_mac`` is False for records from before records were signed.
        """
        headers, value = headers_of(message), message.value() or b""
        if headers is None or len(value) > limits.RECORD_BYTES_MAX:
            return "", "headers_unreadable" if headers is None else "too_large"
        name, mac = headers.get(SENDER), headers.get(MAC)
        if name is None and mac is None and not needs_mac:
            return UNSIGNED, None
        if not isinstance(name, bytes) or not isinstance(mac, bytes):
            return "", "sender_missing"
        known = self._known.get(name)
        if known is None and self._read():  # the sender may have been added a moment ago
            known = self._known.get(name)
        if known is None:
            return "", "sender_unknown"
        if not hmac.compare_digest(mac, known.sender.mac(topic, message.key() or b"", value)):
            return "", "mac_wrong"
        return known.sender.name, None

    def scopes_of(self, sender: str) -> tuple[str, ...] | None:
        """The scopes that a producer outside speaks for; None for one of our own processes."""
        return self._known[sender.encode()].scopes

    def outside_scopes(self, sender: str) -> tuple[str, ...] | None:
        """The scopes that a producer outside speaks for now; None for who is none, or none any more."""
        known = self._known.get(sender.encode())
        return None if known is None else known.scopes

    def why_not(self, sender: str, command: Command, operation: Operation | None, key: bytes | None) -> str | None:
        """The reason why this sender may not send this command; None when it may."""
        if key != command.aggregate_key.encode():
            return "key_differs"
        if sender == UNSIGNED:
            return None
        scopes = self._known[sender.encode()].scopes
        allowed = speaks_for(sender, command.scope) if scopes is None else command.scope in scopes
        if not allowed:
            return "scope_not_allowed"
        if operation is None or sender == PARKED:
            return None  # the fold refuses an operation of another service
        may_send = (
            operation.is_from_role(sender, command) if scopes is None else operation.is_from_outside(command.scope)
        )
        if not may_send:
            return "operation_not_allowed"
        return None if scopes is None else _why_unfit(command, operation)

    def is_outside(self, sender: str) -> bool:
        """Whether the sender is a program outside: values that it derived are not believed."""
        return sender != UNSIGNED and self._known[sender.encode()].scopes is not None


def _why_unfit(command: Command, operation: Operation) -> str | None:
    """The reason why a producer outside may not use these names: the ingress would refuse them, too."""
    if not operation.names(command.aggregate_key):
        return "key_unreadable"
    if operation.takes_anothers_id(command.aggregate_key, command.scope, command.idempotency_key):
        return "key_of_another"
    named = (command.aggregate_key, command.request_id, command.idempotency_key)
    is_unfit = not REQUEST_ID.match(command.request_id) or any(map(card_number.holds_card_number, named))
    return "identity_unfit" if is_unfit else None
