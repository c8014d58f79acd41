"""A list of a policy, ready to be searched: texts as they are, addresses also by the networks that hold them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from msgspec import Struct

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class EntryList(Struct, frozen=True):
    """What a value may be in."""

    texts: frozenset[str]
    networks: tuple[Network, ...]

    def holds(self, value: str) -> bool:
        """Whether the value is one of the entries."""
        return value in self.texts

    def holds_address(self, value: str) -> bool | None:
        """Whether the address is in one of the networks; None for what is no address."""
        try:
            address = ipaddress.ip_address(value)
        except ValueError:
            return None
        return any(address in network for network in self.networks)


def entry_list(entries: Iterable[str]) -> EntryList:
    """A list as it was published."""
    texts = frozenset(entries)
    networks = (network_of(entry) for entry in texts)
    return EntryList(texts, tuple(network for network in networks if network is not None))


def network_of(entry: str) -> Network | None:
    """The network that an entry means, an address being a network of one; None for anything else."""
    try:
        return ipaddress.ip_network(entry)
    except ValueError:
        return None
