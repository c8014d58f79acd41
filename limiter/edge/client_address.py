"""From where an HTTP request comes: the peer, or what trusted proxies say of theirs.

``X-Forwarded-For`` is written by whoever sends it. It is read from its end, as far as each hop was added by a proxy
that is trusted; what stands before the first stranger is that stranger's word and is never believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schemas.client_network import client_network
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Scope

    from schemas.client_network import Network

_FORWARDED: Final = b"x-forwarded-for"


def client_address(scope: Scope, trusted: Sequence[Network] = ()) -> str | None:
    """The address of the client; None for a peer that has none, such as one on a Unix socket."""
    peer = scope.get("client")
    nearest = None if peer is None else _address(str(peer[0]))
    if nearest is None or not _is_trusted(nearest, trusted):
        return None if nearest is None else str(nearest.network_address)
    for hop in reversed(_hops(scope)):
        found = _address(hop)
        if found is None:  # a proxy that hides its peer: the proxy is the last that is known
            break
        nearest = found
        if not _is_trusted(found, trusted):
            break
    return str(nearest.network_address)


def _hops(scope: Scope) -> list[str]:
    """The last hops of all fields together; more of them no chain of ours has."""
    given = b",".join(value for name, value in scope["headers"] if name == _FORWARDED).decode("latin-1")
    return [hop.strip() for hop in given.rsplit(",", limits.LIMIT_PROXIES_MAX)[-limits.LIMIT_PROXIES_MAX :]]


def _address(text: str) -> Network | None:
    """A network of one; None for what is no address."""
    try:
        return None if "/" in text else client_network(text)
    except ValueError:
        return None


def _is_trusted(address: Network, trusted: Sequence[Network]) -> bool:
    return any(address.version == one.version and address.network_address in one for one in trusted)
