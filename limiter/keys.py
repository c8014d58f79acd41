"""One stable key for all that names the same thing: percent-encoding, Unicode, dots and slashes do not tell apart.

If two aliases of a route made two keys, each would get the whole quota. Source: spec 3 component 06, RFC 3986 6.
"""

from __future__ import annotations

import hashlib
import posixpath
import unicodedata
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from schemas import errors, limits
from schemas.client_network import client_network
from schemas.limit_policy import NETWORK

PARTS: Final = ("tenant", "user", "route")
_DECODINGS_MAX: Final = 4  # %2525...: a name that is still encoded after as many is refused
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


@lru_cache(_CACHED)
def name(field: str, text: str) -> str:
    """A tenant or user in normal form."""
    return _checked(field, _decoded(field, text))


@lru_cache(_CACHED)
def normal_route(route: str) -> str:
    """A route in normal form: decoded, NFC, without dot segments, doubled or closing slashes; the query is no part."""
    path = _decoded("route", route.partition("?")[0].partition("#")[0])
    if path.startswith("/"):
        path = posixpath.normpath("/" + path.lstrip("/"))
    return _checked("route", path)


def network(text: str) -> str:
    """A client's address, or its network, in normal form. Raises InvalidCommand."""
    try:
        return str(client_network(text))
    except ValueError as error:
        reason = "must be an IP address or a network, without a zone"
        raise errors.InvalidCommand([{"field": NETWORK, "reason": reason}]) from error


def _decoded(field: str, text: str) -> str:
    for _ in range(_DECODINGS_MAX):
        try:
            decoded = unquote(text, errors="strict") if "%" in text else text
        except UnicodeDecodeError as error:
            raise errors.InvalidCommand([{"field": field, "reason": "is not UTF-8 when decoded"}]) from error
        if decoded == text:
            return unicodedata.normalize("NFC", text)
        text = decoded
    raise errors.InvalidCommand([{"field": field, "reason": "is percent-encoded too often"}])


def _checked(field: str, text: str) -> str:
    if not 1 <= len(text) <= limits.LIMIT_KEY_PART_LENGTH_MAX:
        reason = f"must have 1 to {limits.LIMIT_KEY_PART_LENGTH_MAX} characters"
        raise errors.InvalidCommand([{"field": field, "reason": reason}])
    if any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in text):
        raise errors.InvalidCommand([{"field": field, "reason": "must not contain control characters"}])
    return text
