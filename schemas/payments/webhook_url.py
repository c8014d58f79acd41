"""Which addresses a merchant may have webhooks sent to. If this were wrong, a merchant could reach inside our network.

Two halves: a URL is judged when it is given, by its text alone; every address that its name resolves to is judged at
every send, and the connection goes to that very address. Both halves are pure; nobody resolves anything here.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from schemas.payments import limits

_PORTS: Final = {"https": 443, "http": 80}
_PLAIN_PORTS: Final = frozenset(_PORTS.values())
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")  # a name that ends so is read as an address by some resolvers
_INNER_NAMES: Final = ("localhost", "local", "internal", "localdomain", "home", "lan", "corp", "intranet")
_NAME_LENGTH_MAX: Final = 253
_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
#: special by RFC 3879, RFC 7526 and RFC 9637, where Python's own table has them as global
_SPECIAL: Final = tuple(map(ipaddress.ip_network, ("fec0::/10", "192.88.99.0/24", "3fff::/20")))
_V4_COMPATIBLE: Final = ipaddress.ip_network("::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class WebhookUrl:
    """The parts of an accepted URL."""

    scheme: str
    host: str
    port: int
    target: str  # path and query


class RefusedUrl(ValueError):
    """The URL is none that webhooks are sent to; the text says why."""


def parse(text: str, *, loopback: bool = False) -> WebhookUrl:
    """The parts of a URL, judged by its text. Raises RefusedUrl, nothing else.

    ``loopback`` is the development setting: http, and this machine, are allowed too.
    """
    if len(text) > limits.MERCHANT_WEBHOOK_URL_LENGTH_MAX or not re.fullmatch(r"[\x21-\x7e]+", text) or "\\" in text:
        raise RefusedUrl(f"must have at most {limits.MERCHANT_WEBHOOK_URL_LENGTH_MAX} visible ASCII characters")
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise RefusedUrl("must be a URL") from None
    if parts.scheme != "https" and not (loopback and parts.scheme == "http"):
        raise RefusedUrl("must begin with https://")
    if "@" in parts.netloc or parts.fragment or "#" in text:
        raise RefusedUrl("must have no user, password or fragment")
    port = _PORTS[parts.scheme] if port is None else port
    if port not in _PLAIN_PORTS and port < limits.MERCHANT_WEBHOOK_PORT_MIN:
        raise RefusedUrl(f"must have port 80, 443, or one from {limits.MERCHANT_WEBHOOK_PORT_MIN} on")
    is_here = _judge_host(host, loopback=loopback)
    if parts.scheme == "http" and not is_here:
        raise RefusedUrl("must begin with https://")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookUrl(parts.scheme, host, port, target)


def is_allowed(text: str, *, loopback: bool = False) -> bool:
    """Whether a connection may go to this address, as the resolver gave it; every kind of inner address is refused."""
    try:
        address = outer(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    if address is None:
        return False
    if address.is_loopback:
        return loopback
    if any(address in net for net in _SPECIAL):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def outer(address: Address) -> Address | None:
    """The address that packets end up at when another one is packed into this one; None for relays of any kind."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None or address.teredo is not None or any(address in net for net in _NAT64):
        return None
    if address in _V4_COMPATIBLE and not address.is_loopback:
        return None
    return address


def _judge_host(host: str, *, loopback: bool) -> bool:
    """True when the host is this machine by its very text."""
    literal = _literal(host)
    if literal is not None:
        if not is_allowed(host, loopback=loopback):
            raise RefusedUrl("must not lead to a private, loopback, link-local or reserved address")
        return literal.is_loopback
    labels = host.split(".")
    if len(host) > _NAME_LENGTH_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise RefusedUrl("must have the name of a host")
    if _NUMBER.fullmatch(labels[-1]):
        raise RefusedUrl("must have a name, or an address in its usual form")
    if host == "localhost" and loopback:
        return True
    if len(labels) == 1 or labels[-1] in _INNER_NAMES:
        raise RefusedUrl("must have a public name")
    return False


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
