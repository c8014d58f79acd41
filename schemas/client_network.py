"""Networks that clients ask from, in one form: IPv4 however it is written, no zones, prefixes for counting.

A client of one IPv6 network has more addresses than any table of counters has rows: counters are kept by networks.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

V4_BITS: Final = ipaddress.IPV4LENGTH
V6_BITS: Final = ipaddress.IPV6LENGTH
_MAPPED_BITS: Final = V6_BITS - V4_BITS  # of ::ffff:0:0/96, before the IPv4 address
_IPV4: Final = 4
_CACHED: Final = 65_536


@lru_cache(_CACHED)
def client_network(text: str) -> Network:
    """The network of an address (of one) or of a prefix. Raises ValueError, also for a zone and for host bits."""
    if "%" in text:
        raise ValueError("an address with a zone means something on one host only")
    found = ipaddress.ip_network(text)
    if isinstance(found, ipaddress.IPv6Network) and found.prefixlen >= _MAPPED_BITS:
        mapped = found.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.IPv4Network((mapped, found.prefixlen - _MAPPED_BITS))
    return found


def widened(network: Network, v4_bits: int, v6_bits: int) -> Network:
    """The network of that prefix length that holds it; itself when it is as wide already."""
    bits = v4_bits if network.version == _IPV4 else v6_bits
    return network if network.prefixlen <= bits else network.supernet(new_prefix=bits)
