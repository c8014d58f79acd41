"""granian inside a process of ours, so the pid that was started answers; and how many connections it holds open.

That is far more than it answers requests of. granian takes a connection's place before the first byte of it, and gives
it back when it is closed, so where both are one number those who say nothing shut the door. Who may have how many
requests under way is the matter of ``identity.slots``; a connection that says nothing costs two kilobytes here, and is
closed after ``HEADERS_READ_TIMEOUT_MS``.
"""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING

import psutil
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from ingress import limits

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def server_of(app: ASGIApp, host: str, port: int, files_each: int = 1) -> Server:
    """A server of the application, which writes no access log; several listen on one port (SO_REUSEPORT).

    ``files_each``: that a connection may have open, its own among them.
    """
    return Server(
        app,
        address=host,
        port=port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,  # one connection is one request at a time: nobody gets thousands by one of HTTP/2
        http1_settings=HTTP1Settings(header_read_timeout=limits.HEADERS_READ_TIMEOUT_MS),
        websockets=False,
        log_level=LogLevels.error,
        log_access=False,
        backlog=limits.CONNECTIONS_WAITING_MAX,
        backpressure=connections_max() // files_each,
    )


def connections_max() -> int:
    """For how many there are files; raises this process's own limit of them as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.CONNECTIONS_MAX + limits.FILES_OF_PROCESS_MAX
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):  # some systems have a bound below the one that they tell
            wanted = soft
    return max(wanted - limits.FILES_OF_PROCESS_MAX, wanted // 2)


async def until_listening(serving: asyncio.Task[None], port: int) -> None:
    """Returns once this very process accepts on the port, or serves no more."""
    while not serving.done() and not _listens(port):  # noqa: ASYNC110 - granian gives no event for it
        await asyncio.sleep(limits.LISTEN_POLL_INTERVAL_S)


def _listens(port: int) -> bool:
    """A connection could be answered by another process."""
    found = psutil.Process().net_connections(kind="tcp")
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in found)
