"""Verifies a record's sender, and that it may send this, before the command is decided. No key, no effect.

A record that fails is refused: nothing of it is believed, so nobody is answered, no identity is taken and no aggregate
is parked. It is kept with its reason (``records_refused_insert``), as many of a partition as ``limits`` allows.
"""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from dataflows import limits
from schemas import card_number
from schemas.identity import REQUEST_ID
from schemas.senders import MAC, PARKED, SENDER, speaks_for

if TYPE_CHECKING:
    from confluent_kafka import Message

    from schemas.operation import Operation
    from schemas.records import Command
    from sinks.kafka.sender_keys import KnownSender

#: what is stored of a command that lay in the topic before records were signed
UNSIGNED: Final = "unsigned"
_TICK_NS: Final = 1_000_000_000
log: Final = structlog.get_logger()


class Keys(Protocol):
    """Where the keys lie: ``sinks.kafka.sender_keys.SenderKeys``."""

    def known(self) -> dict[bytes, KnownSender]:
        """Everybody who may send."""

    def changed_at(self) -> int:
        """Differs after a key has come or gone."""


class Senders:
    """The known senders of one process; used by its reading thread alone."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._known: dict[bytes, KnownSender] = {}
        self._seen = -1
        self._look_due = 0.0

    def look(self) -> None:
        """Now and then: follows keys that came and went. Where they cannot be read, those before stay in force."""
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
            is_settled = time.time_ns() - seen > _TICK_NS  # another key may come in the same tick of the file system
            self._seen = seen if is_settled else -1
        except (OSError, ValueError, KeyError) as error:
            log.warning("sender_keys_not_read", error=repr(error))
            return False
        return True

    def sender_of(self, topic: str, message: Message, *, needs_mac: bool) -> tuple[str, str | None]:
        """Who signed this record, "" for nobody, and then a word why. Called for every record.

        ``needs_mac`` is False for what lay in the topic before records were signed.
        """
        headers = dict(message.headers() or ())
        name, mac = headers.get(SENDER), headers.get(MAC)
        if name is None and mac is None and not needs_mac:
            return UNSIGNED, None
        if not isinstance(name, bytes) or not isinstance(mac, bytes):
            return "", "sender_missing"
        known = self._known.get(name)
        if known is None and self._read():  # of somebody who was added a moment ago
            known = self._known.get(name)
        if known is None:
            return "", "sender_unknown"
        if not hmac.compare_digest(mac, known.sender.mac(topic, message.key() or b"", message.value() or b"")):
            return "", "mac_wrong"
        return known.sender.name, None

    def scopes_of(self, sender: str) -> tuple[str, ...] | None:
        """Whom a sender that was found speaks for, of a producer outside; None for a role of ours."""
        return self._known[sender.encode()].scopes

    def why_not(self, sender: str, command: Command, operation: Operation | None, key: bytes | None) -> str | None:
        """Why this sender may not send this command; None when it may."""
        if key != command.aggregate_key.encode():
            return "key_differs"
        if sender == UNSIGNED:
            return None
        scopes = self._known[sender.encode()].scopes
        allowed = speaks_for(sender, command.scope) if scopes is None else command.scope in scopes
        if not allowed:
            return "scope_not_allowed"
        if operation is None or sender == PARKED:
            return None  # an operation of another service is refused where it would be decided
        may_send = (
            operation.is_from_role(sender, command) if scopes is None else operation.is_from_outside(command.scope)
        )
        if not may_send:
            return "operation_not_allowed"
        return None if scopes is None else _why_unfit(command, operation)

    def is_outside(self, sender: str) -> bool:
        """Whether a sender that ``sender_of`` gave is no process of ours: what it derived is not believed."""
        return sender != UNSIGNED and self._known[sender.encode()].scopes is not None


def _why_unfit(command: Command, operation: Operation) -> str | None:
    """Why a producer outside may not name it so: names are stored, shown and looked up, as those at the ingress are."""
    if not operation.names(command.aggregate_key):
        return "key_unreadable"
    if operation.takes_anothers_id(command.aggregate_key, command.scope, command.idempotency_key):
        return "key_of_another"
    named = (command.aggregate_key, command.request_id, command.idempotency_key)
    is_unfit = not REQUEST_ID.match(command.request_id) or any(map(card_number.holds_card_number, named))
    return "identity_unfit" if is_unfit else None
