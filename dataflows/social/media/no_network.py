"""A process without a network: it, and whatever it starts, opens no socket from now on. Linux alone.

A decoder that can be talked into fetching (a playlist that names an address) reaches nobody.
"""

from __future__ import annotations

from typing import Final

from dataflows.social.media.call_filter import Refused, refuse

_SOCKET: Final = Refused((41, 198))
_SOCKETPAIR: Final = Refused((53, 199))
_IO_URING_SETUP: Final = Refused((425, 425))  # makes sockets by another way


def forgo() -> bool:
    """No socket is opened from now on; False where that cannot be."""
    return refuse((_SOCKET, _SOCKETPAIR, _IO_URING_SETUP))
