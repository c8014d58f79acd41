"""Whether an address is this machine's own: what goes there can be read on no network."""

from __future__ import annotations

import ipaddress


def is_here(host: str) -> bool:
    """Its loopback, or the folder of a socket (none is libpq's own)."""
    name = host.strip("[]")
    if name in ("", "localhost") or name.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
