"""Senders of commands: roles, the scopes in which each may speak, and the proof that a record carries.

A record of a command topic carries two headers: ``sender``, a name, and ``mac``, the HMAC-SHA-256 under that sender's
key over ``topic NUL sender NUL``, four bytes of the key's length (big endian), the record's key and its value. The
topic is that of ``schemas.topics``, without an installation's prefix.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Final

from schemas.identity import OPERATOR_SCOPE

SENDER: Final = "sender"
MAC: Final = "mac"

#: the kinds of callers
MERCHANT: Final = "merchant"
TENANT: Final = "tenant"
USER: Final = "user"

#: the calls of merchants, tenants and users
INGRESS: Final = "ingress"
#: callers' policies, whose route writes the audit log: the key of the other calls publishes none
PUBLISHER: Final = "publisher"
#: the operators' door of the ingress, in operators' names
OPERATORS: Final = "operators"
#: what processors answered
PROCESSOR_WORKER: Final = "processor_worker"
#: what processors told by webhook, and holds that ended
WEBHOOK_WORKER: Final = "webhook_worker"
#: what two persons decided: repairs of the ledger, outcomes of attempts
REPAIRS: Final = "repairs"
#: what reports and statements say
RECONCILE: Final = "reconcile"
#: gateways of the rate limiter
GATEWAY: Final = "limiter_gateway"
#: parked commands that an operator lets try again, in whatever name they were: owners look each of them up
PARKED: Final = "parked"

#: what the scope of a declared worker's commands begins with; its name follows
WORKER_SCOPE: Final = "worker:"
_WORKER: Final = "worker."
_INTERNAL: Final = ("processor:", "settlement:", "ledger:", "quota:", WORKER_SCOPE, OPERATOR_SCOPE)
#: how that ends which scopes only begin with; what ends otherwise is a scope itself
_OF_MANY: Final = ("", ":")
_SCOPES: Final[dict[str, tuple[str, ...]]] = {
    OPERATORS: (OPERATOR_SCOPE,),
    PROCESSOR_WORKER: ("processor:",),
    WEBHOOK_WORKER: ("processor:",),
    REPAIRS: ("ledger:repair", "processor:", f"{OPERATOR_SCOPE}approved"),
    RECONCILE: ("processor:", "settlement:", "ledger:reconciliation"),
    GATEWAY: ("quota:",),
    PARKED: ("",),
}
#: what the name of a producer outside begins with: no role does
OUTSIDE: Final = "producer."
#: every role of our own
ROLES: Final = (INGRESS, PUBLISHER, *_SCOPES)

_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(n ^ 0x36 for n in range(256))
_OUTER: Final = bytes(n ^ 0x5C for n in range(256))
Headers = list[tuple[str, str | bytes | None]]


def of_worker(name: str) -> str:
    """The role of a worker that a service declares."""
    return _WORKER + name


def kind_of(scope: str) -> str:
    """What kind of caller has this scope: it stands before a colon, which no merchant's name has."""
    kind, colon, _ = scope.partition(":")
    return kind if colon else MERCHANT


@lru_cache(maxsize=4_096)
def speaks_for(role: str, scope: str) -> bool:
    """Whether a role's commands may have this scope."""
    if role.startswith(_WORKER):
        return scope == WORKER_SCOPE + role.removeprefix(_WORKER)
    if role in (INGRESS, PUBLISHER):  # they speak for callers
        return not scope.startswith(_INTERNAL)
    return any(scope == one or (one[-1:] in _OF_MANY and scope.startswith(one)) for one in _SCOPES[role])


class Sender:
    """One producer and its key, which no text of this shows."""

    def __init__(self, name: str, key: bytes) -> None:
        self.name = name
        self._key = key.ljust(_BLOCK_BYTES, b"\0")  # a longer one would have to be hashed first, by RFC 2104
        if len(self._key) != _BLOCK_BYTES:
            raise ValueError(f"a sender's key has at most {_BLOCK_BYTES} bytes")
        self._states: dict[str, tuple[Any, Any]] = {}

    def __repr__(self) -> str:
        return f"Sender({self.name!r})"

    def headers(self, topic: str, key: str | None, value: bytes) -> Headers:
        """The two headers of one record."""
        return [(SENDER, self.name.encode()), (MAC, self.mac(topic, (key or "").encode(), value))]

    def mac(self, topic: str, key: bytes, value: bytes) -> bytes:
        """HMAC-SHA-256 (RFC 2104). Its first blocks are hashed once per topic: half the cost of ``hmac.digest``."""
        inner, outer = self._states.get(topic) or self._begin(topic)
        digest = inner.copy()
        digest.update(len(key).to_bytes(4, "big") + key + value)
        found = outer.copy()
        found.update(digest.digest())
        return bytes(found.digest())

    def _begin(self, topic: str) -> tuple[Any, Any]:
        prefix = f"{topic}\0{self.name}\0".encode()
        states = (
            hashlib.sha256(self._key.translate(_INNER) + prefix),
            hashlib.sha256(self._key.translate(_OUTER)),
        )
        self._states[topic] = states
        return states
