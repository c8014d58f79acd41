"""One stable key for all that names the same thing: percent-encoding, Unicode, dots and slashes do not tell apart.

If two aliases of a route made two keys, each would get the whole quota. The form is in `schemas/limiter/limit_key.py`.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

import xxhash

from schemas import errors
from schemas.client_network import client_network
from schemas.limiter import limit_key as form
from schemas.limiter.limit_policy import NETWORK

PARTS: Final = ("tenant", "user", "route")
_CACHED: Final = 65_536


def key_parts(tenant: str, user: str, route: str, client: str | None = None) -> dict[str, str]:
    """The normal form of the parts, with the network of a client. Raises InvalidCommand for what can be no key."""
    parts = {"tenant": name("tenant", tenant), "user": name("user", user), "route": normal_route(route)}
    if client is not None:
        parts[NETWORK] = network(client)
    return parts


def limit_key(parts: dict[str, str]) -> str:
    """``tenant:user:route``; tenant and user cannot hold a colon in this form."""
    return ":".join(
        part.replace("%", "%25").replace(":", "%3A") if at < len(PARTS) - 1 else part
        for at, part in enumerate(parts[name_] for name_ in PARTS)
    )


def parts_of(key: str, client: str | None = None) -> dict[str, str]:
    """The parts of a limit key, as ``limit_key`` joins them, with the network of a client. Raises InvalidCommand."""
    pieces = key.split(":", len(PARTS) - 1)
    if len(pieces) != len(PARTS):
        raise errors.InvalidCommand([{"field": "key", "reason": "must be tenant:user:route"}])
    tenant, user, route = pieces
    return key_parts(tenant, user, route, client)


def identity_key(limit_key_: str, identity: bytes) -> bytes:
    """Where the store keeps what was consumed under an identity: no personal data, and of one length."""
    return b"rl:q:" + identity_digest(limit_key_, identity).encode()


def identity_digest(limit_key_: str, identity: bytes) -> str:
    """An identity under its key, of one length and without personal data: the same on every gateway."""
    return hashlib.blake2b(limit_key_.encode() + b"\x1f" + identity, digest_size=16).hexdigest()


def key_hash(limit_key_: str) -> int:
    """XXH64 of a limit key: the seed of the hashes of its identities. Never 0 in practice, which means no key."""
    return xxhash.xxh64_intdigest(limit_key_.encode())


def signed(hash_: int) -> int:
    """The same 64 bits as a number of Postgres."""
    return hash_ - 2**64 if hash_ >= 2**63 else hash_


def signed_hash(limit_key_: str) -> int:
    """The hash of a limit key as tables have it."""
    return signed(key_hash(limit_key_))


def identity_hash(of_key: int, identity: str) -> int:
    """An identity under its key in 64 bits, the same on every gateway.

    Two that are made to collide are as good as one that is used twice: whoever chooses identities can do that anyway.
    """
    return xxhash.xxh64_intdigest(identity.encode(), of_key)


@lru_cache(_CACHED)
def name(field: str, text: str) -> str:
    """A tenant or user in normal form. Raises InvalidCommand."""
    try:
        return form.normal_name(text)
    except ValueError as error:
        raise errors.InvalidCommand([{"field": field, "reason": str(error)}]) from error


def user(subject: str) -> str:
    """The subject of a token in normal form, or its hash when it can be no part of a key: issuers write anything."""
    try:
        return name("user", subject)
    except errors.InvalidCommand:
        return hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(_CACHED)
def normal_route(route: str) -> str:
    """A route in normal form. Raises InvalidCommand."""
    try:
        return form.normal_route(route)
    except ValueError as error:
        raise errors.InvalidCommand([{"field": "route", "reason": str(error)}]) from error


def network(text: str) -> str:
    """A client's address, or its network, in normal form. Raises InvalidCommand."""
    try:
        return str(client_network(text))
    except ValueError as error:
        reason = "must be an IP address or a network, without a zone"
        raise errors.InvalidCommand([{"field": NETWORK, "reason": reason}]) from error
